/* Complex numbers, computed as NumPy computes them. Quotients of C's own may overflow on the way. */

/* The complex number that has these parts: x + I * y would be NaN where y is infinite. */
#define sg_complex(x, y) __builtin_complex((double)(x), (double)(y))
#define sg_complexf(x, y) __builtin_complex((float)(x), (float)(y))

/* A product with a constant that has a negative part: of -I * z, gcc makes -(I * z) where it has I * z, and zeros get the
   other sign. */
SG double _Complex sg_ctimes(double _Complex a, double _Complex b)
{
    return sg_complex(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

SG float _Complex sg_ctimesf(float _Complex a, float _Complex b)
{
    return sg_complexf(crealf(a) * crealf(b) - cimagf(a) * cimagf(b), crealf(a) * cimagf(b) + cimagf(a) * crealf(b));
}

SG double _Complex sg_csquare(double _Complex z) { return z * z; }
SG float _Complex sg_csquaref(float _Complex z) { return z * z; }

/* One of two numbers, chosen by bits: what follows a choice by a condition, compilers may compute on both of its sides,
   where a division raises flags. */
SG double sg_either(bool first, double a, double b)
{
    const uint64_t mask = -(uint64_t)first;
    return sg_real((sg_bits(a) & mask) | (sg_bits(b) & ~mask));
}

/* Smith's method (Algorithm 116, Communications of the ACM, 1962): the smaller part of b is divided by the larger one. */
SG double _Complex sg_cquotient(double _Complex a, double _Complex b)
{
    const bool is_steep = !(fabs(creal(b)) >= fabs(cimag(b)));
    const double large = sg_either(is_steep, cimag(b), creal(b)), little = sg_either(is_steep, creal(b), cimag(b));
    const double x = sg_either(is_steep, cimag(a), creal(a)), y = sg_either(is_steep, creal(a), cimag(a));
    const double ratio = little / (large + (large == 0)), scale = 1 / (large + little * ratio + 0.0);
    const double re = x + y * ratio, im = sg_either(is_steep, x * ratio - y, y - x * ratio);
    const bool is_zero = large == 0; /* what is infinite or NaN stays in its part */
    return sg_complex(sg_either(is_zero, x, re) * scale, sg_either(is_zero, y, im) * scale);
}

SG float _Complex sg_cquotientf(float _Complex a, float _Complex b) { return (float _Complex)sg_cquotient(a, b); }

SG double _Complex sg_creciprocal(double _Complex z)
{
    const bool is_steep = !(fabs(creal(z)) >= fabs(cimag(z)));
    const double large = sg_either(is_steep, cimag(z), creal(z)), little = sg_either(is_steep, creal(z), cimag(z));
    const double ratio = little / large, scale = large + little * ratio;
    return sg_complex(sg_either(is_steep, ratio, 1.0) / scale, -sg_either(is_steep, 1.0, ratio) / scale);
}

SG float _Complex sg_creciprocalf(float _Complex z) { return (float _Complex)sg_creciprocal(z); }

SG double sg_cabs(double _Complex z) { return sg_hypot(creal(z), cimag(z)); }
SG float sg_cabsf(float _Complex z) { return sg_hypotf(crealf(z), cimagf(z)); }

/* z / |z|: 0 of 0, and an axis where one part is infinite. */
SG double _Complex sg_csign(double _Complex z)
{
    const double size = sg_cabs(z);
    if (size == INFINITY) {
        const double x = fabs(creal(z)) == INFINITY, y = fabs(cimag(z)) == INFINITY, one = x + y == 1 ? 1 : NAN;
        return sg_complex(x ? copysign(one, creal(z)) : 0, y ? copysign(one, cimag(z)) : 0);
    }
    return size == 0 ? sg_complex(0.0, 0.0) : sg_complex(creal(z) / size, cimag(z) / size);
}

SG float _Complex sg_csignf(float _Complex z) { return (float _Complex)sg_csign(z); }

SG bool sg_cisinf(double _Complex z) { return (fabs(creal(z)) == INFINITY) | (fabs(cimag(z)) == INFINITY); }
SG bool sg_cisfinite(double _Complex z) { return (fabs(creal(z)) < INFINITY) & (fabs(cimag(z)) < INFINITY); }

SG double _Complex sg_ccube(double _Complex z) { return z * (z * z); }
SG float _Complex sg_ccubef(float _Complex z) { return z * (z * z); }

SG double _Complex sg_clog2(double _Complex z)
{
    const double _Complex y = clog(z);
    return sg_complex(creal(y) * 0x1.71547652b82fep0, cimag(y) * 0x1.71547652b82fep0);
}

SG double _Complex sg_clog10(double _Complex z)
{
    const double _Complex y = clog(z);
    return sg_complex(creal(y) * 0x1.bcb7b1526e50ep-2, cimag(y) * 0x1.bcb7b1526e50ep-2);
}

SG float _Complex sg_clog2f(float _Complex z) { return (float _Complex)sg_clog2(z); }
SG float _Complex sg_clog10f(float _Complex z) { return (float _Complex)sg_clog10(z); }

/* Powers by small integers are products. */
SG double _Complex sg_cpow(double _Complex base, double _Complex exponent)
{
    const double n = creal(exponent);
    if (exponent == 0)
        return sg_complex(1.0, 0.0);
    if (base == 0)
        return n > 0 ? sg_complex(0.0, 0.0) : sg_complex(NAN * (1.0 / creal(base)), NAN);
    if (cimag(exponent) != 0 || !(fabs(n) < 100) || n != trunc(n))
        return cpow(base, exponent);
    if (n >= 1 && n <= 3)
        return n == 1 ? base : n == 2 ? base * base : sg_ccube(base);
    double _Complex power = sg_complex(1.0, 0.0), factor = base;
    for (int64_t k = (int64_t)fabs(n); k; k >>= 1) {
        if (k & 1)
            power *= factor;
        factor = k > 1 ? factor * factor : factor;
    }
    return n < 0 ? sg_cquotient(sg_complex(1.0, 0.0), power) : power;
}

SG float _Complex sg_cpowf(float _Complex base, float _Complex exponent)
{
    return (float _Complex)sg_cpow(base, exponent);
}

/* exp(x + i y) = exp(x) (cos(y) + i sin(y)), where C's library is not needed. */
SG double _Complex sg_near_cexp(double x, double y)
{
    double s, c;
    sg_sincos(y, &s, &c);
    const double size = sg_exp(x);
    return sg_complex(size * c, size * s);
}

#define sg_cexp(z) ({ \
    const double _Complex sg_z = (z); \
    const bool sg_is_far = !exact & !((creal(sg_z) <= 700) & (fabs(cimag(sg_z)) <= SG_FAR)); \
    far |= sg_is_far ? 1 : 0; \
    exact ? cexp(sg_z) : sg_near_cexp(sg_is_far ? 0.0 : creal(sg_z), sg_is_far ? 0.0 : cimag(sg_z)); })
#define sg_cexpf(z) ((float _Complex)sg_cexp((double _Complex)(z)))
