/* Threads that run chunks of loops: one pool for all modules of a process, for one call at a time.

   They are started when the first call needs them, and sleep between calls that do not follow at once: to wake them
   takes as long as a short chunk. The thread that calls takes chunks as they do, hears signals meanwhile, and waits for
   nobody who has not begun. In a child that was forked the threads are gone,
   so it begins anew. */

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { SG_MOST_THREADS = 256, SG_KEPT = 1 << 26, SG_STACK = 1 << 23 };
enum { SG_AWAKE = 40000 };  /* nanoseconds that a thread waits before it sleeps */

static pthread_mutex_t sg_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sg_wanted = PTHREAD_COND_INITIALIZER, sg_finished = PTHREAD_COND_INITIALIZER;
static atomic_flag sg_taken = ATOMIC_FLAG_INIT;  /* by a call */
static int sg_cores = 1;
static int sg_there;  /* threads of the pool */
static atomic_int sg_asked, sg_inside;  /* those yet to come, and those at work; changed under the lock */
static atomic_int sg_process;  /* counts forks */

/* The call. */
static const struct sg_range *sg_range;
static atomic_llong sg_next;
static atomic_bool sg_failed, sg_over;
static atomic_int sg_flags;  /* of the processor, which each thread has for itself */
static int64_t sg_first;  /* the first chunk that failed: all before it have been taken */
static int sg_code;

static bool sg_has_ended(void)
{
    return atomic_load_explicit(&sg_over, memory_order_relaxed);
}

static bool sg_never(void)
{
    return false;
}

/* Wait a moment, without sleeping, until a number of threads is zero, or is not. */
static void sg_await(atomic_int *threads, bool zero)
{
    struct timespec begin, now;
    timespec_get(&begin, TIME_UTC);
    do {
        for (int k = 0; k < 32; k++) {
            if ((atomic_load_explicit(threads, memory_order_relaxed) == 0) == zero)
                return;
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        }
        timespec_get(&now, TIME_UTC);
    } while (now.tv_sec == begin.tv_sec && now.tv_nsec - begin.tv_nsec < SG_AWAKE);
}

/* Take chunks until none is left, or one has failed. */
static void sg_work(const struct sg_range *range, char *workspace, bool (*interrupted)(void))
{
    for (;;) {
        if (interrupted())
            atomic_store(&sg_over, true);
        if (atomic_load(&sg_over) || atomic_load(&sg_failed))
            return;
        int64_t k = atomic_fetch_add(&sg_next, 1), begin = k * range->step;
        if (begin >= range->count)
            return;
        int64_t end = begin + range->step < range->count ? begin + range->step : range->count;
        int code = range->run(range->given, k, begin, end, workspace);
        if (code == SG_ENDED)
            atomic_store(&sg_over, true);
        if (code) {
            pthread_mutex_lock(&sg_lock);
            if (!atomic_load(&sg_failed) || k < sg_first) {
                sg_first = k;
                sg_code = code;
            }
            atomic_store(&sg_failed, true);
            pthread_mutex_unlock(&sg_lock);
        }
    }
}

static void *sg_thread(void *unused)
{
    char *memory = NULL;
    int64_t room = -1;
    pthread_mutex_lock(&sg_lock);
    for (;;) {
        while (sg_asked == 0)
            pthread_cond_wait(&sg_wanted, &sg_lock);
        sg_asked--;
        sg_inside++;
        const struct sg_range *range = sg_range;
        pthread_mutex_unlock(&sg_lock);
        if (range->bytes > room) {
            free(memory);
            memory = malloc((size_t)range->bytes + 64);
            room = memory ? range->bytes : -1;
        }
        feclearexcept(FE_ALL_EXCEPT);
        if (memory)
            sg_work(range, (char *)(((uintptr_t)memory + 63) / 64 * 64), sg_never);
        atomic_fetch_or(&sg_flags, fetestexcept(FE_ALL_EXCEPT));
        if (room > SG_KEPT) {
            free(memory);
            memory = NULL;
            room = -1;
        }
        pthread_mutex_lock(&sg_lock);
        if (--sg_inside == 0)
            pthread_cond_signal(&sg_finished);
        pthread_mutex_unlock(&sg_lock);
        sg_await(&sg_asked, false);
        pthread_mutex_lock(&sg_lock);
    }
    return unused;
}

/* In a child there are no threads, and the call that its only thread may be in ends with the chunk that it is at. */
static void sg_after_fork(void)
{
    atomic_store(&sg_over, true);
    pthread_mutex_init(&sg_lock, NULL);
    pthread_cond_init(&sg_wanted, NULL);
    pthread_cond_init(&sg_finished, NULL);
    sg_there = sg_asked = sg_inside = 0;
    atomic_flag_clear(&sg_taken);
    atomic_fetch_add(&sg_process, 1);
}

/* Start threads, which leave signals to others, until there are so many. */
static void sg_start(int threads)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    static bool is_watched;
    if (sg_there >= threads)
        return;
    if (!is_watched)
        is_watched = pthread_atfork(NULL, NULL, sg_after_fork) == 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, SG_STACK);
    while (is_watched && sg_there < threads && pthread_create(&thread, &attributes, sg_thread, NULL) == 0)
        sg_there++;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Wait until no thread is at work; a signal may end it. False if this process is a child that was forked meanwhile. */
static bool sg_wait(bool (*interrupted)(void), int process)
{
    pthread_mutex_lock(&sg_lock);
    sg_asked = 0;
    pthread_mutex_unlock(&sg_lock);
    sg_await(&sg_inside, true);
    while (atomic_load(&sg_process) == process) {
        pthread_mutex_lock(&sg_lock);
        if (sg_inside) {
            struct timespec until;
            timespec_get(&until, TIME_UTC);
            until.tv_nsec += 50000000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_cond_timedwait(&sg_finished, &sg_lock, &until);
        }
        bool is_done = sg_inside == 0;
        pthread_mutex_unlock(&sg_lock);
        if (is_done)
            return true;
        if (interrupted())
            atomic_store(&sg_over, true);
    }
    return false;
}

/* Run a range, and return the code of the first chunk that failed, or 0. */
static int sg_run(const struct sg_range *range, int threads, char *workspace, bool (*interrupted)(void))
{
    int64_t chunks = (range->count + range->step - 1) / range->step;
    int others = (threads ? threads : sg_cores) - 1;
    others = others < chunks ? others : (int)chunks - 1;
    others = others < SG_MOST_THREADS ? others : SG_MOST_THREADS;
    if (others < 1 || atomic_flag_test_and_set(&sg_taken))
        return SG_ALONE;
    int process = atomic_load(&sg_process);
    pthread_mutex_lock(&sg_lock);
    sg_start(others);
    sg_range = range;
    atomic_store(&sg_next, 0);
    atomic_store(&sg_failed, false);
    atomic_store(&sg_over, false);
    atomic_store(&sg_flags, 0);
    sg_code = 0;
    sg_asked = others < sg_there ? others : sg_there;
    if (sg_asked == 1)
        pthread_cond_signal(&sg_wanted);
    else
        pthread_cond_broadcast(&sg_wanted);
    pthread_mutex_unlock(&sg_lock);
    sg_work(range, workspace, interrupted);
    if (!sg_wait(interrupted, process))
        return SG_FORKED;
    feraiseexcept(atomic_load(&sg_flags));
    int code = atomic_load(&sg_over) ? SG_ENDED : sg_code;
    atomic_flag_clear(&sg_taken);
    return code;
}

static const struct sg_pool sg_the_pool = {sg_run, sg_has_ended};
