/* Instances of small models; the argument says which. */
#include <math.h>
#include <xmml.h>

#include "behaviour.h"

static xmml_instance *me;

static void joined(void)
{
    CHECK(xmml_join(&me) == XMML_OK);
}

static void left(void)
{
    CHECK(xmml_leave(&me) == XMML_OK);
}

static int another_run(void)
{
    int again = 0;
    CHECK(xmml_reuse(me, &again) == XMML_OK);
    return again;
}

/* One array of every element type, in both orders, and then the rest of what a message can carry. */
static void sends_everything(void)
{
    unsigned char elements[6 * 16];
    const size_t shape[2] = {2, 3};
    double t;
    size_t i;
    for (i = 0; i < sizeof elements; ++i) elements[i] = (unsigned char)(i % 2);
    joined();
    while (another_run()) {
        int number = 0;
        while (xmml_step(me, &t) == XMML_OK) {
            const int kind = number % 16;
            const xmml_order order = (number / 16) % 2 == 0 ? XMML_ROW_MAJOR : XMML_COLUMN_MAJOR;
            if (kind <= XMML_C128) {
                CHECK(xmml_send_array_order(me, "out", (xmml_dtype)kind, order, 2, shape, elements) == XMML_OK);
            } else if (kind == 13) {
                CHECK(xmml_send_text(me, "out", "Gr\xc3\xbc\xc3\x9f" "e") == XMML_OK);
            } else if (kind == 14) {
                CHECK(xmml_send_bytes(me, "out", elements, sizeof elements) == XMML_OK);
            } else {
                xmml_value *map = xmml_map_new(), *list = xmml_list_new();
                CHECK(xmml_list_add(list, xmml_value_int(-5)) == XMML_OK);
                CHECK(xmml_list_add(list, xmml_value_array(XMML_F64, 0, NULL, &t)) == XMML_OK);
                CHECK(xmml_map_set(map, "list", list) == XMML_OK);
                CHECK(xmml_send(me, "out", map) == XMML_OK);
                xmml_value_free(map);
            }
            ++number;
        }
    }
    left();
}

/* Gives back what it gets, once per run. */
static void echoes(void)
{
    double t;
    joined();
    while (another_run()) {
        xmml_message *message;
        CHECK(xmml_receive(me, "in", &message) == XMML_OK);
        while (xmml_step(me, &t) == XMML_OK) {
            CHECK(xmml_message_timestamp(message) == t);
        }
        CHECK(xmml_send(me, "out", xmml_message_data(message)) == XMML_OK);
        xmml_message_free(message);
    }
    left();
}

/* Answers every question until there are no more. */
static void doubles(void)
{
    int runs = 0;
    joined();
    while (another_run()) {
        xmml_message *message;
        double number, t;
        CHECK(xmml_receive(me, "question", &message) == XMML_OK);
        CHECK(xmml_message_double(message, &number) == XMML_OK);
        CHECK(xmml_origin(me) == xmml_message_timestamp(message));
        xmml_message_free(message);
        while (xmml_step(me, &t) == XMML_OK) {
        }
        CHECK(xmml_send_double(me, "answer", 2 * number) == XMML_OK);
        ++runs;
    }
    printf("%d runs\n", runs);
    left();
}

static void sends_on_an_unknown_port(void)
{
    double t;
    joined();
    CHECK(another_run());
    CHECK(xmml_step(me, &t) == XMML_OK);
    if (xmml_send_double(me, "powr", 1.0) != XMML_OK) {
        xmml_fail(me, xmml_error());
        exit(1);
    }
}

static void waits_only_a_moment(void)
{
    xmml_message *message = NULL;
    double t;
    joined();
    CHECK(another_run());
    CHECK(xmml_step(me, &t) == XMML_OK);
    CHECK(xmml_receive_timeout(me, "in", 0.05, &message) == XMML_TIMED_OUT && message == NULL);
    CHECK_SAYS("nothing came within 0.05 s");
    CHECK(xmml_send_double(me, "looked", 1) == XMML_OK);
    CHECK(xmml_receive(me, "in", &message) == XMML_OK);
    xmml_message_free(message);
    left();
}

/* Sends when the other one has looked and found nothing. */
static void sends_later(void)
{
    xmml_message *message = NULL;
    double t;
    joined();
    CHECK(another_run());
    CHECK(xmml_step(me, &t) == XMML_OK);
    CHECK(xmml_receive(me, "looked", &message) == XMML_OK);
    xmml_message_free(message);
    CHECK(xmml_send_double(me, "out", 7) == XMML_OK);
    left();
}

