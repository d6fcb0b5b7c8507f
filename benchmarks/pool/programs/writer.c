/* Puts objects, then sends as many messages, twice; says how long each took. The first time memory is new. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <xmml.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(void) {
    xmml_instance *me;
    int64_t count, elements;
    int again;
    if (xmml_join(&me) != XMML_OK) return 1;
    xmml_param_int(me, "count", NULL, &count);
    xmml_param_int(me, "elements", NULL, &elements);
    size_t shape = (size_t)elements;
    double *field = calloc(shape, sizeof *field);
    while (xmml_reuse(me, &again) == XMML_OK && again) {
        for (int is_measured = 0; is_measured < 2; is_measured++) {
            double begin = now(), pool;
            for (int64_t number = 0; number < count; number++) {
                char text[100];
                snprintf(text, sizeof text, "step=%lld param=0 levtype=pl", (long long)number);
                if (xmml_put_array(me, "fields", XMML_F64, 1, &shape, field, text, NULL) != XMML_OK) return 1;
            }
            pool = now() - begin;
            begin = now();
            for (int64_t number = 0; number < count; number++) {
                if (xmml_send_array(me, "messages", XMML_F64, 1, &shape, field) != XMML_OK) return 1;
            }
            if (is_measured) printf("{\"pool\": %.9f, \"messages\": %.9f}\n", pool, now() - begin);
        }
    }
    free(field);
    return xmml_leave(&me) != XMML_OK;
}
