/* Bound ports: looked up once, then used without their names. */
#include <xmml.h>

#include "behaviour.h"

/* In its first run. In: in (S), from (S, two copies); out: out (O_i), to (O_i, three copies). */
static xmml_instance *started(void)
{
    xmml_alone *alone = xmml_alone_new("cell");
    xmml_instance *me = NULL;
    xmml_value *value = xmml_value_int(7);
    int again = 0;
    CHECK(xmml_alone_port(alone, "out", "Oi") == XMML_OK);
    CHECK(xmml_alone_port(alone, "to", "Oi*3") == XMML_OK);
    CHECK(xmml_alone_port(alone, "in", "S") == XMML_OK);
    CHECK(xmml_alone_port(alone, "from", "S*2") == XMML_OK);
    CHECK(xmml_alone_input(alone, "in", 1.5, value) == XMML_OK);
    CHECK(xmml_alone_input(alone, "from[0]", 2.5, value) == XMML_OK);
    CHECK(xmml_alone_input(alone, "from[1]", 3.5, value) == XMML_OK);
    xmml_value_free(value);
    CHECK(xmml_alone_join(&alone, &me) == XMML_OK);
    CHECK(xmml_reuse(me, &again) == XMML_OK && again == 1);
    return me;
}

static const char *out_port(const xmml_instance *me, const char *name)
{
    const char *bound = NULL;
    CHECK(xmml_bind_out(me, name, &bound) == XMML_OK && strcmp(bound, name) == 0);
    return bound;
}

static const char *in_port(const xmml_instance *me, const char *name)
{
    const char *bound = NULL;
    CHECK(xmml_bind_in(me, name, &bound) == XMML_OK && strcmp(bound, name) == 0);
    return bound;
}

/* What xmml_error() says, without the place of the call. */
static const char *said(void)
{
    static char text[2][512];
    static int turn;
    char *copy = text[turn = !turn];
    strncpy(copy, xmml_error(), sizeof text[0] - 1);
    CHECK(strstr(copy, " (called at ") != NULL);
    *strstr(copy, " (called at ") = '\0';
    return copy;
}

static void a_misspelt_port_is_the_error_of_a_call_when_it_is_bound(void)
{
    xmml_instance *me = started();
    const char *bound = "", *by_name, *out, *in;
    CHECK(xmml_send_nothing(me, "powr") == XMML_ERROR_PORT);
    by_name = said();
    CHECK(xmml_bind_out(me, "powr", &bound) == XMML_ERROR_PORT && bound == NULL);
    out = said();
    CHECK(strcmp(by_name, out) == 0);
    CHECK(xmml_bind_in(me, "powr", &bound) == XMML_ERROR_PORT && bound == NULL);
    in = said();
    CHECK(strcmp(in, out) == 0);
    xmml_instance_free(&me);
}

static void a_port_of_the_other_direction_is_the_error_of_a_call_when_it_is_bound(void)
{
    xmml_instance *me = started();
    xmml_message *message;
    const char *bound, *by_name;
    CHECK(xmml_send_nothing(me, "in") == XMML_ERROR_PORT);
    by_name = said();
    CHECK(xmml_bind_out(me, "in", &bound) == XMML_ERROR_PORT);
    CHECK(strcmp(by_name, said()) == 0);
    CHECK(xmml_receive(me, "out", &message) == XMML_ERROR_PORT);
    by_name = said();
    CHECK(xmml_bind_in(me, "out", &bound) == XMML_ERROR_PORT);
    CHECK(strcmp(by_name, said()) == 0);
    xmml_instance_free(&me);
}

static void an_error_of_binding_says_its_line(void)
{
    xmml_instance *me = started();
    const char *bound;
    char place[64];
    sprintf(place, "ports.c:%d)", __LINE__ + 1);
    CHECK(xmml_bind_in(me, "out", &bound) == XMML_ERROR_PORT);
    CHECK_SAYS(place);
    CHECK(xmml_bind_in(me, NULL, &bound) == XMML_ERROR_USAGE);
    CHECK_SAYS("port is a null pointer");
    CHECK(xmml_bind_in(me, "out", NULL) == XMML_ERROR_USAGE);
    CHECK_SAYS("bound is a null pointer");
    xmml_instance_free(&me);
}

