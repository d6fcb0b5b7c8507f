/* Instances that several threads use at once; the argument says which. What the threads share is plain memory: that there is no race for it is
   what the thread sanitizer is to say. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <xmml.h>

#include "behaviour.h"

enum { MESSAGES = 100, NUMBERS = 5000, CHANGES = 6, MOST_THREADS = 4 };

/* What a thread does, as which instance, on which port. */
struct task {
    void *(*function)(void *);
    xmml_instance *me;
    const char *port;
};

/* Has each task carried out by a thread of its own. */
static void at_once(struct task *tasks, size_t count)
{
    pthread_t threads[MOST_THREADS];
    size_t i;
    CHECK(count <= MOST_THREADS);
    for (i = 0; i < count; ++i) CHECK(pthread_create(&threads[i], NULL, tasks[i].function, &tasks[i]) == 0);
    for (i = 0; i < count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

static xmml_instance *joined(void)
{
    xmml_instance *me;
    int again;
    CHECK(xmml_join(&me) == XMML_OK);
    CHECK(xmml_reuse(me, &again) == XMML_OK && again);
    return me;
}

/* Of each message first an array that is made in place, then one that is copied, then a number. */
static void *sends_arrays(void *context)
{
    const struct task *task = context;
    static const double copied[NUMBERS];
    const size_t count = NUMBERS;
    size_t k;
    int i;
    for (i = 0; i < MESSAGES; ++i) {
        void *memory;
        double *numbers;
        CHECK(xmml_loan(task->me, XMML_F64, 1, &count, &memory) == XMML_OK);
        numbers = memory;
        for (k = 0; k < count; ++k) numbers[k] = i + (double)k;
        CHECK(xmml_send_array(task->me, task->port, XMML_F64, 1, &count, numbers) == XMML_OK);
        CHECK(xmml_send_array(task->me, task->port, XMML_F64, 1, &count, copied) == XMML_OK);
        CHECK(xmml_send_double(task->me, task->port, i) == XMML_OK);
    }
    return NULL;
}

static void *receives_arrays(void *context)
{
    const struct task *task = context;
    xmml_message *message;
    xmml_array array;
    double number;
    size_t k;
    int i;
    for (i = 0; i < MESSAGES; ++i) {
        CHECK(xmml_receive(task->me, task->port, &message) == XMML_OK);
        CHECK(xmml_message_array(message, XMML_F64, 1, &array) == XMML_OK && array.size == NUMBERS);
        for (k = 0; k < array.size; ++k) CHECK(((const double *)array.data)[k] == i + (double)k);
        xmml_message_free(message);
        CHECK(xmml_receive(task->me, task->port, &message) == XMML_OK);
        CHECK(xmml_message_array(message, XMML_F64, 1, &array) == XMML_OK && ((const double *)array.data)[7] == 0);
        xmml_message_free(message);
        CHECK(xmml_receive(task->me, task->port, &message) == XMML_OK);
        CHECK(xmml_message_double(message, &number) == XMML_OK && number == i);
        xmml_message_free(message);
    }
    /* What is said of an error is of this thread alone. */
    CHECK(xmml_receive(task->me, task->port, &message) == XMML_ERROR_ENDED);
    CHECK_SAYS(task->port);
    return NULL;
}

/* Two of these share a port. */
static void *sends_numbers(void *context)
{
    const struct task *task = context;
    int i;
    for (i = 1; i <= MESSAGES; ++i) CHECK(xmml_send_int(task->me, task->port, i) == XMML_OK);
    return NULL;
}

static void *changes_methods(void *context)
{
    static const char *const methods[] = {"unix", "tcp", "shm"};
    const struct task *task = context;
    const char *text;
    int i;
    for (i = 0; i < CHANGES; ++i) {
        CHECK(xmml_set_methods(task->me, task->port, methods[i % 3]) == XMML_OK);
        CHECK(xmml_methods(task->me, task->port, &text) == XMML_OK && strlen(text) > 0);
    }
    return NULL;
}

static void sends_from_four_threads(void)
{
    xmml_instance *me = joined();
    struct task tasks[4] = {{sends_arrays, NULL, "arrays"},
                            {changes_methods, NULL, "arrays"},
                            {sends_numbers, NULL, "numbers"},
                            {sends_numbers, NULL, "numbers"}};
    size_t i;
    for (i = 0; i < 4; ++i) tasks[i].me = me;
    at_once(tasks, 4);
    CHECK(xmml_leave(&me) == XMML_OK);
}

static void *receives_numbers(void *context)
{
    const struct task *task = context;
    xmml_message *message;
    int64_t number, sum = 0;
    int i;
    for (i = 0; i < 2 * MESSAGES; ++i) {
        CHECK(xmml_receive(task->me, task->port, &message) == XMML_OK);
        CHECK(xmml_message_int(message, &number) == XMML_OK);
        sum += number;
        xmml_message_free(message);
    }
    CHECK(sum == MESSAGES * (MESSAGES + 1));
    CHECK(xmml_receive(task->me, task->port, &message) == XMML_ERROR_ENDED);
    CHECK_SAYS(task->port);
    return NULL;
}

static void receives_in_two_threads(void)
{
    xmml_instance *me = joined();
    struct task tasks[2] = {{receives_arrays, NULL, "arrays"}, {receives_numbers, NULL, "numbers"}};
    tasks[0].me = tasks[1].me = me;
    at_once(tasks, 2);
    CHECK(xmml_leave(&me) == XMML_OK);
}

/* Without a lock: never two callbacks at once, and each sees what the one before has done. */
static int counts(void *context, xmml_message *message)
{
    ++*(long *)context;
    xmml_message_free(message);
    return 0;
}

static void *serves(void *context)
{
    const struct task *task = context;
    xmml_status status;
    do status = xmml_serve(task->me);
    while (status == XMML_OK);
    CHECK(status == XMML_ENDED);
    return NULL;
}

static void serves_in_two_threads(void)
{
    xmml_instance *me = joined();
    struct task tasks[2] = {{serves, NULL, ""}, {serves, NULL, ""}};
    long called = 0;
    tasks[0].me = tasks[1].me = me;
    CHECK(xmml_on_message(me, "arrays", counts, &called) == XMML_OK);
    CHECK(xmml_on_message(me, "numbers", counts, &called) == XMML_OK);
    at_once(tasks, 2);
    CHECK(called == 3 * MESSAGES + 2 * MESSAGES);
    CHECK(xmml_leave(&me) == XMML_OK);
}

static void *leaves(void *context)
{
    struct task *task = context;
    CHECK(xmml_leave(&task->me) == XMML_OK);
    return NULL;
}

static void *sends_arrays_and_leaves(void *context)
{
    sends_arrays(context);
    return leaves(context);
}

static void *receives_arrays_and_leaves(void *context)
{
    receives_arrays(context);
    return leaves(context);
}

/* Two instances in one process hand over their arrays as they are. */
static void is_both_instances(void)
{
    struct task tasks[2] = {{sends_arrays_and_leaves, NULL, "arrays"}, {receives_arrays_and_leaves, NULL, "arrays"}};
    CHECK(setenv("XMML_INSTANCE", "b", 1) == 0);
    tasks[1].me = joined();
    CHECK(setenv("XMML_INSTANCE", "a", 1) == 0);
    tasks[0].me = joined();
    at_once(tasks, 2);
}

int main(int argc, char **argv)
{
    static const struct behaviour all[] = {
        {"sends_from_four_threads", sends_from_four_threads},
        {"receives_in_two_threads", receives_in_two_threads},
        {"serves_in_two_threads", serves_in_two_threads},
        {"is_both_instances", is_both_instances},
        {NULL, NULL},
    };
    return run_behaviour(all, argc, argv);
}
