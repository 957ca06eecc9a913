/* Round a number of bytes up, so that the next array begins where vectors are read best. */
static inline int64_t sg_bytes(int64_t count, int64_t size)
{
    return (count * size + 63) / 64 * 64;
}

/* How many rows to make room for where there is room for some, and so many are needed: at least twice as many. */
static inline int64_t sg_more_room(int64_t room, int64_t count) { return count > 2 * room ? count : 2 * room; }

/* Memory for so many bytes with the content of other memory, which it replaces; NULL if there is none. */
static __attribute__((noinline, cold)) void *sg_resized(void *memory, int64_t bytes)
{
    void *moved = realloc(memory, (size_t)(bytes > 0 ? bytes : 1));
    if (!moved)
        free(memory);
    return moved;
}

/* Whether a signal ends the program, for loops that may take long: asked once for 256 iterations, before they run. */
static bool sg_interrupted(void);

static inline bool sg_ends(int64_t *turns, int64_t iterations)
{
    *turns += iterations;
    if (__builtin_expect(*turns < 256, true))
        return false;
    *turns = 0;
    return sg_interrupted();
}

static inline double sg_square(double x) { return x * x; }
static inline float sg_squaref(float x) { return x * x; }

/* Powers of 3/2, -1/2 and -3/2, which square roots give in less time than logarithms. */
static inline double sg_power_3_2(double x) { return x == -INFINITY ? INFINITY : x * sqrt(x); }
static inline double sg_power_m1_2(double x) { return x == -INFINITY ? 0 : 1 / sqrt(x + 0.0); }
static inline double sg_power_m3_2(double x) { return x == -INFINITY ? 0 : 1 / x / sqrt(x); }

/* As NumPy has them: shifts by 64 and more leave no bit but those of the sign. */
static inline int64_t sg_left_shift(int64_t x, int64_t y)
{
    return (uint64_t)y < 64 ? (int64_t)((uint64_t)x << y) : 0;
}

static inline int64_t sg_right_shift(int64_t x, int64_t y)
{
    return x >> ((uint64_t)y < 64 ? y : 63);
}

static inline double sg_nan_to_num(double x)
{
    double most = 0x1.fffffffffffffp1023;
    x = x != x ? 0 : x;
    x = x > most ? most : x;
    return x < -most ? -most : x;
}

static inline float sg_nan_to_numf(float x)
{
    float most = 0x1.fffffep127f;
    x = x != x ? 0 : x;
    x = x > most ? most : x;
    return x < -most ? -most : x;
}

static inline int64_t sg_whole_abs(int64_t x) { return x < 0 ? -x : x; }

/* Raise the processor's flag of a division by zero. */
static __attribute__((cold, noinline, unused)) void sg_raise_flag(void)
{
    volatile double zero = 0;
    zero = 1 / zero;
}

/* As Python has them: the remainder has the sign of the divisor; of integers by 0 both are 0, and the flag is raised. */
static inline int64_t sg_whole_quotient(int64_t x, int64_t y)
{
    if (y == 0 || y == -1) {
        if (y == 0 || x == INT64_MIN)
            sg_raise_flag();
        return y ? -x : 0;
    }
    return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

static inline int64_t sg_whole_remainder(int64_t x, int64_t y)
{
    if (y == 0 || y == -1) {
        if (y == 0)
            sg_raise_flag();
        return 0;
    }
    return x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
}

/* Euclid's algorithm. */
static inline int64_t sg_gcd(int64_t x, int64_t y)
{
    while (y) {
        int64_t rest = y == -1 ? 0 : x % y;
        x = y;
        y = rest;
    }
    return x < 0 ? -x : x;
}

static inline uint64_t sg_unsigned_quotient(uint64_t x, uint64_t y)
{
    if (y == 0)
        sg_raise_flag();
    return y ? x / y : 0;
}

static inline uint64_t sg_unsigned_remainder(uint64_t x, uint64_t y)
{
    if (y == 0)
        sg_raise_flag();
    return y ? x % y : 0;
}

static inline uint64_t sg_unsigned_left_shift(uint64_t x, uint64_t y) { return y < 64 ? x << y : 0; }
static inline uint64_t sg_unsigned_right_shift(uint64_t x, uint64_t y) { return y < 64 ? x >> y : 0; }

static inline double sg_remainder(double x, double y)
{
    double rest = fmod(x, y);
    if (rest == 0)
        return copysign(0.0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}

static inline float sg_remainderf(float x, float y)
{
    float rest = fmodf(x, y);
    if (rest == 0)
        return copysignf(0.0f, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}

static inline double sg_floor_divide(double x, double y)
{
    double rest = fmod(x, y), quotient = (x - rest) / y;
    if (y == 0)
        return x / y;
    if (rest != 0 && (rest < 0) != (y < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysign(0.0, x / y);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static inline float sg_floor_dividef(float x, float y)
{
    float rest = fmodf(x, y), quotient = (x - rest) / y;
    if (y == 0)
        return x / y;
    if (rest != 0 && (rest < 0) != (y < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysignf(0.0f, x / y);
    float whole = floorf(quotient);
    return quotient - whole > 0.5f ? whole + 1 : whole;
}

#define sg_sign(x) ((x) != (x) ? (x) : ((x) > 0) - ((x) < 0))
#define sg_heaviside(x, y) ((x) == 0 ? (y) : (x) != (x) ? (x) : (x) > 0)
/* As NumPy has them: NaN if one of them is. */
#define sg_maximum(x, y) ((x) >= (y) || (x) != (x) ? (x) : (y))
#define sg_minimum(x, y) ((x) <= (y) || (x) != (x) ? (x) : (y))

/* Loops combine numbers by these in any order, so that compilers use vectors. */
#pragma omp declare reduction(sg_largest : double, float, int64_t : omp_out = sg_maximum(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)
#pragma omp declare reduction(sg_smallest : double, float, int64_t : omp_out = sg_minimum(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)
