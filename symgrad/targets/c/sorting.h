/* ---- sorting: keys and the places where they were move together; equal keys keep their order, and NaN comes last */

static inline bool sg_precedes(double a, double b) { return (a < b) | ((b != b) & (a == a)); }
static inline bool sg_precedes_whole(int64_t a, int64_t b) { return a < b; }

/* Sort n keys by insertion in runs of 32, which are then merged from one memory into the other and back; up to 32 keys
   need no other memory. */
#define SG_SORT(name, type, precedes)                                                                                 \
static void name(type *restrict keys, int64_t *restrict order, int64_t n, type *restrict other_keys,                  \
        int64_t *restrict other_order)                                                                                \
{                                                                                                                     \
    for (int64_t first = 0; first < n; first += 32) {                                                                 \
        int64_t last = n - first < 32 ? n : first + 32;                                                               \
        for (int64_t i = first; i < last; i++) {                                                                      \
            type key = keys[i];                                                                                       \
            int64_t place = i;                                                                                        \
            for (; place > first && precedes(key, keys[place - 1]); place--) {                                        \
                keys[place] = keys[place - 1];                                                                        \
                order[place] = order[place - 1];                                                                      \
            }                                                                                                         \
            keys[place] = key;                                                                                        \
            order[place] = i;                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    type *from = keys, *to = other_keys;                                                                              \
    int64_t *from_order = order, *to_order = other_order;                                                             \
    for (int64_t width = 32; width < n; width *= 2) {                                                                 \
        for (int64_t first = 0; first < n; first += 2 * width) {                                                      \
            int64_t middle = n - first < width ? n : first + width, last = n - middle < width ? n : middle + width;   \
            int64_t left = first, right = middle;                                                                     \
            for (int64_t k = first; k < last; k++) {                                                                  \
                bool is_right = left >= middle || (right < last && precedes(from[right], from[left]));                \
                int64_t taken = is_right ? right : left;                                                              \
                to[k] = from[taken];                                                                                  \
                to_order[k] = from_order[taken];                                                                      \
                right += is_right;                                                                                    \
                left += !is_right;                                                                                    \
            }                                                                                                         \
        }                                                                                                             \
        type *keys_there = from;                                                                                      \
        int64_t *order_there = from_order;                                                                            \
        from = to, from_order = to_order;                                                                             \
        to = keys_there, to_order = order_there;                                                                      \
    }                                                                                                                 \
    if (from != keys) {                                                                                               \
        memcpy(keys, from, (size_t)n * sizeof(type));                                                                 \
        memcpy(order, from_order, (size_t)n * sizeof(int64_t));                                                       \
    }                                                                                                                 \
}
SG_SORT(sg_sort, double, sg_precedes)
SG_SORT(sg_sort_whole, int64_t, sg_precedes_whole)
