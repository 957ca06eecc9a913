/* Products of matrices, for processors with vectors of 512 bits that NumPy's BLAS does not know: it uses half of a vector
   there, and packs both factors, which takes as long as the product where that is narrow.

   The result is computed tile by tile: so many rows of up to three vectors, which stay in registers while terms are
   added. The columns of the right factor are packed for a block of rows; the left one is read where it lies (Goto and
   van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008). Beyond the edges the last row and the last
   column are repeated, so that no flag is raised that the result does not raise. */

#include <immintrin.h>

typedef __m512d sg_vector;
enum { SG_LANES = 64 / sizeof(double), SG_TILE = 8, SG_WIDEST = 3 * SG_LANES, SG_DEPTH = 256, SG_BLOCK = 240 };

/* A matrix: the number in row i and column k is at i * row + k * column. */
struct sg_matrix {
    const double *numbers;
    int64_t row, column;
};

struct sg_product {
    struct sg_matrix left, right;
    int64_t rows, columns, terms;
    double *result;
};

/* Compute a tile: of rows that begin at some addresses, the terms of which lie so far apart, and packed columns. */
SG void sg_tile(int vectors, int64_t depth, const double *const *rows, int64_t apart, const double *packed,
        sg_vector (*tile)[3])
{
    sg_vector sums[SG_TILE][3];
    const double *row[SG_TILE];
#pragma GCC unroll 8
    for (int i = 0; i < SG_TILE; i++) {
        row[i] = rows[i];
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++)
            sums[i][j] = _mm512_setzero_pd();
    }
    for (int64_t k = 0; k < depth; k++) {
        sg_vector right[3];
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++)
            right[j] = _mm512_load_pd(packed + (k * vectors + j) * SG_LANES);
#pragma GCC unroll 8
        for (int i = 0; i < SG_TILE; i++) {
            sg_vector left = _mm512_set1_pd(row[i][k * apart]);
#pragma GCC unroll 3
            for (int j = 0; j < vectors; j++)
                sums[i][j] = _mm512_fmadd_pd(left, right[j], sums[i][j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < SG_TILE; i++)
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++)
            tile[i][j] = sums[i][j];
}

static void sg_any_tile(int vectors, int64_t depth, const double *const *rows, int64_t apart, const double *packed,
        sg_vector (*tile)[3])
{
    if (vectors == 1)
        sg_tile(1, depth, rows, apart, packed, tile);
    else if (vectors == 2)
        sg_tile(2, depth, rows, apart, packed, tile);
    else
        sg_tile(3, depth, rows, apart, packed, tile);
}

/* The lanes of a vector that columns are left for. */
SG __mmask8 sg_mask(int64_t columns) { return columns < SG_LANES ? (__mmask8)((1 << columns) - 1) : (__mmask8)-1; }

/* Pack so many columns of a matrix into vectors, row after row. */
static void sg_pack(struct sg_matrix x, int64_t rows, int64_t columns, int vectors, double *packed)
{
    const int64_t width = vectors * SG_LANES;
    if (x.column == 1)
        for (int j = 0; j < vectors; j++) {
            const double *from = x.numbers + j * SG_LANES;
            const int64_t there = columns - j * SG_LANES;
            const __mmask8 mask = sg_mask(there);
            for (int64_t k = 0; k < rows; k++, from += x.row) {
                sg_vector last = _mm512_set1_pd(from[there < SG_LANES ? there - 1 : 0]);
                _mm512_store_pd(packed + k * width + j * SG_LANES, _mm512_mask_loadu_pd(last, mask, from));
            }
        }
    else
        for (int64_t j = 0; j < width; j++) {
            const double *from = x.numbers + (j < columns ? j : columns - 1) * x.column;
            for (int64_t k = 0; k < rows; k++)
                packed[k * width + j] = from[k * x.row];
        }
}

/* Write a tile into the result, or add it to what is there. */
static void sg_put(sg_vector (*tile)[3], int64_t rows, int64_t columns, double *result, int64_t row, bool adds)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j * SG_LANES < columns; j++) {
            double *to = result + i * row + j * SG_LANES;
            const __mmask8 mask = sg_mask(columns - j * SG_LANES);
            sg_vector x = tile[i][j];
            _mm512_mask_storeu_pd(to, mask, adds ? _mm512_mask_add_pd(x, mask, x, _mm512_maskz_loadu_pd(mask, to)) : x);
        }
}

/* Compute rows `begin` to `end` of a product, a block of them at a time. */
static void sg_rows(const struct sg_product *p, int64_t begin, int64_t end)
{
    double packed[SG_DEPTH * SG_WIDEST] __attribute__((aligned(64)));
    sg_vector tile[SG_TILE][3];
    for (int64_t first = begin; first < end; first += SG_BLOCK) {
        const int64_t last = end - first < SG_BLOCK ? end : first + SG_BLOCK;
        for (int64_t k = 0; k < p->terms; k += SG_DEPTH) {
            const int64_t depth = p->terms - k < SG_DEPTH ? p->terms - k : SG_DEPTH;
            for (int64_t j = 0; j < p->columns;) {
                const int64_t left = (p->columns - j + SG_LANES - 1) / SG_LANES;
                const int vectors = left == 4 ? 2 : left < 3 ? (int)left : 3;
                const int64_t width = vectors * SG_LANES, columns = p->columns - j < width ? p->columns - j : width;
                struct sg_matrix right = p->right;
                right.numbers += k * right.row + j * right.column;
                sg_pack(right, depth, columns, vectors, packed);
                for (int64_t i = first; i < last; i += SG_TILE) {
                    const int64_t rows = last - i < SG_TILE ? last - i : SG_TILE;
                    const double *row[SG_TILE];
                    for (int64_t r = 0; r < SG_TILE; r++)
                        row[r] = p->left.numbers + (i + (r < rows ? r : rows - 1)) * p->left.row + k * p->left.column;
                    sg_any_tile(vectors, depth, row, p->left.column, packed, tile);
                    sg_put(tile, rows, columns, p->result + i * p->columns + j, p->columns, k > 0);
                }
                j += width;
            }
        }
    }
}

