/* NumPy's own BLAS, connected when the module is loaded: it multiplies matrices in row-major order, which may be
   transposed in memory. */
typedef void sg_dgemm_of_blas(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t, const double *,
        int64_t, double, double *, int64_t);
typedef void sg_sgemm_of_blas(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
        int64_t, float, float *, int64_t);
static sg_dgemm_of_blas *sg_blas_dgemm;
static sg_sgemm_of_blas *sg_blas_sgemm;
enum { SG_ROW_MAJOR = 101, SG_AS_IS = 111, SG_TRANSPOSED = 112 };

static inline void sg_dgemm(bool left_turned, bool right_turned, bool adds, int64_t rows, int64_t columns, int64_t terms,
        const double *left, const double *right, double *result)
{
    if (rows < 1 || columns < 1 || terms < 1) {
        if (!adds)
            memset(result, 0, (size_t)(rows * columns) * sizeof(double));
        return;
    }
    sg_blas_dgemm(SG_ROW_MAJOR, left_turned ? SG_TRANSPOSED : SG_AS_IS, right_turned ? SG_TRANSPOSED : SG_AS_IS,
            rows, columns, terms, 1.0, left, left_turned ? rows : terms, right, right_turned ? terms : columns,
            adds ? 1.0 : 0.0, result, columns);
}

static inline void sg_sgemm(bool left_turned, bool right_turned, bool adds, int64_t rows, int64_t columns, int64_t terms,
        const float *left, const float *right, float *result)
{
    if (rows < 1 || columns < 1 || terms < 1) {
        if (!adds)
            memset(result, 0, (size_t)(rows * columns) * sizeof(float));
        return;
    }
    sg_blas_sgemm(SG_ROW_MAJOR, left_turned ? SG_TRANSPOSED : SG_AS_IS, right_turned ? SG_TRANSPOSED : SG_AS_IS,
            rows, columns, terms, 1.0f, left, left_turned ? rows : terms, right, right_turned ? terms : columns,
            adds ? 1.0f : 0.0f, result, columns);
}
