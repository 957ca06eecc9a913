/* Elementary functions for loops over arrays.

   They have no branches that compilers do not turn into masks, so that loops which call them are vectorised, and are
   exact to 1.8 ulp (tan and tanh to 2.5); zeros keep their signs, and infinities, NaN and denormal numbers give what
   C's library gives. Polynomials are minimax fits; numbers are kept in two parts, hi + lo, where one is not exact enough
   (Muller et al., Handbook of Floating-Point Arithmetic, chapters 10 and 11).

   sin, cos and tan hold up to SG_FAR. A function that calls them notes in `far` whether it has met a larger number, and
   then computes everything again with `exact` set: then they are those of C's library. pow is that of C's library where
   there is no fused multiplication.

   It must not be compiled with -ffast-math. */
#define SG static inline __attribute__((always_inline, unused))

/* ---- bits of numbers */

SG uint64_t sg_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}

SG double sg_real(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

SG uint32_t sg_bitsf(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

SG float sg_realf(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* a * b + c, rounded once where the processor can. */
#if defined(__FMA__) || defined(__aarch64__)
#define SG_HAS_FMA 1
#define SG_FMA(a, b, c) __builtin_fma(a, b, c)
#define SG_FMAF(a, b, c) __builtin_fmaf(a, b, c)
#else
#define SG_HAS_FMA 0
#define SG_FMA(a, b, c) ((a) * (b) + (c))
#define SG_FMAF(a, b, c) ((a) * (b) + (c))
#endif

/* What is added to it is rounded to an integer, which then stands in its last bits. */
#define SG_SHIFT 0x1.8p52
#define SG_SHIFTF 0x1.8p23f

/* p * 2^k, in two steps, since 2^k alone may overflow or be denormal. */
SG double sg_pow2(double k) { return sg_real((sg_bits(k + SG_SHIFT) << 52) + 0x3ff0000000000000ull); }
SG float sg_pow2f(float k) { return sg_realf((sg_bitsf(k + SG_SHIFTF) << 23) + 0x3f800000u); }

SG double sg_scaled(double p, double k)
{
    double half = (k * 0.5 + SG_SHIFT) - SG_SHIFT;
    return p * sg_pow2(half) * sg_pow2(k - half);
}

SG float sg_scaledf(float p, float k)
{
    float half = (k * 0.5f + SG_SHIFTF) - SG_SHIFTF;
    return p * sg_pow2f(half) * sg_pow2f(k - half);
}

/* ---- exponentials: x = k log(2) + r with |r| < log(2)/2 */

#define SG_LOG2E 0x1.71547652b82fep0
#define SG_LN2_HI 0x1.62e42fefa3800p-1  /* its product with k is exact */
#define SG_LN2_LO 0x1.ef35793c76730p-45

/* q of exp(r) = 1 + r + r * r * q */
SG double sg_exp_poly(double r)
{
    double q = 0x1.af38a9b0ec855p-26;
    q = SG_FMA(q, r, 0x1.289185613a3d6p-22);
    q = SG_FMA(q, r, 0x1.71de0dae63bb3p-19);
    q = SG_FMA(q, r, 0x1.a019b90d2ae7ap-16);
    q = SG_FMA(q, r, 0x1.a01a01a7c41d5p-13);
    q = SG_FMA(q, r, 0x1.6c16c1788bd90p-10);
    q = SG_FMA(q, r, 0x1.11111111109b3p-7);
    q = SG_FMA(q, r, 0x1.5555555553d63p-5);
    q = SG_FMA(q, r, 0x1.5555555555556p-3);
    return SG_FMA(q, r, 0x1.0000000000001p-1);
}

SG double sg_exp(double x)
{
    x = x > 710.0 ? 710.0 : x;
    x = x < -750.0 ? -750.0 : x;
    double k = SG_FMA(x, SG_LOG2E, SG_SHIFT) - SG_SHIFT;
    double r = SG_FMA(-k, SG_LN2_HI, x);
    r = SG_FMA(-k, SG_LN2_LO, r);
    return sg_scaled(SG_FMA(r * r, sg_exp_poly(r), r) + 1.0, k);
}

SG double sg_expm1(double x)
{
    x = x > 710.0 ? 710.0 : x;
    x = x < -60.0 ? -60.0 : x;
    double k = SG_FMA(x, SG_LOG2E, SG_SHIFT) - SG_SHIFT;
    double hi = SG_FMA(-k, SG_LN2_HI, x), lo = k * SG_LN2_LO;
    double r = hi - lo, rest = (hi - r) - lo;
    double p = SG_FMA(r * r, sg_exp_poly(r), rest + rest * r); /* exp(r + rest) - 1 - r */
    double half = (k * 0.5 + SG_SHIFT) - SG_SHIFT, a = sg_pow2(half), b = sg_pow2(k - half), s = a * b;
    double y = k > 60.0 ? ((r + p) + 1.0) * a * b : SG_FMA(s, r, s - 1.0) + s * p;
    y = k == 0.0 ? r + p : y;
    return x == 0.0 ? x : y;
}

/* 2^x = 2^k exp(r) with r in two parts */
SG double sg_exp2(double x)
{
    x = x > 1025.0 ? 1025.0 : x;
    x = x < -1080.0 ? -1080.0 : x;
    double k = (x + SG_SHIFT) - SG_SHIFT, f = x - k;
    double r = f * 0x1.62e42fefa39efp-1, lo = SG_FMA(f, 0x1.62e42fefa39efp-1, -r) + f * 0x1.abc9e3b39803fp-56;
    return sg_scaled((SG_FMA(r * r, sg_exp_poly(r), lo) + r) + 1.0, k);
}

SG float sg_exp2f(float x) { return (float)sg_exp2((double)x); }

/* -t / (t + 2) with t = expm1(-2 |x|) in two parts, and the quotient made better once. */
SG double sg_tanh(double x)
{
    double a = fabs(x);
    a = a > 30.0 ? -60.0 : -2.0 * a;
    double k = SG_FMA(a, SG_LOG2E, SG_SHIFT) - SG_SHIFT;
    double hi = SG_FMA(-k, SG_LN2_HI, a), lo = k * SG_LN2_LO;
    double r = hi - lo, rest = (hi - r) - lo;
    double p = SG_FMA(r * r, sg_exp_poly(r), rest + rest * r);
    double s = sg_pow2(k), s1 = s - 1.0, sr = s * r;
    double sum = s1 + sr, sum_lo = SG_FMA(s, p, sr - (sum - s1));
    double t = sum + sum_lo, t_lo = (sum - t) + sum_lo;
    double d = t + 2.0, d_lo = (2.0 - d) + t + t_lo;
    double v = 1.0 / d, q = -t * v;
    q = q - (SG_FMA(q, d, t) + t_lo + q * d_lo) * v;
    return x == 0.0 || x != x ? x : copysign(q, x);
}

/* exp(a) / 2 in two parts: sinh and cosh are this and a quarter of its reciprocal. */
SG double sg_half_exp(double a, double *lo)
{
    a = a > 711.0 ? 711.0 : a;
    double k = SG_FMA(a, SG_LOG2E, SG_SHIFT) - SG_SHIFT;
    double hi = SG_FMA(-k, SG_LN2_HI, a), low = k * SG_LN2_LO;
    double r = hi - low, rest = (hi - r) - low;
    double p = SG_FMA(r * r, sg_exp_poly(r), rest + rest * r), first = 1.0 + r, sum = first + p;
    double half = (k * 0.5 + SG_SHIFT) - SG_SHIFT, u = sg_pow2(half), w = sg_pow2(k - half - 1.0);
    *lo = (((first - sum) + p) + ((1.0 - first) + r)) * u * w;
    return sum * u * w;
}

SG double sg_cosh(double x)
{
    double lo, e = sg_half_exp(fabs(x), &lo), inverse = 0.25 / e;
    double v = e + (inverse + (lo - 4.0 * inverse * inverse * lo));
    return x != x ? x : v;
}

SG double sg_sinh(double x)
{
    double a = fabs(x), z = a * a, lo, e = sg_half_exp(a, &lo), inverse = 0.25 / e;
    double p = SG_FMA(z, 0x1.63fdcc309efe7p-33, 0x1.ae60ba017c305p-26);
    p = SG_FMA(p, z, 0x1.71de3c711f7e0p-19);
    p = SG_FMA(p, z, 0x1.a01a019efd42ep-13);
    p = SG_FMA(p, z, 0x1.1111111111480p-7);
    p = SG_FMA(p, z, 0x1.5555555555555p-3);
    double difference = e - inverse, rest = ((e - difference) - inverse) + lo;
    double v = a < 0.75 ? a + a * (z * p) : difference + (rest + 4.0 * inverse * inverse * lo);
    v = e == INFINITY ? e : v;
    return x != x ? x : copysign(v, x);
}

SG float sg_sinhf(float x) { return (float)sg_sinh((double)x); }
SG float sg_coshf(float x) { return (float)sg_cosh((double)x); }

SG float sg_exp_polyf(float r)
{
    float q = 0.00139261835877f;
    q = SG_FMAF(q, r, 0.00836317905272f);
    q = SG_FMAF(q, r, 0.0416665546172f);
    q = SG_FMAF(q, r, 0.166665769897f);
    return SG_FMAF(q, r, 0.5f);
}

SG float sg_expf(float x)
{
    x = x > 90.0f ? 90.0f : x;
    x = x < -106.0f ? -106.0f : x;
    float k = SG_FMAF(x, 0x1.715476p0f, SG_SHIFTF) - SG_SHIFTF;
    float r = SG_FMAF(-k, 0x1.63p-1f, x);
    r = SG_FMAF(-k, -0x1.bd0106p-13f, r);
    return sg_scaledf(SG_FMAF(r * r, sg_exp_polyf(r), r) + 1.0f, k);
}

SG float sg_expm1f(float x)
{
    x = x > 90.0f ? 90.0f : x;
    x = x < -30.0f ? -30.0f : x;
    float k = SG_FMAF(x, 0x1.715476p0f, SG_SHIFTF) - SG_SHIFTF;
    float r = SG_FMAF(-k, 0x1.63p-1f, x);
    r = SG_FMAF(-k, -0x1.bd0106p-13f, r);
    float p = SG_FMAF(r * r, sg_exp_polyf(r), r);
    float half = (k * 0.5f + SG_SHIFTF) - SG_SHIFTF, a = sg_pow2f(half), b = sg_pow2f(k - half), s = a * b;
    float y = k > 30.0f ? (p + 1.0f) * a * b : SG_FMAF(s, p, s - 1.0f);
    return x == 0.0f ? x : y;
}

SG float sg_tanhf(float x)
{
    float a = fabsf(x);
    float t = sg_expm1f(-2.0f * (a > 12.0f ? 12.0f : a));
    float y = -t / (t + 2.0f);
    y = x != x ? x : y;
    return copysignf(y, x);
}

/* ---- logarithms: x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2), and s = f / (2 + f) */

/* The bits of x, moved so that those of the exponent are k + 1023, and those of the mantissa count from sqrt(1/2). */
SG uint64_t sg_log_bits(double x) { return sg_bits(x) + (0x3ff0000000000000ull - 0x3fe6a09e00000000ull); }
SG double sg_log_k(uint64_t bits) { return sg_real((bits >> 52) | 0x4330000000000000ull) - (0x1p52 + 1023.0); }
SG double sg_log_m(uint64_t bits) { return sg_real((bits & 0x000fffffffffffffull) + 0x3fe6a09e00000000ull); }

/* r of log(1 + f) = f - f * f / 2 + s * (f * f / 2 + r), for z = s * s */
SG double sg_log_poly(double z)
{
    double w = z * z;
    double even = w * SG_FMA(w, SG_FMA(w, 1.531383769920937332e-01, 2.222219843214978396e-01), 3.999999999940941908e-01);
    double odd = SG_FMA(w, 1.479819860511658591e-01, 1.818357216161805012e-01);
    odd = z * SG_FMA(w, SG_FMA(w, odd, 2.857142874366239149e-01), 6.666666666666735130e-01);
    return even + odd;
}

/* log(1 + f) + rest + k log(2) */
SG double sg_log_sum(double f, double rest, double k)
{
    double half = 0.5 * f * f, s = f / (2.0 + f), r = sg_log_poly(s * s);
    return s * (half + r) + (k * 1.90821492927058770002e-10 + rest) - half + f + k * 6.93147180369123816490e-01;
}

SG double sg_log(double x)
{
    int tiny = x < 0x1p-1022;
    uint64_t bits = sg_log_bits(tiny ? x * 0x1p54 : x);
    double k = sg_log_k(bits);
    double v = sg_log_sum(sg_log_m(bits) - 1.0, 0.0, tiny ? k - 54.0 : k);
    v = x == INFINITY ? x : v;
    v = x == 0.0 ? -INFINITY : v;
    return x >= 0.0 ? v : NAN;
}

SG double sg_log1p(double x)
{
    double u = 1.0 + x;
    uint64_t bits = sg_log_bits(u);
    double k = sg_log_k(bits), f = sg_log_m(bits) - 1.0;
    double rest = (k >= 2.0 ? 1.0 - (u - x) : x - (u - 1.0)) / u; /* of x, which u has lost */
    rest = k < 54.0 ? rest : 0.0;
    double v = sg_log_sum(k == 0.0 ? x : f, k == 0.0 ? 0.0 : rest, k);
    v = x == INFINITY ? x : v;
    v = x == -1.0 ? -INFINITY : v;
    v = x == 0.0 ? x : v;
    return x >= -1.0 ? v : NAN;
}

SG float sg_logf(float x)
{
    int tiny = x < 0x1p-126f;
    uint32_t bits = sg_bitsf(tiny ? x * 0x1p25f : x) + (0x3f800000u - 0x3f3504f3u);
    float k = (float)(int32_t)(bits >> 23) - 127.0f;
    k = tiny ? k - 25.0f : k;
    float f = sg_realf((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float half = 0.5f * f * f, s = f / (2.0f + f), z = s * s, w = z * z;
    float r = z * SG_FMAF(w, 0.28498786688f, 0.66666662693f) + w * SG_FMAF(w, 0.24279078841f, 0.40000972152f);
    float v = s * (half + r) + k * 9.0580006145e-06f - half + f + k * 6.9313812256e-01f;
    v = x == INFINITY ? x : v;
    v = x == 0.0f ? -INFINITY : v;
    return x >= 0.0f ? v : NAN;
}

SG float sg_log1pf(float x) { return (float)sg_log1p((double)x); }

/* log(1 + f) in two parts, of which the first has few digits: its products with constants that have few are exact */
SG double sg_log_parts(double f, double *lo)
{
    double half = 0.5 * f * f, s = f / (2.0 + f);
    double hi = sg_real(sg_bits(f - half) & 0xffffffff00000000ull);
    *lo = ((f - hi) - half) + s * (half + sg_log_poly(s * s));
    return hi;
}

/* What logarithms are in special cases, and v elsewhere. */
SG double sg_log_cases(double v, double x)
{
    v = x == INFINITY ? x : v;
    v = x == 0.0 ? -INFINITY : v;
    return x >= 0.0 ? v : NAN;
}

SG double sg_log2(double x)
{
    int tiny = x < 0x1p-1022;
    uint64_t bits = sg_log_bits(tiny ? x * 0x1p54 : x);
    double k = sg_log_k(bits), lo, hi = sg_log_parts(sg_log_m(bits) - 1.0, &lo);
    k = tiny ? k - 54.0 : k;
    double v = hi * 0x1.7154765200000p0, w = k + v;
    double rest = ((k - w) + v) + ((lo + hi) * 0x1.705fc2eefa200p-33 + lo * 0x1.7154765200000p0);
    return sg_log_cases(w + rest, x);
}

SG double sg_log10(double x)
{
    int tiny = x < 0x1p-1022;
    uint64_t bits = sg_log_bits(tiny ? x * 0x1p54 : x);
    double k = sg_log_k(bits), lo, hi = sg_log_parts(sg_log_m(bits) - 1.0, &lo);
    k = tiny ? k - 54.0 : k;
    double v = hi * 0x1.bcb7b15200000p-2, of_k = k * 0x1.34413509f6000p-2, w = of_k + v;
    double rest = ((of_k - w) + v)
        + (k * 0x1.9fef311f12b36p-42 + (lo + hi) * 0x1.b9438ca9aadd5p-36 + lo * 0x1.bcb7b15200000p-2);
    return sg_log_cases(w + rest, x);
}

SG float sg_log2f(float x) { return (float)sg_log2((double)x); }
SG float sg_log10f(float x) { return (float)sg_log10((double)x); }

SG double sg_logaddexp(double x, double y)
{
    double larger = x >= y || x != x ? x : y;
    return x == y ? x + 0.69314718055994530942 : larger + sg_log1p(sg_exp(-fabs(x - y)));
}

SG float sg_logaddexpf(float x, float y)
{
    float larger = x >= y || x != x ? x : y;
    return x == y ? x + 0.6931471805599453f : larger + sg_log1pf(sg_expf(-fabsf(x - y)));
}

/* ---- sin, cos and tan: x = n pi/2 + r + lo with |r| < pi/4 (Cody and Waite) */

/* Products of n with parts of pi/2 are exact up to SG_FAR. */
#if SG_HAS_FMA
#define SG_FAR 0x1p40
SG double sg_reduced(double x, double n, double *lo)
{
    double r = SG_FMA(-n, 0x1.921fb54442d18p+0, x);
    double p = n * 0x1.1a62633145c07p-54, p_lo = SG_FMA(n, 0x1.1a62633145c07p-54, -p);
    double sum = r - p;
    *lo = ((r - sum) - p) - SG_FMA(n, -0x1.f1976b7ed8fbcp-110, p_lo);
    return sum;
}
#else
#define SG_FAR 0x1p29
SG double sg_reduced(double x, double n, double *lo)
{
    double r = (x - n * 0x1.921fb4p+0) - n * 0x1.4442dp-24;
    double p = n * 0x1.846988p-48, sum = r - p, back = r - sum;
    double rest = ((back - p) + (r - (sum + back))) - n * 0x1.8cc51701b839ap-72, whole = sum + rest;
    *lo = (sum - whole) + rest;
    return whole;
}
#endif

SG double sg_sin_poly(double r, double lo)
{
    double z = r * r, v = z * r;
    double p = SG_FMA(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08);
    p = SG_FMA(z, p, 2.75573137070700676789e-06);
    p = SG_FMA(z, p, -1.98412698298579493134e-04);
    p = SG_FMA(z, p, 8.33333333332248946124e-03);
    return r - ((z * (0.5 * lo - v * p) - lo) - v * -1.66666666666666324348e-01);
}

SG double sg_cos_poly(double r, double lo)
{
    double z = r * r, half = 0.5 * z, w = 1.0 - half;
    double p = SG_FMA(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09);
    p = SG_FMA(z, p, -2.75573143513906633035e-07);
    p = SG_FMA(z, p, 2.48015872894767294178e-05);
    p = SG_FMA(z, p, -1.38888888888741095749e-03);
    p = SG_FMA(z, p, 4.16666666666666019037e-02);
    return w + (((1.0 - w) - half) + (z * z * p - r * lo));
}

/* Both at once: what is not used is not computed. */
SG void sg_sincos(double x, double *sine, double *cosine)
{
    double shifted = SG_FMA(x, 0x1.45f306dc9c883p-1, SG_SHIFT), lo;
    double r = sg_reduced(x, shifted - SG_SHIFT, &lo);
    uint64_t n = sg_bits(shifted);
    double s = sg_sin_poly(r, lo), c = sg_cos_poly(r, lo);
    double a = n & 1 ? c : s, b = n & 1 ? s : c;
    *sine = sg_real(sg_bits(a) ^ ((n & 2) << 62));
    *cosine = sg_real(sg_bits(b) ^ (((n + 1) & 2) << 62));
}

SG double sg_near_sin(double x)
{
    double s, c;
    sg_sincos(x, &s, &c);
    return x == 0.0 ? x : s;
}

SG double sg_near_cos(double x)
{
    double s, c;
    sg_sincos(x, &s, &c);
    return c;
}

SG double sg_near_tan(double x)
{
    double s, c;
    sg_sincos(x, &s, &c);
    return x == 0.0 ? x : s / c;
}

/* A number beyond SG_FAR is noted, and 0 is taken in its place. */
#define SG_NEAR(near, function, x) ({ \
    const double sg_x = (x); \
    const bool sg_is_far = !exact & (fabs(sg_x) > SG_FAR); \
    far |= sg_is_far ? 1 : 0; \
    exact ? function(sg_x) : near(sg_is_far ? 0.0 : sg_x); })
#define sg_sin(x) SG_NEAR(sg_near_sin, sin, x)
#define sg_cos(x) SG_NEAR(sg_near_cos, cos, x)
#define sg_tan(x) SG_NEAR(sg_near_tan, tan, x)
#define sg_sinf(x) ((float)sg_sin(x))
#define sg_cosf(x) ((float)sg_cos(x))
#define sg_tanf(x) ((float)sg_tan(x))

/* ---- inverse functions of circles */

#define SG_QUARTER_HI 0x1.921fb54442d18p-1 /* pi/4: its products with 1 to 4 are exact */
#define SG_QUARTER_LO 0x1.1a62633145c07p-55

/* p of atan(t) = t - t * z * p, for z = t * t up to 1/4 */
SG double sg_atan_poly(double z)
{
    double p = 0x1.2d3590821ec26p-7;
    p = SG_FMA(p, z, -0x1.992606a8e556bp-6);
    p = SG_FMA(p, z, 0x1.37aa5272f453ep-5);
    p = SG_FMA(p, z, -0x1.7b10772fed72bp-5);
    p = SG_FMA(p, z, 0x1.ad41230ba5907p-5);
    p = SG_FMA(p, z, -0x1.e1a7231251304p-5);
    p = SG_FMA(p, z, 0x1.110e9dd3eae6bp-4);
    p = SG_FMA(p, z, -0x1.3b138dea73a9dp-4);
    p = SG_FMA(p, z, 0x1.745d15fd6680bp-4);
    p = SG_FMA(p, z, -0x1.c71c71bffba03p-4);
    p = SG_FMA(p, z, 0x1.2492492487f69p-3);
    p = SG_FMA(p, z, -0x1.99999999998ddp-3);
    return SG_FMA(p, z, 0x1.5555555555555p-2);
}

/* The angle of (b, a), with b at least 0 where the point lies to the right: of n = min(a, b) and d = max(a, b) it is
   atan(n / d), or pi/4 + atan((n - d) / (n + d)), counted from the nearest axis. */
SG double sg_angle(double a, double b, bool is_left)
{
    double n = a > b ? b : a, d = a > b ? a : b;
    n = d == INFINITY ? (n == INFINITY ? 1.0 : 0.0) : n;
    d = d == INFINITY || d == 0.0 ? 1.0 : d;
    double scale = d > 0x1p1000 ? 0x1p-30 : 1.0;
    n *= scale;
    d *= scale;
    bool is_near = n + n > d;
    double sum = n + d, lost = is_near ? (d - sum) + n : 0.0, half = is_near ? 1.0 : 0.0;
    n = is_near ? n - d : n;
    d = is_near ? sum : d;
    double t = n / d, z = t * t, rest = t * (z * sg_atan_poly(z) + lost / d);
    double quarters = a > b ? 2.0 - half : half, sign = a > b ? -1.0 : 1.0;
    quarters = is_left ? 4.0 - quarters : quarters;
    sign = is_left ? -sign : sign;
    double axis = quarters * SG_QUARTER_HI, v = axis + sign * t;
    return v + (((axis - v) + sign * t) + (quarters * SG_QUARTER_LO - sign * rest));
}

/* The same of (1, |x|), with factors for choices: gcc makes branches of these where it knows one side. */
SG double sg_atan(double x)
{
    double a = fabs(x);
    a = a > 0x1p100 ? 0x1p100 : a;
    double above_half = a > 0.5 ? 1.0 : 0.0, above_two = a > 2.0 ? 1.0 : 0.0;
    double n = (1.0 - above_two) * a - above_half, d = above_half * a + (1.0 - above_two), back = d - a;
    double lost = (above_half - above_two) * ((a - (d - back)) + (1.0 - back));
    double t = n / d, z = t * t, rest = t * (z * sg_atan_poly(z) + lost / d);
    double quarters = above_half + above_two, axis = quarters * SG_QUARTER_HI, v = axis + t;
    v += ((axis - v) + t) + (quarters * SG_QUARTER_LO - rest);
    return x == 0.0 ? x : copysign(v, x);
}

SG double sg_atan2(double y, double x)
{
    double v = copysign(sg_angle(fabs(y), fabs(x), copysign(1.0, x) < 0.0), y);
    v = x != x ? x : v;
    return y != y ? y : v;
}

SG float sg_atanf(float x) { return (float)sg_atan((double)x); }
SG float sg_atan2f(float y, float x) { return (float)sg_atan2((double)y, (double)x); }

/* p of asin(x) = x + x * p for z = x * x up to 1/4 */
SG double sg_asin_poly(double z)
{
    double p = SG_FMA(z, 3.47933107596021167570e-05, 7.91534994289814532176e-04);
    p = SG_FMA(z, p, -4.00555345006794114027e-02);
    p = SG_FMA(z, p, 2.01212532134862925881e-01);
    p = SG_FMA(z, p, -3.25565818622400915405e-01);
    p = z * SG_FMA(z, p, 1.66666666666666657415e-01);
    double q = SG_FMA(z, 7.70381505559019352791e-02, -6.88283971605453293030e-01);
    q = SG_FMA(z, q, 2.02094576023350569471e+00);
    return p / SG_FMA(z, SG_FMA(z, q, -2.40339491173441421878e+00), 1.0);
}

/* asin of a number up to 1/2, or that of the root of (1 - a) / 2, in two parts */
SG double sg_half_asin(double a, double *lo)
{
    double z = a < 0.5 ? a * a : 0.5 - 0.5 * a;
    double s = a < 0.5 ? a : sqrt(z), p = sg_asin_poly(z);
    double hi = sg_real(sg_bits(s) & 0xffffffff00000000ull); /* its square is exact */
    double rest = a < 0.5 ? s - hi : (z - hi * hi) / (s + hi);
    rest = s == 0.0 ? 0.0 : rest;
    *lo = rest + s * p;
    return hi;
}

SG double sg_asin(double x)
{
    double a = fabs(x), lo, hi = sg_half_asin(a, &lo);
    double v = SG_QUARTER_HI + ((SG_QUARTER_HI - 2.0 * hi) + 2.0 * (SG_QUARTER_LO - lo));
    v = a < 0.5 ? hi + lo : v;
    v = a <= 1.0 ? copysign(v, x) : NAN;
    return x == 0.0 || x != x ? x : v;
}

SG double sg_acos(double x)
{
    double a = fabs(x), lo, hi = sg_half_asin(a, &lo), sign = x < 0.0 ? 1.0 : -1.0;
    double v = 2.0 * SG_QUARTER_HI + (sign * hi + (2.0 * SG_QUARTER_LO + sign * lo));
    double left = 4.0 * SG_QUARTER_HI + (-2.0 * hi + (4.0 * SG_QUARTER_LO - 2.0 * lo)), right = 2.0 * hi + 2.0 * lo;
    v = a < 0.5 ? v : x < 0.0 ? left : right;
    return a <= 1.0 ? v : NAN;
}

SG float sg_asinf(float x) { return (float)sg_asin((double)x); }
SG float sg_acosf(float x) { return (float)sg_acos((double)x); }

/* ---- powers, and lengths */

/* Squares of what is scaled by a power of two neither overflow nor vanish. */
SG double sg_hypot(double x, double y)
{
    double a = fabs(x), b = fabs(y), larger = a > b ? a : b;
    double scale = larger > 0x1p500 ? 0x1p-600 : 1.0;
    scale = larger < 0x1p-400 ? 0x1p600 : scale;
    double u = a * scale, w = b * scale, v = sqrt(SG_FMA(u, u, w * w)) / scale;
    v = a == INFINITY ? a : v;
    return b == INFINITY ? b : v;
}

SG float sg_hypotf(float x, float y) { return (float)sg_hypot((double)x, (double)y); }

/* What powers are in special cases, and v elsewhere, which is |x|^y: choices of numbers by one comparison each, since
   gcc makes no mask of several where y is the same in all iterations. */
SG double sg_pow_cases(double v, double x, double y)
{
    double a = fabs(x), whole = trunc(y), grows = a > 1.0 ? y : -y;
    double odd = whole == y ? whole - 2.0 * trunc(0.5 * y) : 0.0; /* 1 or -1 where y is odd */
    double endless = grows > 0.0 ? INFINITY : 0.0, negative = fabs(odd) == 1.0 ? -1.0 : 1.0;
    double below = y < 0.0 ? INFINITY : 0.0, above = y < 0.0 ? 0.0 : INFINITY, fraction = whole == y ? -0.0 : NAN;
    endless = a == 1.0 ? 1.0 : endless;
    v = a == 0.0 ? below : v;
    v = a == INFINITY ? above : v;
    v = fabs(y) == INFINITY ? endless : v;
    v = copysign(1.0, x) < 0.0 ? v * negative : v;
    fraction = a == INFINITY ? -0.0 : fraction;
    v += x < 0.0 ? fraction : -0.0;
    v = x != x ? x : v;
    v = y != y ? y : v;
    v = y == 0.0 ? 1.0 : v;
    return x == 1.0 ? 1.0 : v;
}

#if SG_HAS_FMA
/* exp(y log|x|) with the logarithm in two parts: 2^k m, s = (m - 1) / (m + 1), log m = 2 (s + s^3 (1/3 + s^2 p)) */
SG double sg_pow(double x, double y)
{
    double a = fabs(x);
    int tiny = a < 0x1p-1022;
    uint64_t bits = sg_log_bits(tiny ? a * 0x1p54 : a);
    double k = sg_log_k(bits), f = sg_log_m(bits) - 1.0;
    k = tiny ? k - 54.0 : k;
    double d = 2.0 + f, d_lo = f - (d - 2.0);
    double s = f / d, s_lo = (SG_FMA(-s, d, f) - s * d_lo) / d;
    double z = s * s, z_lo = SG_FMA(s, s, -z) + 2.0 * s * s_lo;
    double p = 1.0 / 21;
    p = SG_FMA(p, z, 1.0 / 19);
    p = SG_FMA(p, z, 1.0 / 17);
    p = SG_FMA(p, z, 1.0 / 15);
    p = SG_FMA(p, z, 1.0 / 13);
    p = SG_FMA(p, z, 1.0 / 11);
    p = SG_FMA(p, z, 1.0 / 9);
    p = SG_FMA(p, z, 1.0 / 7);
    p = SG_FMA(p, z, 1.0 / 5);
    double third = 0x1.5555555555555p-2, third_lo = 0x1.5555555555555p-56;
    double zp = z * p, zp_lo = SG_FMA(z, p, -zp) + z_lo * p;
    double c = third + zp, c_lo = (third - c) + zp + (third_lo + zp_lo);
    double cube = s * z, cube_lo = SG_FMA(s, z, -cube) + s * z_lo + s_lo * z;
    double t = cube * c, t_lo = SG_FMA(cube, c, -t) + cube * c_lo + cube_lo * c;
    double k_hi = k * SG_LN2_HI, k_lo = k * SG_LN2_LO;
    double sum = k_hi + 2.0 * s, sum_lo = (k_hi - sum) + 2.0 * s;
    double both = sum + 2.0 * t, both_lo = (sum - both) + 2.0 * t;
    double rest = sum_lo + both_lo + 2.0 * s_lo + 2.0 * t_lo + k_lo;
    double log = both + rest, log_lo = (both - log) + rest;
    double e = y * log, e_lo = SG_FMA(y, log, -e) + y * log_lo;
    double within = e > 1000.0 ? 1000.0 : e;
    within = within < -1000.0 ? -1000.0 : within;
    e_lo = within == e ? e_lo : 0.0;
    double n = (within * SG_LOG2E + SG_SHIFT) - SG_SHIFT;
    double r = SG_FMA(-n, SG_LN2_HI, within), r_lo = SG_FMA(-n, SG_LN2_LO, e_lo);
    double r_sum = r + r_lo, r_rest = (r - r_sum) + r_lo;
    double q = SG_FMA(r_sum * r_sum, sg_exp_poly(r_sum), r_rest + r_rest * r_sum) + r_sum + 1.0;
    return sg_pow_cases(sg_scaled(q, n), x, y);
}
#else
SG double sg_pow(double x, double y) { return pow(x, y); }
#endif

SG float sg_powf(float x, float y)
{
    return (float)sg_pow_cases(sg_exp((double)y * sg_log(fabs((double)x))), (double)x, (double)y);
}

/* ---- cube roots: of 2^(3q + j) m the root is 2^q times that of 2^j m, which two steps of Halley's make exact */

SG double sg_cbrt(double x)
{
    double a = fabs(x);
    int tiny = a < 0x1p-1022;
    uint64_t bits = sg_log_bits(tiny ? a * 0x1p54 : a);
    double k = sg_log_k(bits), m = sg_log_m(bits);
    k = tiny ? k - 54.0 : k;
    double q = (k * 0x1.5555555555555p-2 + SG_SHIFT) - SG_SHIFT, j = k - 3.0 * q;
    double t = SG_FMA(SG_FMA(-0.10398876445584515, m, 0.546252116043506), m, 0.5574239481027826);
    t *= j > 0.5 ? 0x1.428a2f98d728bp+0 : j < -0.5 ? 0x1.965fea53d6e3dp-1 : 1.0;
    m *= j > 0.5 ? 2.0 : j < -0.5 ? 0.5 : 1.0;
    double cube = t * t * t;
    t = t * (cube + 2.0 * m) / (2.0 * cube + m);
    t = sg_real((sg_bits(t) + 0x80000000ull) & 0xffffffffc0000000ull); /* its square is exact */
    double r = m / (t * t);
    t += t * ((r - t) / (t + t + r));
    t = copysign(t * sg_pow2(q), x);
    return a == INFINITY || a == 0.0 || x != x ? x : t;
}

SG float sg_cbrtf(float x) { return (float)sg_cbrt((double)x); }
