/* Functions of scipy.special for loops over arrays, without branches as those of vector_math.h; special values as SciPy has
   them.

   erf is exact to 1.5 ulp, entr, xlogy and xlog1py to 2.5, gammaln and psi (digamma) to 5, the others to 6, log_ndtr near 0
   to 9. Beside these errors stands the rounding of x / sqrt(2) in ndtr and log_ndtr, and of reflections in gammaln and psi of
   negative numbers. Formulas are those of the Digital Library of Mathematical Functions, chapters 5 and 7.

   Polynomials interpolate at Chebyshev points. They are computed as four polynomials in the fourth power at once: the steps
   of one alone would wait for each other. */

/* ---- error functions */

/* q of erf(x) = x + x * q(x * x) for |x| < 1 */
SG double sg_erf_poly(double z)
{
    double x2 = z * z, x4 = x2 * x2;
    double a = 0x1.b981d78881a5dp-20, b = -0x1.5c131500d3f88p-23,
        c = 0x1.d76af6ca49787p-27, d = -0x1.ac9585a44fe29p-31;
    a = SG_FMA(a, x4, 0x1.565bccfa44156p-8);
    b = SG_FMA(b, x4, -0x1.c02db0665e53dp-11);
    c = SG_FMA(c, x4, 0x1.f9a2be4f731a1p-14);
    d = SG_FMA(d, x4, -0x1.f4ca838adb73bp-17);
    a = SG_FMA(a, x4, 0x1.06eba8214db68p-3);
    b = SG_FMA(b, x4, -0x1.812746b0379c1p-2);
    c = SG_FMA(c, x4, 0x1.ce2f21a040f66p-4);
    d = SG_FMA(d, x4, -0x1.b82ce31203772p-6);
    return SG_FMA(SG_FMA(d, z, c), x2, SG_FMA(b, z, a));
}

/* erfcx(x) (1 + 2 x) for x >= 0, in t = (x - 4) / (x + 4) */
SG double sg_erfcx_poly(double t)
{
    double x2 = t * t, x4 = x2 * x2;
    double a = -0x1.1904891a07858p-26, b = -0x1.af097381d5952p-27,
        c = 0x1.afe473b55530fp-30, d = 0x1.0967e52795d87p-30;
    a = SG_FMA(a, x4, 0x1.400a0021a304ap-22);
    b = SG_FMA(b, x4, -0x1.b9339da7bf9a1p-21);
    c = SG_FMA(c, x4, 0x1.31744dd9b5f1cp-24);
    d = SG_FMA(d, x4, 0x1.cad9b27d6e5bfp-24);
    a = SG_FMA(a, x4, 0x1.3be12bafabe1ep-13);
    b = SG_FMA(b, x4, -0x1.99551e5f87e2ap-16);
    c = SG_FMA(c, x4, -0x1.78a738afaf634p-17);
    d = SG_FMA(d, x4, 0x1.7f01a118598f4p-18);
    a = SG_FMA(a, x4, -0x1.0962386da3254p-6);
    b = SG_FMA(b, x4, 0x1.49c672b9685cep-8);
    c = SG_FMA(c, x4, -0x1.8d4aaa8fbedbcp-11);
    d = SG_FMA(d, x4, -0x1.a1df4a1e543bbp-13);
    a = SG_FMA(a, x4, -0x1.9ddb23c3e0c24p-4);
    b = SG_FMA(b, x4, 0x1.7fee004e16d41p-4);
    c = SG_FMA(c, x4, -0x1.0fb06dfee4790p-4);
    d = SG_FMA(d, x4, 0x1.3079edf5d9d05p-5);
    a = SG_FMA(a, x4, 0x1.3ba5916e9fd7fp+0);
    b = SG_FMA(b, x4, -0x1.1df1ad154a28ep-3);
    c = SG_FMA(c, x4, 0x1.f7f5df66fc17fp-7);
    d = SG_FMA(d, x4, 0x1.16ecefcfa5214p-4);
    return SG_FMA(SG_FMA(d, t, c), x2, SG_FMA(b, t, a));
}