static void leaves_at_once(void)
{
    joined();
    left();
}

/* Sends until it is told that nobody listens. */
static void sends_until_the_receiver_is_gone(void)
{
    double t;
    int gone = 0;
    joined();
    CHECK(another_run());
    while (xmml_step(me, &t) == XMML_OK) {
        const xmml_status status = xmml_send_double(me, "out", t);
        CHECK(status == XMML_OK || status == XMML_RECEIVER_GONE);
        if (status == XMML_RECEIVER_GONE) ++gone;
    }
    CHECK(gone > 0);
    left();
}

/* Copy i gets i, and every answer is its own. */
static void asks_every_copy(void)
{
    uint32_t copies = 0, i;
    double t;
    joined();
    CHECK(xmml_copies(me, "to", &copies) == XMML_OK);
    CHECK(another_run());
    CHECK(xmml_step(me, &t) == XMML_OK);
    for (i = 0; i < copies; ++i) {
        const size_t one = 1;
        const double number = i;
        CHECK(xmml_send_array_to(me, "to", i, XMML_F64, 1, &one, &number) == XMML_OK);
    }
    for (i = copies; i-- > 0;) {
        xmml_message *message;
        xmml_array array;
        CHECK(xmml_receive_of(me, "from", i, &message) == XMML_OK);
        CHECK(xmml_message_array(message, XMML_F64, 1, &array) == XMML_OK);
        CHECK(((const double *)array.data)[0] == 10.0 * i);
        xmml_message_free(message);
    }
    CHECK(xmml_send_to(me, "to", copies, NULL) != XMML_OK);
    printf("%u copies\n", (unsigned)copies);
    left();
}

static void multiplies_by_ten(void)
{
    joined();
    while (another_run()) {
        xmml_message *message;
        xmml_array array;
        double number, t;
        const size_t one = 1;
        CHECK(xmml_receive(me, "in", &message) == XMML_OK);
        CHECK(xmml_message_array(message, XMML_F64, 1, &array) == XMML_OK);
        number = 10 * ((const double *)array.data)[0];
        CHECK(number == 10.0 * xmml_index(me));
        xmml_message_free(message);
        while (xmml_step(me, &t) == XMML_OK) {
        }
        CHECK(xmml_send_array(me, "out", XMML_F64, 1, &one, &number) == XMML_OK);
    }
    left();
}

/* Changes the method of its conduit in the middle of what it sends. */
static void changes_its_method(void)
{
    double t;
    const char *text;
    joined();
    while (another_run()) {
        int number = 0;
        while (xmml_step(me, &t) == XMML_OK) {
            if (number++ == 5) {
                CHECK(xmml_set_methods(me, "out", "tcp") == XMML_OK);
                CHECK(xmml_methods(me, "out", &text) == XMML_OK);
                CHECK(strstr(text, "a.out -> b.in: tcp") != NULL);
                CHECK(strstr(text, "5 messages") != NULL);
                CHECK(xmml_set_methods(me, "out", "tpc") != XMML_OK);
                CHECK(strstr(xmml_error(), "did you mean tcp?") != NULL);
            }
            CHECK(xmml_send_double(me, "out", t) == XMML_OK);
        }
    }
    left();
}

static void sends_the_time(void)
{
    double t;
    joined();
    while (another_run()) {
        while (xmml_step(me, &t) == XMML_OK) CHECK(xmml_send_double(me, "out", t) == XMML_OK);
    }
    left();
}

int main(int argc, char **argv)
{
    static const struct behaviour all[] = {
        {"sends_everything", sends_everything},
        {"echoes", echoes},
        {"doubles", doubles},
        {"changes_its_method", changes_its_method},
        {"sends_the_time", sends_the_time},
        {"sends_on_an_unknown_port", sends_on_an_unknown_port},
        {"waits_only_a_moment", waits_only_a_moment},
        {"sends_later", sends_later},
        {"leaves_at_once", leaves_at_once},
        {"sends_until_the_receiver_is_gone", sends_until_the_receiver_is_gone},
        {"asks_every_copy", asks_every_copy},
        {"multiplies_by_ten", multiplies_by_ten},
        {NULL, NULL},
    };
    return run_behaviour(all, argc, argv);
}
