/* ---- loops in chunks */

/* So many instructions are worth a chunk. Sums of chunks are added one after the other: there are few. */
#ifndef SG_WORTH
#define SG_WORTH 125000
#endif
enum { SG_CHUNKS = 64, SG_FEWEST = 4 };

/* The iterations of a chunk, or all of them where threads do not pay: it takes time to wake them, and to clear and add
   up the numbers of sums, which each chunk has. It follows from sizes alone, and with it the order of sums. */
static inline int64_t sg_step(int64_t count, int64_t work, int64_t numbers)
{
    double chunks = (double)count * (double)work / (SG_WORTH * fmax(1, (double)numbers / 1000));
    if (chunks < SG_FEWEST || count < 2 || numbers > 65536)
        return count;
    int64_t step = (int64_t)ceil((double)count / fmin(chunks, SG_CHUNKS));
    return step < 64 ? step : (step + 63) / 64 * 64;
}

/* A function that runs iterations `begin` to `end`, the chunk of that number, and what it is to run for. */
typedef int sg_chunk(const void *given, int64_t chunk, int64_t begin, int64_t end, char *workspace);

struct sg_range {
    sg_chunk *run;
    const void *given;
    int64_t count, step;
    int64_t bytes;  /* of the workspace of each thread */
};

/* What the module threads.h has: a function that runs a range, and one that says to its threads whether to end. */
struct sg_pool {
    int (*run)(const struct sg_range *range, int threads, char *workspace, bool (*interrupted)(void));
    bool (*has_ended)(void);
};

enum { SG_ALONE = -1, SG_ENDED = 6, SG_FORKED = 7 };
static const struct sg_pool *sg_threads;

/* Run all chunks, on several threads where this process has them and nobody else uses them. */
static int sg_in_chunks(sg_chunk *run, const void *given, int64_t count, int64_t step, int threads, char *workspace,
        int64_t bytes)
{
    const struct sg_range range = {run, given, count, step, bytes};
    int code = sg_threads && threads != 1 ? sg_threads->run(&range, threads, workspace, sg_interrupted) : SG_ALONE;
    if (code != SG_ALONE)
        return code;
    code = 0;
    for (int64_t k = 0; !code && k * step < count; k++) {
        int64_t end = (k + 1) * step < count ? (k + 1) * step : count;
        code = sg_interrupted() ? SG_ENDED : run(given, k, k * step, end, workspace);
    }
    return code;
}