static void a_bound_port_is_given_to_every_call_in_place_of_its_name(void)
{
    xmml_instance *me = started();
    const char *out = out_port(me, "out"), *in = in_port(me, "in"), *text = NULL;
    uint32_t copies = 7;
    int yes = 0;
    xmml_message *message;
    int64_t number = 0;
    CHECK(xmml_connected(me, out, &yes) == XMML_OK && yes);
    CHECK(xmml_copies(me, in, &copies) == XMML_OK && copies == 0);
    CHECK(xmml_methods(me, out, &text) == XMML_OK && text != NULL);
    CHECK(xmml_send_int(me, out, 4) == XMML_OK);
    CHECK(xmml_skip(me, out_port(me, "to")) == XMML_OK);
    CHECK(xmml_has_message(me, in, &yes) == XMML_OK && yes);
    CHECK(xmml_receive(me, in, &message) == XMML_OK);
    CHECK(xmml_message_int(message, &number) == XMML_OK && number == 7 && xmml_message_timestamp(message) == 1.5);
    xmml_message_free(message);
    CHECK(xmml_output(me, out, 0, &message) == XMML_OK);
    CHECK(xmml_message_int(message, &number) == XMML_OK && number == 4);
    xmml_message_free(message);
    xmml_instance_free(&me);
}

static void a_bound_port_addresses_one_copy(void)
{
    xmml_instance *me = started();
    const char *to = out_port(me, "to"), *from = in_port(me, "from");
    const size_t one = 1;
    const double data = 3.0;
    xmml_message *message;
    uint32_t copies;
    int yes = 0;
    CHECK(xmml_copies(me, to, &copies) == XMML_OK && copies == 3);
    CHECK(xmml_send_array_to(me, to, 2, XMML_F64, 1, &one, &data) == XMML_OK);
    CHECK(xmml_output(me, "to[2]", 0, &message) == XMML_OK);
    xmml_message_free(message);
    CHECK(xmml_output(me, "to[0]", 0, &message) == XMML_DONE);
    CHECK(xmml_send_array_to(me, to, 3, XMML_F64, 1, &one, &data) == XMML_ERROR_USAGE);
    CHECK_SAYS("cell.to: there is no copy 3");
    CHECK(xmml_has_message_of(me, from, 1, &yes) == XMML_OK && yes);
    CHECK(xmml_skip(me, out_port(me, "out")) == XMML_OK);
    CHECK(xmml_send_array_to(me, to, 0, XMML_F64, 1, &one, &data) == XMML_OK);
    CHECK(xmml_send_array_to(me, to, 1, XMML_F64, 1, &one, &data) == XMML_OK);
    CHECK(xmml_receive_of(me, from, 1, &message) == XMML_OK && xmml_message_timestamp(message) == 3.5);
    xmml_message_free(message);
    xmml_instance_free(&me);
}

static void a_bound_port_takes_time_stamps_and_time_outs(void)
{
    xmml_instance *me = started();
    const char *out = out_port(me, "out"), *in = in_port(me, "in");
    const size_t one = 1;
    const double data = 3.0;
    xmml_message *message;
    CHECK(xmml_send_array_at(me, out, XMML_F64, 1, &one, &data, 20.0, XMML_NO_TIME) == XMML_OK);
    CHECK(xmml_output(me, out, 0, &message) == XMML_OK);
    CHECK(xmml_message_timestamp(message) == 20.0 && !xmml_message_has_next(message));
    xmml_message_free(message);
    CHECK(xmml_send_nothing(me, out_port(me, "to")) == XMML_OK);
    CHECK(xmml_receive_timeout(me, in, -1.0, &message) == XMML_ERROR_USAGE);
    CHECK_SAYS("cell.in: a time-out of -1 s");
    CHECK(xmml_receive_timeout(me, in, 0.0, &message) == XMML_OK);
    xmml_message_free(message);
    xmml_instance_free(&me);
}

