/* An instance by itself: the loop, sending, receiving, parameters. */
#include <math.h>
#include <xmml.h>

#include "behaviour.h"

/* in: start (f_init), in (S); out: out (O_i), final (O_f). Two steps of 0.5 s. */
static xmml_alone *described(void)
{
    xmml_alone *alone = xmml_alone_new("cell");
    CHECK(xmml_alone_port(alone, "start", "finit") == XMML_OK);
    CHECK(xmml_alone_port(alone, "out", "Oi") == XMML_OK);
    CHECK(xmml_alone_port(alone, "in", "S") == XMML_OK);
    CHECK(xmml_alone_port(alone, "final", "Of") == XMML_OK);
    CHECK(xmml_alone_steps(alone, 2, 0.5) == XMML_OK);
    CHECK(xmml_alone_param(alone, "length", "2 km") == XMML_OK);
    CHECK(xmml_alone_param(alone, "cells", "40") == XMML_OK);
    CHECK(xmml_alone_param(alone, "closed", "yes") == XMML_OK);
    CHECK(xmml_alone_param(alone, "scheme", "hll") == XMML_OK);
    return alone;
}

static void give(xmml_alone *alone, const char *port, double timestamp, double number)
{
    xmml_value *value = xmml_value_double(number);
    CHECK(xmml_alone_input(alone, port, timestamp, value) == XMML_OK);
    xmml_value_free(value);
}

static xmml_instance *cell(void)
{
    xmml_alone *alone = described();
    xmml_instance *me = NULL;
    give(alone, "start", 10.0, 1.0);
    give(alone, "in", 10.0, 2.0);
    give(alone, "in", 10.5, 3.0);
    CHECK(xmml_alone_join(&alone, &me) == XMML_OK && alone == NULL && me != NULL);
    return me;
}

/* Joined, in its first run, with f_init received. */
static xmml_instance *started(void)
{
    xmml_instance *me = cell();
    xmml_message *message;
    int again = 0;
    CHECK(xmml_reuse(me, &again) == XMML_OK && again == 1);
    CHECK(xmml_receive(me, "start", &message) == XMML_OK);
    xmml_message_free(message);
    return me;
}

/* The same in its first step. */
static xmml_instance *stepping(void)
{
    xmml_instance *me = started();
    double t;
    CHECK(xmml_step(me, &t) == XMML_OK);
    return me;
}

static double received(xmml_instance *me, const char *port)
{
    xmml_message *message;
    double number;
    CHECK(xmml_receive(me, port, &message) == XMML_OK);
    CHECK(xmml_message_double(message, &number) == XMML_OK);
    xmml_message_free(message);
    return number;
}

static void the_loop_runs_the_steps_of_the_model(void)
{
    xmml_instance *me = cell();
    xmml_message *message;
    int again = 0, steps = 0;
    double t = 0, sum = 0;
    while (xmml_reuse(me, &again) == XMML_OK && again) {
        sum += received(me, "start");
        CHECK(xmml_origin(me) == 10.0);
        while (xmml_step(me, &t) == XMML_OK) {
            CHECK(t == 10.0 + 0.5 * steps++);
            CHECK(xmml_time(me) == t);
            CHECK(xmml_send_double(me, "out", sum) == XMML_OK);
            sum += received(me, "in");
        }
        CHECK(xmml_send_double(me, "final", sum) == XMML_OK);
    }
    CHECK(steps == 2 && sum == 6.0);
    CHECK(xmml_output(me, "out", 0, &message) == XMML_OK);
    CHECK(xmml_message_timestamp(message) == 10.0);
    CHECK(xmml_message_has_next(message) && xmml_message_next_timestamp(message) == 10.5);
    xmml_message_free(message);
    CHECK(xmml_output(me, "out", 1, &message) == XMML_OK);
    CHECK(!xmml_message_has_next(message) && isnan(xmml_message_next_timestamp(message)));
    xmml_message_free(message);
    CHECK(xmml_output(me, "final", 0, &message) == XMML_OK);
    CHECK(xmml_message_timestamp(message) == 11.0);
    xmml_message_free(message);
    CHECK(xmml_output(me, "out", 2, &message) == XMML_DONE && message == NULL);
    CHECK(xmml_leave(&me) == XMML_OK && me == NULL);
}