SG double sg_scaled_erfc(double a) { return sg_erfcx_poly(1.0 - 8.0 / (a + 4.0)) / (1.0 + 2.0 * a); }

/* exp(sign * a * a), of which the square is exact in two parts */
SG double sg_exp_of_square(double a, double sign)
{
    double hi = sg_real(sg_bits(a) & 0xfffffffff8000000ull), rest = sign * ((a - hi) * (a + hi));
    return sg_exp(sign * (hi * hi)) * (1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0))));
}

SG double sg_erf(double x)
{
    double a = fabs(x) > 28.0 ? 28.0 : fabs(x), z = a < 1.0 ? x : 0.0;
    double tail = sg_exp_of_square(a, -1.0) * sg_scaled_erfc(a);
    return a < 1.0 ? SG_FMA(z, sg_erf_poly(z * z), z) : copysign(1.0 - tail, x);
}

SG double sg_erfc(double x)
{
    double a = fabs(x) > 28.0 ? 28.0 : fabs(x), z = a < 0.5 ? x : 0.0;
    double tail = sg_exp_of_square(a, -1.0) * sg_scaled_erfc(a);
    tail = x < 0.0 ? 2.0 - tail : tail;
    return a < 0.5 ? 1.0 - SG_FMA(z, sg_erf_poly(z * z), z) : tail;
}

SG double sg_erfcx(double x)
{
    double a = fabs(x), y = sg_scaled_erfc(a);
    double left = a > 28.0 ? INFINITY : 2.0 * sg_exp_of_square(a > 28.0 ? 28.0 : a, 1.0) - y;
    return x < 0.0 ? left : y;
}

#define SG_ROOT_HALF 0.70710678118654752440
SG double sg_ndtr(double x) { return 0.5 * sg_erfc(-(x * SG_ROOT_HALF)); }

SG double sg_log_ndtr(double x)
{
    double t = x * SG_ROOT_HALF, a = fabs(t), y = sg_scaled_erfc(a);
    double tail = 0.5 * sg_exp_of_square(a > 28.0 ? 28.0 : a, -1.0) * y;
    bool is_left = x < -1.0;
    y = y < 0x1p-52 ? 0x1p-52 : y; /* beside the square of t no logarithm counts there */
    return sg_log1p(is_left ? 0.5 * y - 1.0 : t < 0.0 ? tail - 1.0 : -tail) - (is_left ? t * t : 0.0);
}

SG float sg_erff(float x) { return (float)sg_erf((double)x); }
SG float sg_erfcf(float x) { return (float)sg_erfc((double)x); }
SG float sg_erfcxf(float x) { return (float)sg_erfcx((double)x); }
SG float sg_ndtrf(float x) { return (float)sg_ndtr((double)x); }
SG float sg_log_ndtrf(float x) { return (float)sg_log_ndtr((double)x); }

/* ---- products with logarithms, of which a factor of 0 makes 0 */

SG double sg_xlogy(double x, double y) { return (x == 0.0) & (y == y) ? 0.0 : x * sg_log(y); }
SG double sg_xlog1py(double x, double y) { return (x == 0.0) & (y == y) ? 0.0 : x * sg_log1p(y); }
SG double sg_entr(double x) { return x < 0.0 ? -INFINITY : x == 0.0 ? 0.0 : -x * sg_log(x); }
SG float sg_xlogyf(float x, float y) { return (x == 0.0f) & (y == y) ? 0.0f : x * sg_logf(y); }
SG float sg_xlog1pyf(float x, float y) { return (x == 0.0f) & (y == y) ? 0.0f : x * sg_log1pf(y); }
SG float sg_entrf(float x) { return x < 0.0f ? -INFINITY : x == 0.0f ? 0.0f : -x * sg_logf(x); }

/* ---- the gamma function: its logarithm, and the derivative of that */

