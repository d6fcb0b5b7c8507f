/* Takes objects, then receives as many messages, twice; says how long each took from the first on. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <time.h>
#include <xmml.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double sum_of(const xmml_message *message) {
    xmml_array array;
    double sum = 0;
    if (xmml_message_array(message, XMML_F64, 1, &array) != XMML_OK) return 1;
    for (size_t at = 0; at < array.shape[0]; at++) sum += ((const double *)array.data)[at];
    return sum;
}

int main(void) {
    xmml_instance *me;
    xmml_message *message;
    int64_t count, wanted;
    int again;
    double total = 0, begin = 0;
    if (xmml_join(&me) != XMML_OK) return 1;
    xmml_param_int(me, "count", NULL, &count);
    xmml_param_int(me, "wanted", NULL, &wanted);
    while (xmml_reuse(me, &again) == XMML_OK && again) {
        for (int is_measured = 0; is_measured < 2; is_measured++) {
            double pool;
            for (int64_t number = 0; number < wanted; number++) {
                if (xmml_take(me, "fields", &message) != XMML_OK) return 1;
                if (number == 0) begin = now();
                total += sum_of(message);
                xmml_message_free(message);
            }
            pool = now() - begin;
            for (int64_t number = 0; number < count; number++) {
                if (xmml_receive(me, "messages", &message) != XMML_OK) return 1;
                if (number == 0) begin = now();
                total += sum_of(message);
                xmml_message_free(message);
            }
            if (is_measured) printf("{\"pool\": %.9f, \"messages\": %.9f}\n", pool, now() - begin);
        }
    }
    return xmml_leave(&me) != XMML_OK || total != 0;
}