static void the_model_is_known(void)
{
    xmml_instance *me = cell();
    uint32_t copies = 7;
    int yes = 0;
    CHECK(strcmp(xmml_name(me), "cell") == 0);
    CHECK(xmml_index(me) == 0 && xmml_count(me) == 1);
    CHECK(xmml_delta(me) == 0.5 && xmml_total(me) == 1.0 && xmml_steps(me) == 2);
    CHECK(xmml_connected(me, "out", &yes) == XMML_OK && yes == 1);
    CHECK(xmml_copies(me, "out", &copies) == XMML_OK && copies == 0);
    xmml_instance_free(&me);
}

static void parameters_are_converted_and_checked(void)
{
    xmml_instance *me = cell();
    double length = 0;
    int64_t cells = 0;
    int closed = 0;
    const char *scheme = NULL;
    CHECK(xmml_param_double(me, "length", "m", &length) == XMML_OK && length == 2000.0);
    CHECK(xmml_param_double(me, "length", NULL, &length) == XMML_OK && length == 2000.0);
    CHECK(xmml_param_int(me, "cells", NULL, &cells) == XMML_OK && cells == 40);
    CHECK(xmml_param_bool(me, "closed", &closed) == XMML_OK && closed == 1);
    CHECK(xmml_param_text(me, "scheme", &scheme) == XMML_OK && strcmp(scheme, "hll") == 0);
    CHECK(xmml_has_param(me, "cells") && !xmml_has_param(me, "width"));
    CHECK(xmml_param_double(me, "length", "s", &length) == XMML_ERROR_PARAMETER);
    CHECK(xmml_param_int(me, "scheme", NULL, &cells) == XMML_ERROR_PARAMETER);
    CHECK(xmml_param_double(me, "width", NULL, &length) == XMML_ERROR_PARAMETER);
    CHECK_SAYS("it sets cells, closed, length, scheme");
    xmml_instance_free(&me);
}

static void an_unknown_port_is_an_error_that_lists_the_ports(void)
{
    xmml_instance *me = stepping();
    CHECK(xmml_send_double(me, "powr", 1.0) == XMML_ERROR_PORT);
    CHECK_SAYS("powr");
    CHECK_SAYS("final");
    xmml_instance_free(&me);
}

static void a_port_has_one_direction(void)
{
    xmml_instance *me = stepping();
    CHECK(xmml_send_double(me, "in", 1.0) == XMML_ERROR_PORT);
    xmml_instance_free(&me);
}

static void a_call_out_of_order_is_an_error_at_its_line(void)
{
    xmml_instance *me = stepping();
    char place[64];
    sprintf(place, "alone.c:%d)", __LINE__ + 1);
    CHECK(xmml_send_double(me, "final", 1.0) == XMML_ERROR_ORDER);
    CHECK_SAYS(place);
    xmml_instance_free(&me);
}

static void every_kind_of_value_can_be_sent(void)
{
    static const char *const senders[] = {"nothing", "a bool",     "an integer",   "a real number", "a complex number",
                                          "text",    "2 bytes", "a uint8 array of shape (2,)"};
    size_t kind;
    for (kind = 0; kind < sizeof senders / sizeof *senders; ++kind) {
        xmml_instance *me = stepping();
        xmml_message *message;
        const size_t two = 2;
        xmml_status status = XMML_DONE;
        switch (kind) {
        case 0: status = xmml_send_nothing(me, "out"); break;
        case 1: status = xmml_send_bool(me, "out", 1); break;
        case 2: status = xmml_send_int(me, "out", 1); break;
        case 3: status = xmml_send_double(me, "out", 1.0); break;
        case 4: status = xmml_send_complex(me, "out", 1.0, 2.0); break;
        case 5: status = xmml_send_text(me, "out", "one"); break;
        case 6: status = xmml_send_bytes(me, "out", "ab", 2); break;
        case 7: status = xmml_send_array(me, "out", XMML_U8, 1, &two, "ab"); break;
        }
        CHECK(status == XMML_OK);
        CHECK(xmml_output(me, "out", 0, &message) == XMML_OK);
        CHECK(strcmp(xmml_describe(xmml_message_data(message)), senders[kind]) == 0);
        xmml_message_free(message);
        xmml_instance_free(&me);
    }
}