/* lgamma(1 + e) / e for -0.3 < e < 0.5 */
SG double sg_gamma_poly1(double e)
{
    double x2 = e * e, x4 = x2 * x2;
    double a = -0x1.c8a4aff80a083p-5, b = 0x1.bb33f1258b8a1p-5,
        c = -0x1.1aab4927074f3p-5, d = 0x1.483b5760fa422p-7;
    a = SG_FMA(a, x4, -0x1.e2baf453c1cbcp-5);
    b = SG_FMA(b, x4, 0x1.c2b432654b6bdp-5);
    c = SG_FMA(c, x4, -0x1.a2f746bcbc602p-5);
    d = SG_FMA(d, x4, 0x1.a151160674349p-5);
    a = SG_FMA(a, x4, -0x1.3b1d03148253ap-4);
    b = SG_FMA(b, x4, 0x1.24909a7b818afp-4);
    c = SG_FMA(c, x4, -0x1.1113cc0c43c90p-4);
    d = SG_FMA(d, x4, 0x1.005355ca44145p-4);
    a = SG_FMA(a, x4, -0x1.c8067017347f3p-4);
    b = SG_FMA(b, x4, 0x1.9a01e197c6637p-4);
    c = SG_FMA(c, x4, -0x1.748c3d414adcfp-4);
    d = SG_FMA(d, x4, 0x1.556b1e0c542d2p-4);
    a = SG_FMA(a, x4, -0x1.a8b9c17aa4737p-3);
    b = SG_FMA(b, x4, 0x1.5b40cb1003cccp-3);
    c = SG_FMA(c, x4, -0x1.2703a1ddaa124p-3);
    d = SG_FMA(d, x4, 0x1.010b36b364be6p-3);
    a = SG_FMA(a, x4, -0x1.2788cfc6fb619p-1);
    b = SG_FMA(b, x4, 0x1.a51a6625307d3p-1);
    c = SG_FMA(c, x4, -0x1.9a4d55beab2e2p-2);
    d = SG_FMA(d, x4, 0x1.151322ac7d88cp-2);
    return SG_FMA(SG_FMA(d, e, c), x2, SG_FMA(b, e, a));
}

/* lgamma(2 + e) / e for -0.5 < e < 1 */
SG double sg_gamma_poly2(double e)
{
    double x2 = e * e, x4 = x2 * x2;
    double a = -0x1.a9df52df1ce4bp-27, b = 0x1.c03347a0459cap-30,
        c = -0x1.cf31e04c8a545p-24, d = 0x1.7ec8d45bd1d10p-25;
    a = SG_FMA(a, x4, -0x1.e3a27fc880d0ap-22);
    b = SG_FMA(b, x4, 0x1.daa516a1337e9p-23);
    a = SG_FMA(a, x4, -0x1.3cc2b2cb64d9ep-17);
    b = SG_FMA(b, x4, 0x1.25a2096292673p-18);
    c = SG_FMA(c, x4, -0x1.116ae50b2c13bp-19);
    d = SG_FMA(d, x4, 0x1.feab843b817d5p-21);
    a = SG_FMA(a, x4, -0x1.d3fd4deee3f66p-13);
    b = SG_FMA(b, x4, 0x1.a127abf1a07a3p-14);
    c = SG_FMA(c, x4, -0x1.78de1b10391f5p-15);
    d = SG_FMA(d, x4, 0x1.580de5056dfc0p-16);
    a = SG_FMA(a, x4, -0x1.e404fc219310ep-8);
    b = SG_FMA(b, x4, 0x1.7add6ead6e2f2p-9);
    c = SG_FMA(c, x4, -0x1.38ac5c29a5e4bp-10);
    d = SG_FMA(d, x4, 0x1.0b36af9ac4c20p-11);
    a = SG_FMA(a, x4, 0x1.b0ee6072093cep-2);
    b = SG_FMA(b, x4, 0x1.4a34cc4a60fa6p-2);
    c = SG_FMA(c, x4, -0x1.13e001a5575fdp-4);
    d = SG_FMA(d, x4, 0x1.51322ac7d87d7p-6);
    return SG_FMA(SG_FMA(d, e, c), x2, SG_FMA(b, e, a));
}

