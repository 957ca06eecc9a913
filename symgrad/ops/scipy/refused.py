"""`scipy.special`: functions that are refused by name, with the reason and what to write instead."""

from functools import partial

import scipy.special as sp

from symgrad.ops.define import refuses_at

_KEEP = "Compute it outside with numbers, or give it to symgrad.operator with its derivative."


_refuses = partial(refuses_at, sp)
_refuses(
    "{} has no derivative by a formula that symgrad knows",
    "Give it to symgrad.operator with its derivative, or write it with functions that have one.",
    """agm airye besselpoly elliprc elliprd elliprf elliprg elliprj ellipj ellipeinc ellipkinc eval_sh_jacobi
    bei beip ber berp kei keip ker kerp kelvin it2i0k0 it2j0y0 it2struve0 itairy iti0k0 itj0y0 itmodstruve0 itstruve0
    struve modstruve log_wright_bessel wright_bessel zetac modfresnelm modfresnelp pbdv pbvv pbwa pbdn_seq pbdv_seq
    pbvv_seq lmbda riccati_jn riccati_yn tklmbda diric kolmogorov smirnov nctdtr ncfdtr chndtr nbdtr nbdtrc fdtr fdtrc
    ellip_harm ellip_harm_2 ellip_normal
    mathieu_a mathieu_b mathieu_cem mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 mathieu_sem
    obl_ang1 obl_ang1_cv obl_cv obl_rad1 obl_rad1_cv obl_rad2 obl_rad2_cv obl_cv_seq
    pro_ang1 pro_ang1_cv pro_cv pro_rad1 pro_rad1_cv pro_rad2 pro_rad2_cv pro_cv_seq""",
)
_refuses(
    "{} is not supported: it inverts a distribution function by a search",
    "Solve for it with symgrad.root, which differentiates the solution.",
    """bdtri bdtrik bdtrin btdtr btdtri btdtria btdtrib chdtri chdtriv chndtridf chndtrinc chndtrix fdtri fdtridfd
    gdtria gdtrib gdtrix kolmogi nbdtri nbdtrik nbdtrin ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc nctdtridf nctdtrinc
    nctdtrit nrdtrimn nrdtrisd pdtri pdtrik smirnovi stdtridf""",
)
_refuses(
    "{} of a traced number is not supported: its result is complex",
    "Write the real and the imaginary part with functions of real numbers, such as jv and yv.",
    "hankel1 hankel1e hankel2 hankel2e h1vp h2vp lambertw sph_harm sph_harm_y sph_harm_y_all",
)
_refuses(
    "{} is not supported: SciPy computes all degrees up to the given ones in compiled code",
    "Write the recurrence over the degrees, or eval_legendre and eval_gegenbauer for one degree.",
    """lpmv lpmn lpn lqmn lqn clpmn assoc_legendre_p assoc_legendre_p_all legendre_p legendre_p_all sph_legendre_p
    sph_legendre_p_all""",
)
_refuses(
    "{} counts, and is a number for each integer: it has no derivative",
    "Compute it outside with numbers; scipy.special.gamma(n + 1) is the factorial of any n.",
    "bernoulli euler factorial2 factorialk stirling2",
)
_refuses(
    "{} finds nodes and weights of a quadrature in compiled code",
    _KEEP,
    """roots_legendre roots_chebyt roots_chebyu roots_chebyc roots_chebys roots_jacobi roots_laguerre roots_genlaguerre
    roots_hermite roots_hermitenorm roots_gegenbauer roots_sh_legendre roots_sh_chebyt roots_sh_chebyu roots_sh_jacobi
    p_roots t_roots u_roots c_roots s_roots j_roots l_roots la_roots h_roots he_roots cg_roots ps_roots ts_roots
    us_roots js_roots""",
)
_refuses(
    "{} makes an object of a polynomial, whose coefficients SciPy finds in compiled code",
    "Write scipy.special.eval_legendre(n, x) and its like, which give values.",
    """legendre chebyt chebyu chebyc chebys jacobi laguerre genlaguerre hermite hermitenorm gegenbauer sh_legendre
    sh_chebyt sh_chebyu sh_jacobi assoc_laguerre""",
)
_refuses(
    "{} finds zeros or coefficients for integers, which have no derivative",
    _KEEP,
    """ai_zeros bei_zeros beip_zeros ber_zeros berp_zeros bi_zeros erf_zeros fresnel_zeros fresnelc_zeros fresnels_zeros
    jn_zeros jnjnp_zeros jnp_zeros jnyn_zeros kei_zeros keip_zeros kelvin_zeros ker_zeros kerp_zeros y0_zeros y1_zeros
    y1p_zeros yn_zeros ynp_zeros mathieu_even_coef mathieu_odd_coef""",
)