static void nested_data_is_sent_and_not_consumed(void)
{
    xmml_instance *me = stepping();
    xmml_value *map = xmml_map_new();
    xmml_message *message;
    CHECK(xmml_map_set(map, "x", xmml_value_double(1.5)) == XMML_OK);
    CHECK(xmml_send(me, "out", map) == XMML_OK);
    xmml_value_free(map);
    CHECK(xmml_output(me, "out", 0, &message) == XMML_OK);
    CHECK(xmml_map_get(xmml_message_data(message), "x") != NULL);
    xmml_message_free(message);
    xmml_instance_free(&me);
}

static void time_stamps_can_be_given(void)
{
    xmml_instance *me = stepping();
    xmml_value *value = xmml_value_int(1);
    xmml_message *message;
    CHECK(xmml_send_at(me, "out", value, 20.0, XMML_NO_TIME) == XMML_OK);
    CHECK(xmml_output(me, "out", 0, &message) == XMML_OK);
    CHECK(xmml_message_timestamp(message) == 20.0 && !xmml_message_has_next(message));
    xmml_message_free(message);
    xmml_value_free(value);
    xmml_instance_free(&me);
}

static void a_time_stamp_that_is_no_number_is_refused(void)
{
    xmml_instance *me = stepping();
    xmml_value *value = xmml_value_int(1);
    CHECK(xmml_send_at(me, "out", value, NAN, XMML_NO_TIME) == XMML_ERROR_USAGE);
    CHECK(xmml_send_at(me, "out", value, 1.0, NAN) == XMML_ERROR_USAGE);
    xmml_value_free(value);
    xmml_instance_free(&me);
}

static void a_wrong_type_names_the_port_and_the_line(void)
{
    xmml_instance *me = stepping();
    xmml_message *message;
    xmml_array array;
    CHECK(xmml_send_double(me, "out", 1.0) == XMML_OK);
    CHECK(xmml_receive(me, "in", &message) == XMML_OK);
    CHECK(xmml_message_array(message, XMML_I32, 1, &array) == XMML_ERROR_TYPE);
    CHECK_SAYS("cell.in: expected an array of int32 of rank 1, but found a real number (called at");
    xmml_message_free(message);
    xmml_instance_free(&me);
}

static void a_receive_that_insists_is_an_error_after_the_end(void)
{
    xmml_alone *alone = described();
    xmml_instance *me = NULL;
    xmml_message *message = NULL;
    int again;
    double t;
    give(alone, "start", 0.0, 1.0);
    give(alone, "in", 0.0, 2.0);
    CHECK(xmml_alone_join(&alone, &me) == XMML_OK);
    CHECK(xmml_reuse(me, &again) == XMML_OK && again);
    received(me, "start");
    CHECK(xmml_step(me, &t) == XMML_OK);
    CHECK(xmml_send_double(me, "out", 1.0) == XMML_OK);
    received(me, "in");
    CHECK(xmml_step(me, &t) == XMML_OK);
    CHECK(xmml_send_double(me, "out", 1.0) == XMML_OK);
    CHECK(xmml_receive_or_end(me, "in", &message) == XMML_ENDED && message == NULL);
    CHECK(xmml_receive(me, "in", &message) == XMML_ERROR_ENDED && message == NULL);
    CHECK_SAYS("cell.in");
    xmml_instance_free(&me);
}

static void a_port_without_inputs_is_not_coupled(void)
{
    xmml_alone *alone = described();
    xmml_instance *me = NULL;
    xmml_message *message;
    int again, yes = 1;
    double t;
    give(alone, "start", 0.0, 1.0);
    CHECK(xmml_alone_join(&alone, &me) == XMML_OK);
    CHECK(xmml_connected(me, "in", &yes) == XMML_OK && yes == 0);
    CHECK(xmml_reuse(me, &again) == XMML_OK && again);
    received(me, "start");
    CHECK(xmml_step(me, &t) == XMML_OK);
    CHECK(xmml_send_double(me, "out", 1.0) == XMML_OK);
    CHECK(xmml_receive(me, "in", &message) == XMML_ERROR_NOT_CONNECTED);
    CHECK_SAYS("xmml_connected");
    xmml_instance_free(&me);
}

