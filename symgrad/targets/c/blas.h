/* NumPy's own BLAS, connected when the module is loaded: it multiplies matrices in row-major order, which may be
   transposed in memory. */
typedef void sg_dgemm_of_blas(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t, const double *,
        int64_t, double, double *, int64_t);
typedef void sg_sgemm_of_blas(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
        int64_t, float, float *, int64_t);
typedef void sg_zgemm_of_blas(int, int, int, int64_t, int64_t, int64_t, const void *, const void *, int64_t,
        const void *, int64_t, const void *, void *, int64_t);
static sg_dgemm_of_blas *sg_blas_dgemm;
static sg_sgemm_of_blas *sg_blas_sgemm;
static sg_zgemm_of_blas *sg_blas_zgemm;
static sg_zgemm_of_blas *sg_blas_cgemm;
enum { SG_ROW_MAJOR = 101, SG_AS_IS = 111, SG_TRANSPOSED = 112 };

/* result = left @ right + beta * result, where 'T' says that a factor is transposed in memory, and 'N' that it is not. */
static inline void sg_dgemm(char left_is, char right_is, int64_t rows, int64_t columns, int64_t terms,
        const double *left, const double *right, double beta, double *result)
{
    if (rows < 1 || columns < 1 || terms < 1) {
        if (beta == 0)
            memset(result, 0, (size_t)(rows * columns) * sizeof(double));
        return;
    }
    sg_blas_dgemm(SG_ROW_MAJOR, left_is == 'T' ? SG_TRANSPOSED : SG_AS_IS, right_is == 'T' ? SG_TRANSPOSED : SG_AS_IS,
            rows, columns, terms, 1.0, left, left_is == 'T' ? rows : terms, right, right_is == 'T' ? terms : columns,
            beta, result, columns);
}

static inline void sg_sgemm(char left_is, char right_is, int64_t rows, int64_t columns, int64_t terms,
        const float *left, const float *right, float beta, float *result)
{
    if (rows < 1 || columns < 1 || terms < 1) {
        if (beta == 0)
            memset(result, 0, (size_t)(rows * columns) * sizeof(float));
        return;
    }
    sg_blas_sgemm(SG_ROW_MAJOR, left_is == 'T' ? SG_TRANSPOSED : SG_AS_IS, right_is == 'T' ? SG_TRANSPOSED : SG_AS_IS,
            rows, columns, terms, 1.0f, left, left_is == 'T' ? rows : terms, right, right_is == 'T' ? terms : columns,
            beta, result, columns);
}

static inline void sg_zgemm(char left_is, char right_is, int64_t rows, int64_t columns, int64_t terms,
        const double _Complex *left, const double _Complex *right, double _Complex beta, double _Complex *result)
{
    const double _Complex one = 1;
    if (rows < 1 || columns < 1 || terms < 1) {
        if (beta == 0)
            memset(result, 0, (size_t)(rows * columns) * sizeof(double _Complex));
        return;
    }
    sg_blas_zgemm(SG_ROW_MAJOR, left_is == 'T' ? SG_TRANSPOSED : SG_AS_IS, right_is == 'T' ? SG_TRANSPOSED : SG_AS_IS,
            rows, columns, terms, &one, left, left_is == 'T' ? rows : terms, right, right_is == 'T' ? terms : columns,
            &beta, result, columns);
}

static inline void sg_cgemm(char left_is, char right_is, int64_t rows, int64_t columns, int64_t terms,
        const float _Complex *left, const float _Complex *right, float _Complex beta, float _Complex *result)
{
    const float _Complex one = 1;
    if (rows < 1 || columns < 1 || terms < 1) {
        if (beta == 0)
            memset(result, 0, (size_t)(rows * columns) * sizeof(float _Complex));
        return;
    }
    sg_blas_cgemm(SG_ROW_MAJOR, left_is == 'T' ? SG_TRANSPOSED : SG_AS_IS, right_is == 'T' ? SG_TRANSPOSED : SG_AS_IS,
            rows, columns, terms, &one, left, left_is == 'T' ? rows : terms, right, right_is == 'T' ? terms : columns,
            &beta, result, columns);
}