/* One factor of a product, until y < 3; loops within loops are not vectorised. */
#define SG_PRODUCT p = y >= 3.0 ? p * (y - 1.0) : p, y = y >= 3.0 ? y - 1.0 : y;

/* lgamma(x) = log(p) + lgamma(y) with a product p and 0.7 < y < 3; from 8 on Stirling's series. */
SG double sg_near_gammaln(double x)
{
    bool is_large = x >= 8.0;
    double y = is_large ? 1.0 : x, p = 1.0 / (y < 0.7 ? fabs(y) : 1.0);
    y = y < 0.7 ? y + 1.0 : y;
    SG_PRODUCT SG_PRODUCT SG_PRODUCT SG_PRODUCT SG_PRODUCT
    double e1 = y < 1.5 ? y - 1.0 : 0.0, e2 = y < 1.5 ? 0.0 : y - 2.0;
    double small = e1 * sg_gamma_poly1(e1) + e2 * sg_gamma_poly2(e2);
    double r = 1.0 / (is_large ? x : 1.0), z = r * r, s = -0x1.6476701181f3ap+0;
    s = SG_FMA(s, z, 0x1.6fe96381e0680p-3);
    s = SG_FMA(s, z, -0x1.e4286cb0f5398p-6);
    s = SG_FMA(s, z, 0x1.a41a41a41a41ap-8);
    s = SG_FMA(s, z, -0x1.f6ab0d9993c7dp-10);
    s = SG_FMA(s, z, 0x1.b951e2b18ff23p-11);
    s = SG_FMA(s, z, -0x1.3813813813814p-11);
    s = SG_FMA(s, z, 0x1.a01a01a01a01ap-11);
    s = SG_FMA(s, z, -0x1.6c16c16c16c17p-9);
    s = SG_FMA(s, z, 0x1.5555555555555p-4);
    double log_of = sg_log(is_large ? x : p), large = SG_FMA(x - 0.5, log_of, -x) + (0.91893853320467274178 + r * s);
    double v = is_large ? large : log_of + small;
    return x == INFINITY ? x : v;
}

/* psi(x) / e for 1 < x < 2, where e is x less the zero */
SG double sg_psi_poly(double e)
{
    double x2 = e * e, x4 = x2 * x2;
    double a = 0x1.a29076cfccbc4p-12, b = -0x1.6b107f71aa124p-13,
        c = 0x1.bbdd7fb56106fp-12, d = -0x1.a7e9fae0307a4p-12;
    a = SG_FMA(a, x4, 0x1.207213d1b8b4ap-10);
    b = SG_FMA(b, x4, -0x1.6d067620515adp-11);
    a = SG_FMA(a, x4, 0x1.42e6e557f720ap-8);
    b = SG_FMA(b, x4, -0x1.b95d44a9d2957p-9);
    c = SG_FMA(c, x4, 0x1.2db36a204a5ffp-9);
    d = SG_FMA(d, x4, -0x1.a0e4f33c67ca2p-10);
    a = SG_FMA(a, x4, 0x1.723d688a13c1bp-6);
    b = SG_FMA(b, x4, -0x1.f9702704949c0p-7);
    c = SG_FMA(c, x4, 0x1.5955a64b614e1p-7);
    d = SG_FMA(d, x4, -0x1.d82caeb34a3b2p-8);
    a = SG_FMA(a, x4, 0x1.b9a5b6370de92p-4);
    b = SG_FMA(b, x4, -0x1.27baba24d962ep-4);
    c = SG_FMA(c, x4, 0x1.8fce02b1b1c38p-5);
    d = SG_FMA(d, x4, -0x1.0fa7eca55d68dp-5);
    a = SG_FMA(a, x4, 0x1.ef72bc8ee38acp-1);
    b = SG_FMA(b, x4, -0x1.c563b54aa1a2bp-2);
    c = SG_FMA(c, x4, 0x1.08b4294d50395p-2);
    d = SG_FMA(d, x4, -0x1.4fc13172598b2p-3);
    return SG_FMA(SG_FMA(d, e, c), x2, SG_FMA(b, e, a));
}