static void a_waiting_message_is_seen_before_it_is_taken(void)
{
    xmml_instance *me = stepping();
    xmml_message *message;
    int yes = 0;
    CHECK(xmml_send_double(me, "out", 1.0) == XMML_OK);
    CHECK(xmml_has_message(me, "in", &yes) == XMML_OK && yes == 1);
    CHECK(xmml_receive_timeout(me, "in", 5.0, &message) == XMML_OK);
    xmml_message_free(message);
    xmml_instance_free(&me);
}

static void a_negative_time_out_is_refused(void)
{
    xmml_instance *me = stepping();
    xmml_message *message;
    CHECK(xmml_receive_timeout(me, "in", -1.0, &message) == XMML_ERROR_USAGE);
    CHECK(xmml_receive_timeout(me, "in", NAN, &message) == XMML_ERROR_USAGE);
    xmml_instance_free(&me);
}

static void an_array_outlives_the_message_only_as_a_copy(void)
{
    const double data[2] = {1.5, 2.5};
    const size_t shape[1] = {2};
    double copy[2] = {0};
    xmml_alone *alone = described();
    xmml_value *value = xmml_value_array(XMML_F64, 1, shape, data);
    xmml_instance *me = NULL;
    xmml_message *message;
    int again;
    CHECK(xmml_alone_input(alone, "start", 0.0, value) == XMML_OK);
    xmml_value_free(value);
    CHECK(xmml_alone_join(&alone, &me) == XMML_OK);
    CHECK(xmml_reuse(me, &again) == XMML_OK);
    CHECK(xmml_receive(me, "start", &message) == XMML_OK);
    CHECK(xmml_message_copy(message, XMML_F64, 1, shape, copy) == XMML_OK);
    xmml_message_free(message);
    CHECK(copy[0] == 1.5 && copy[1] == 2.5);
    xmml_instance_free(&me);
}

static void scales_are_in_base_units(void)
{
    xmml_alone *alone = described();
    xmml_instance *me = NULL;
    xmml_scale x = {0, 0, 0};
    CHECK(xmml_alone_scale(alone, "x", 0.25, 10.0) == XMML_OK);
    CHECK(xmml_alone_scale(alone, "y", -1.0, 10.0) == XMML_ERROR_USAGE);
    CHECK(xmml_alone_join(&alone, &me) == XMML_OK);
    CHECK(xmml_scale_of(me, "x", &x) == XMML_OK && x.delta == 0.25 && x.total == 10.0 && x.steps == 40);
    CHECK(xmml_scale_of(me, "y", &x) == XMML_ERROR_USAGE && x.steps == 40);
    CHECK_SAYS("no scale \"y\" in the model; it gives x");
    xmml_instance_free(&me);
}

static void an_array_on_loan_is_handed_over_once(void)
{
    xmml_instance *me = started();
    xmml_message *message = NULL;
    xmml_array array;
    size_t shape[2] = {2, 3};
    void *memory = NULL;
    double time = 0;
    CHECK(xmml_step(me, &time) == XMML_OK);
    CHECK(xmml_loan(me, XMML_F64, 2, shape, &memory) == XMML_OK && memory != NULL);
    for (int i = 0; i < 6; ++i) ((double *)memory)[i] = i;
    CHECK(xmml_send_array(me, "out", XMML_F64, 2, shape, memory) == XMML_OK);
    CHECK(xmml_output(me, "out", 0, &message) == XMML_OK);
    CHECK(xmml_message_array(message, XMML_F64, 2, &array) == XMML_OK && ((const double *)array.data)[5] == 5.0);
    xmml_message_free(message);
    CHECK(xmml_give_back(me, memory) == XMML_ERROR_USAGE);
    CHECK_SAYS("not on loan");
    xmml_instance_free(&me);
}