static int sg_some_rows(const void *given, int64_t chunk, int64_t begin, int64_t end, char *workspace)
{
    (void)chunk, (void)workspace;
    sg_rows(given, begin, end);
    return 0;
}

/* Add up the products of some terms, into a result of their own. */
static int sg_some_terms(const void *given, int64_t chunk, int64_t begin, int64_t end, char *workspace)
{
    (void)workspace;
    struct sg_product p = *(const struct sg_product *)given;
    p.left.numbers += begin * p.left.column;
    p.right.numbers += begin * p.right.row;
    p.terms = end - begin;
    p.result += chunk * p.rows * p.columns;
    sg_rows(&p, 0, p.rows);
    return 0;
}

/* So many multiplications are worth a chunk, which has at least so many rows. */
#ifndef SG_SHARED
#define SG_SHARED 2000000
#endif
enum { SG_ROWS = 64 };

/* Compute a product: threads share its rows, or its terms where rows are few. How they are split follows from sizes
   alone, and with it the order of sums. */
static void sg_multiply(const struct sg_product *p, int threads)
{
    const double work = (double)p->rows * (double)p->columns * (double)p->terms;
    const int64_t chunks = (int64_t)fmin(SG_CHUNKS, work / SG_SHARED), numbers = p->rows * p->columns;
    int code = SG_ALONE;
    if (chunks > 1 && p->rows >= 2 * SG_ROWS) {
        const int64_t step = ((p->rows + chunks - 1) / chunks + SG_TILE - 1) / SG_TILE * SG_TILE;
        code = sg_in_chunks(sg_some_rows, p, p->rows, step < SG_ROWS ? SG_ROWS : step, threads, NULL, 0);
    } else if (chunks > 1 && p->terms >= SG_ROWS * chunks) {
        const int64_t step = (p->terms + chunks - 1) / chunks, results = (p->terms + step - 1) / step;
        struct sg_product parts = *p;
        parts.result = malloc((size_t)(results * numbers) * sizeof(double));
        code = parts.result ? sg_in_chunks(sg_some_terms, &parts, p->terms, step, threads, NULL, 0) : SG_ALONE;
        for (int64_t n = 0; !code && n < numbers; n++) {
            p->result[n] = parts.result[n];
            for (int64_t k = 1; k < results; k++)
                p->result[n] += parts.result[k * numbers + n];
        }
        free(parts.result);
    }
    if (code)
        sg_rows(p, 0, p->rows);
}

/* Products that have more rows, columns and terms are left to BLAS, which packs both factors; so are those that are
   added to what is there. */
enum { SG_LARGE = 1024 };

/* Compute a product as BLAS does, of matrices in row-major order: without gaps in the result, and alpha = 1. */
SG void sg_dgemm_by(int threads, int order, int left, int right, int64_t rows, int64_t columns, int64_t terms,
        double alpha, const double *a, int64_t a_row, const double *b, int64_t b_row, double beta, double *c, int64_t c_row)
{
    if (order != SG_ROW_MAJOR || beta != 0.0 || (rows > SG_LARGE && columns > SG_LARGE && terms > SG_LARGE)) {
        sg_blas_dgemm(order, left, right, rows, columns, terms, alpha, a, a_row, b, b_row, beta, c, c_row);
        return;
    }
    const struct sg_matrix x = {a, left == SG_AS_IS ? a_row : 1, left == SG_AS_IS ? 1 : a_row};
    const struct sg_matrix y = {b, right == SG_AS_IS ? b_row : 1, right == SG_AS_IS ? 1 : b_row};
    const struct sg_product product = {x, y, rows, columns, terms, c};
    sg_multiply(&product, threads);
}

static void sg_dgemm_alone(int order, int left, int right, int64_t rows, int64_t columns, int64_t terms, double alpha,
        const double *a, int64_t a_row, const double *b, int64_t b_row, double beta, double *c, int64_t c_row)
{
    sg_dgemm_by(1, order, left, right, rows, columns, terms, alpha, a, a_row, b, b_row, beta, c, c_row);
}

static void sg_dgemm_shared(int order, int left, int right, int64_t rows, int64_t columns, int64_t terms, double alpha,
        const double *a, int64_t a_row, const double *b, int64_t b_row, double beta, double *c, int64_t c_row)
{
    sg_dgemm_by(0, order, left, right, rows, columns, terms, alpha, a, a_row, b, b_row, beta, c, c_row);
}