static void errors_name_a_bound_port(void)
{
    xmml_instance *me = started();
    const char *in = in_port(me, "in");
    xmml_message *message;
    const char *text;
    CHECK(xmml_receive(me, in, &message) == XMML_ERROR_ORDER);
    CHECK_SAYS("receive on \"in\"");
    CHECK(xmml_skip(me, out_port(me, "out")) == XMML_OK && xmml_skip(me, out_port(me, "to")) == XMML_OK);
    CHECK(xmml_receive(me, in, &message) == XMML_OK);
    CHECK(xmml_message_text(message, &text, NULL) == XMML_ERROR_TYPE);
    CHECK_SAYS("cell.in: expected");
    xmml_message_free(message);
    xmml_instance_free(&me);
}

static void the_name_of_a_listed_port_is_bound(void)
{
    xmml_instance *me = started();
    xmml_port port;
    CHECK(xmml_port_at(me, 0, &port) == XMML_OK && port.name == out_port(me, "out"));
    CHECK(xmml_port_at(me, 2, &port) == XMML_OK && port.name == in_port(me, "in"));
    CHECK(out_port(me, out_port(me, "out")) == out_port(me, "out"));
    xmml_instance_free(&me);
}

static void a_part_of_a_bound_name_is_a_name_like_any_other(void)
{
    xmml_instance *me = started();
    const char *out = out_port(me, "out");
    CHECK(xmml_send_nothing(me, out + 1) == XMML_ERROR_PORT);
    CHECK_SAYS("\"ut\"");
    xmml_instance_free(&me);
}

static void a_bound_port_means_the_same_port_of_another_instance_by_its_text(void)
{
    xmml_instance *me = started(), *other = started();
    xmml_message *message;
    CHECK(xmml_send_int(other, out_port(me, "out"), 5) == XMML_OK);
    CHECK(xmml_output(other, "out", 0, &message) == XMML_OK);
    xmml_message_free(message);
    CHECK(xmml_output(me, "out", 0, &message) == XMML_DONE);
    xmml_instance_free(&me);
    xmml_instance_free(&other);
}

static void a_bound_port_of_an_instance_that_has_left_is_the_usual_error(void)
{
    xmml_instance *me = started();
    const char *out = out_port(me, "out"), *in = in_port(me, "in"), *bound;
    xmml_message *message;
    xmml_instance_free(&me);
    CHECK(xmml_send_int(me, out, 1) == XMML_ERROR_USAGE);
    CHECK_SAYS("me is a null pointer");
    CHECK(xmml_receive(me, in, &message) == XMML_ERROR_USAGE);
    CHECK_SAYS("me is a null pointer");
    CHECK(xmml_bind_out(me, "out", &bound) == XMML_ERROR_USAGE);
    CHECK_SAYS("me is a null pointer");
}

int main(int argc, char **argv)
{
    static const struct behaviour known[] = {
        {"a_misspelt_port_is_the_error_of_a_call_when_it_is_bound",
         a_misspelt_port_is_the_error_of_a_call_when_it_is_bound},
        {"a_port_of_the_other_direction_is_the_error_of_a_call_when_it_is_bound",
         a_port_of_the_other_direction_is_the_error_of_a_call_when_it_is_bound},
        {"an_error_of_binding_says_its_line", an_error_of_binding_says_its_line},
        {"a_bound_port_is_given_to_every_call_in_place_of_its_name",
         a_bound_port_is_given_to_every_call_in_place_of_its_name},
        {"a_bound_port_addresses_one_copy", a_bound_port_addresses_one_copy},
        {"a_bound_port_takes_time_stamps_and_time_outs", a_bound_port_takes_time_stamps_and_time_outs},
        {"errors_name_a_bound_port", errors_name_a_bound_port},
        {"the_name_of_a_listed_port_is_bound", the_name_of_a_listed_port_is_bound},
        {"a_part_of_a_bound_name_is_a_name_like_any_other", a_part_of_a_bound_name_is_a_name_like_any_other},
        {"a_bound_port_means_the_same_port_of_another_instance_by_its_text",
         a_bound_port_means_the_same_port_of_another_instance_by_its_text},
        {"a_bound_port_of_an_instance_that_has_left_is_the_usual_error",
         a_bound_port_of_an_instance_that_has_left_is_the_usual_error},
        {NULL, NULL},
    };
    return run_behaviour(known, argc, argv);
}