static void a_loan_that_is_not_sent_goes_back(void)
{
    xmml_instance *me = started();
    size_t shape = 1000;
    void *memory = NULL;
    CHECK(xmml_loan(me, XMML_C128, 1, &shape, &memory) == XMML_OK);
    CHECK(xmml_give_back(me, memory) == XMML_OK);
    CHECK(xmml_give_back(me, NULL) == XMML_OK);
    xmml_instance_free(&me);
}

static void the_declared_ports_and_parameters_are_listed(void)
{
    xmml_instance *me = NULL;
    xmml_alone *alone = xmml_alone_new("cell");
    xmml_port port;
    CHECK(xmml_alone_port(alone, "start", "finit") == XMML_OK);
    CHECK(xmml_alone_port(alone, "state", "Oi") == XMML_OK);
    CHECK(xmml_alone_param(alone, "scheme", "hll") == XMML_OK);
    CHECK(xmml_alone_param(alone, "cells", "40") == XMML_OK);
    CHECK(xmml_alone_join(&alone, &me) == XMML_OK);
    CHECK(xmml_port_count(me) == 2);
    CHECK(xmml_port_at(me, 0, &port) == XMML_OK);
    CHECK(strcmp(port.name, "start") == 0 && strcmp(port.operator_name, "finit") == 0 && port.is_out == 0);
    CHECK(xmml_port_at(me, 1, &port) == XMML_OK);
    CHECK(strcmp(port.name, "state") == 0 && strcmp(port.operator_name, "Oi") == 0 && port.is_out == 1);
    CHECK(xmml_port_at(me, 2, &port) == XMML_DONE);
    CHECK(strcmp(port.name, "state") == 0);
    CHECK(xmml_param_count(me) == 2);
    CHECK(strcmp(xmml_param_name(me, 0), "cells") == 0 && strcmp(xmml_param_name(me, 1), "scheme") == 0);
    CHECK(xmml_param_name(me, 2) == NULL);
    xmml_instance_free(&me);
}

static void an_unknown_operator_is_refused(void)
{
    xmml_alone *alone = xmml_alone_new("cell");
    CHECK(xmml_alone_port(alone, "p", "O_i") == XMML_ERROR_USAGE);
    CHECK_SAYS("finit, Oi, S, B, Of");
    xmml_alone_free(alone);
}

static int add(void *context, xmml_message *message)
{
    int64_t number = 0;
    const xmml_status status = xmml_message_int(message, &number);
    xmml_message_free(message);
    *(int64_t *)context += number;
    return status == XMML_OK ? 0 : 5;
}

static void a_callback_gets_the_messages_and_fails_the_call_that_waited(void)
{
    xmml_alone *alone = xmml_alone_new("cell");
    xmml_instance *me;
    xmml_value *number = xmml_value_int(20), *text = xmml_value_text("no number");
    int64_t sum = 1;
    int again;
    CHECK(xmml_alone_port(alone, "in", "in") == XMML_OK);
    CHECK(xmml_alone_port(alone, "out", "out") == XMML_OK);
    CHECK(xmml_alone_input(alone, "in", 0, number) == XMML_OK);
    CHECK(xmml_alone_input(alone, "in", 0, text) == XMML_OK);
    CHECK(xmml_alone_join(&alone, &me) == XMML_OK);
    CHECK(xmml_serve(me) == XMML_ERROR_USAGE);
    CHECK_SAYS("set one with on_message first");
    CHECK(xmml_on_message(me, "in", add, &sum) == XMML_OK);
    CHECK(xmml_reuse(me, &again) == XMML_OK && again);
    CHECK(xmml_serve(me) == XMML_OK && sum == 21);
    CHECK(xmml_send_nothing(me, "out") == XMML_OK);
    CHECK(xmml_reuse(me, &again) == XMML_OK && again);
    CHECK(xmml_serve_timeout(me, 1.0) == XMML_ERROR_USAGE);
    CHECK_SAYS("cell.in: the callback for its messages failed: it returned 5");
    CHECK(xmml_on_message(me, "in", NULL, NULL) == XMML_OK);
    CHECK(xmml_serve_timeout(me, -1.0) == XMML_ERROR_USAGE);
    CHECK_SAYS("must be a number from 0");
    xmml_value_free(number);
    xmml_value_free(text);
    xmml_instance_free(&me);
}