/* One term 1/(y - 1), until y < 2. */
#define SG_FRACTION \
    above = y >= 2.0 ? SG_FMA(above, y - 1.0, below) : above, below = y >= 2.0 ? below * (y - 1.0) : below, \
    y = y >= 2.0 ? y - 1.0 : y;

/* 1/(x - 1) + 1/(x - 2) + ... + psi(y) with 1 < y < 2; from 10 on log(x) - 1/(2x) - ... */
SG double sg_near_psi(double x)
{
    bool is_large = x >= 10.0, is_small = x < 1.0;
    double y = is_large | is_small ? 1.0 : x, above = 0.0, below = 1.0;
    SG_FRACTION SG_FRACTION SG_FRACTION SG_FRACTION SG_FRACTION SG_FRACTION SG_FRACTION SG_FRACTION
    y = is_small ? x + 1.0 : y;
    double e = (y - 0x1.762d86356be3fp+0) - 0x1.b86a722197829p-54;
    double small = (is_small ? -1.0 / (is_small ? x : 1.0) : above / below) + e * sg_psi_poly(e);
    double r = 1.0 / (is_large ? x : 1.0), z = r * r;
    double s = 0x1.1975cc0ed7304p+8;
    s = SG_FMA(s, z, -0x1.a74ca514ca515p+4);
    s = SG_FMA(s, z, 0x1.86e7f9b9fe6e8p+1);
    s = SG_FMA(s, z, -0x1.c5e5e5e5e5e5ep-2);
    s = SG_FMA(s, z, 0x1.5555555555555p-4);
    s = SG_FMA(s, z, -0x1.5995995995996p-6);
    s = SG_FMA(s, z, 0x1.f07c1f07c1f08p-8);
    s = SG_FMA(s, z, -0x1.1111111111111p-8);
    s = SG_FMA(s, z, 0x1.0410410410410p-8);
    s = SG_FMA(s, z, -0x1.1111111111111p-7);
    s = SG_FMA(s, z, 0x1.5555555555555p-4);
    double v = is_large ? sg_log(is_large ? x : 1.0) - (0.5 * r + z * s) : small;
    return x == INFINITY ? x : v;
}

/* Where x is negative, by reflection. */
#define SG_PI 3.14159265358979323846
SG double sg_far_gammaln(double x)
{
    double rest = x - rint(x);
    if (!(x < 0.0))
        return sg_near_gammaln(x);
    if (x == -INFINITY)
        return x;
    return rest == 0.0 ? INFINITY : log(SG_PI / fabs(sin(SG_PI * rest))) - sg_near_gammaln(1.0 - x);
}

SG double sg_far_psi(double x)
{
    double rest = x - rint(x);
    if (!(x < 0.0))
        return sg_near_psi(x);
    return rest == 0.0 ? NAN : sg_near_psi(1.0 - x) - SG_PI / tan(SG_PI * rest);
}

/* A negative number is noted, and 1 is taken in its place. */
#define SG_RIGHT(near, function, x) ({ \
    const double sg_x = (x); \
    const bool sg_is_far = !exact & (sg_x < 0.0); \
    far |= sg_is_far ? 1 : 0; \
    exact ? function(sg_x) : near(sg_is_far ? 1.0 : sg_x); })
#define sg_gammaln(x) SG_RIGHT(sg_near_gammaln, sg_far_gammaln, x)
#define sg_psi(x) SG_RIGHT(sg_near_psi, sg_far_psi, x)
#define sg_gammalnf(x) ((float)sg_gammaln(x))
#define sg_psif(x) ((float)sg_psi(x))

/* ---- sin(pi x) / (pi x), as NumPy computes it */

#define sg_sinc(x) ({ \
    const double sg_u = (x), sg_y = SG_PI * (sg_u == 0.0 ? 1e-20 : sg_u); \
    sg_sin(sg_y) / sg_y; })
#define sg_sincf(x) ({ \
    const float sg_u = (x), sg_y = (float)SG_PI * (sg_u == 0.0f ? 1e-20f : sg_u); \
    sg_sinf(sg_y) / sg_y; })