static void ports_to_copies_are_addressed_by_their_numbers(void)
{
    xmml_alone *alone = xmml_alone_new("cell");
    xmml_instance *me;
    xmml_message *message;
    xmml_value *number = xmml_value_int(7);
    uint32_t copies;
    int again;
    int64_t found;
    CHECK(xmml_alone_port(alone, "from", "in*2") == XMML_OK);
    CHECK(xmml_alone_port(alone, "to", "out*3") == XMML_OK);
    CHECK(xmml_alone_port(alone, "none", "out*0") == XMML_ERROR_USAGE);
    CHECK_SAYS("0 is no number of copies");
    CHECK(xmml_alone_input(alone, "from[0]", 0, number) == XMML_OK);
    CHECK(xmml_alone_input(alone, "from[1]", 0, number) == XMML_OK);
    CHECK(xmml_alone_join(&alone, &me) == XMML_OK);
    CHECK(xmml_copies(me, "to", &copies) == XMML_OK && copies == 3);
    CHECK(xmml_reuse(me, &again) == XMML_OK && again);
    for (uint32_t of = 0; of < 2; ++of) {
        CHECK(xmml_receive_of(me, "from", of, &message) == XMML_OK);
        CHECK(xmml_message_int(message, &found) == XMML_OK && found == 7);
        xmml_message_free(message);
    }
    CHECK(xmml_send_to(me, "to", 2, number) == XMML_OK);
    CHECK(xmml_output(me, "to[2]", 0, &message) == XMML_OK);
    xmml_message_free(message);
    CHECK(xmml_output(me, "to[1]", 0, &message) == XMML_DONE);
    xmml_value_free(number);
    xmml_instance_free(&me);
}

int main(int argc, char **argv)
{
    static const struct behaviour all[] = {
        {"the_loop_runs_the_steps_of_the_model", the_loop_runs_the_steps_of_the_model},
        {"the_model_is_known", the_model_is_known},
        {"parameters_are_converted_and_checked", parameters_are_converted_and_checked},
        {"an_unknown_port_is_an_error_that_lists_the_ports", an_unknown_port_is_an_error_that_lists_the_ports},
        {"a_port_has_one_direction", a_port_has_one_direction},
        {"a_call_out_of_order_is_an_error_at_its_line", a_call_out_of_order_is_an_error_at_its_line},
        {"every_kind_of_value_can_be_sent", every_kind_of_value_can_be_sent},
        {"nested_data_is_sent_and_not_consumed", nested_data_is_sent_and_not_consumed},
        {"time_stamps_can_be_given", time_stamps_can_be_given},
        {"a_time_stamp_that_is_no_number_is_refused", a_time_stamp_that_is_no_number_is_refused},
        {"a_wrong_type_names_the_port_and_the_line", a_wrong_type_names_the_port_and_the_line},
        {"a_receive_that_insists_is_an_error_after_the_end", a_receive_that_insists_is_an_error_after_the_end},
        {"a_port_without_inputs_is_not_coupled", a_port_without_inputs_is_not_coupled},
        {"a_waiting_message_is_seen_before_it_is_taken", a_waiting_message_is_seen_before_it_is_taken},
        {"a_negative_time_out_is_refused", a_negative_time_out_is_refused},
        {"an_array_outlives_the_message_only_as_a_copy", an_array_outlives_the_message_only_as_a_copy},
        {"scales_are_in_base_units", scales_are_in_base_units},
        {"an_array_on_loan_is_handed_over_once", an_array_on_loan_is_handed_over_once},
        {"a_loan_that_is_not_sent_goes_back", a_loan_that_is_not_sent_goes_back},
        {"the_declared_ports_and_parameters_are_listed", the_declared_ports_and_parameters_are_listed},
        {"an_unknown_operator_is_refused", an_unknown_operator_is_refused},
        {"a_callback_gets_the_messages_and_fails_the_call_that_waited",
         a_callback_gets_the_messages_and_fails_the_call_that_waited},
        {"ports_to_copies_are_addressed_by_their_numbers", ports_to_copies_are_addressed_by_their_numbers},
        {NULL, NULL},
    };
    return run_behaviour(all, argc, argv);
}
