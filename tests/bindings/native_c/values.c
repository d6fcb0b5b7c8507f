/* Values by themselves: making, reading, nesting. */
#include <math.h>
#include <xmml.h>

#include "behaviour.h"

static void a_number_is_read_back(void)
{
    xmml_value *value = xmml_value_double(2.5);
    double number = 0;
    CHECK(xmml_value_kind(value) == XMML_KIND_DOUBLE);
    CHECK(xmml_read_double(value, &number) == XMML_OK && number == 2.5);
    xmml_value_free(value);
}

static void an_integer_is_read_as_a_double_only_if_that_is_exact(void)
{
    xmml_value *small = xmml_value_int(3), *large = xmml_value_int(INT64_MAX);
    double number = 0;
    CHECK(xmml_read_double(small, &number) == XMML_OK && number == 3.0);
    CHECK(xmml_read_double(large, &number) == XMML_ERROR_TYPE);
    xmml_value_free(small);
    xmml_value_free(large);
}

static void a_real_number_is_never_read_as_an_integer(void)
{
    xmml_value *value = xmml_value_double(3.0);
    int64_t number = 42;
    CHECK(xmml_read_int(value, &number) == XMML_ERROR_TYPE);
    CHECK(number == 42);
    CHECK_SAYS("expected an integer, but found a real number");
    xmml_value_free(value);
}

static void text_ends_with_a_zero_byte_and_has_its_length(void)
{
    xmml_value *value = xmml_value_text("Gr\xc3\xb6\xc3\x9f" "e");
    const char *text = NULL;
    size_t length = 0;
    CHECK(xmml_read_text(value, &text, &length) == XMML_OK);
    CHECK(length == 7 && strlen(text) == 7);
    CHECK(xmml_read_text(value, &text, NULL) == XMML_OK);
    xmml_value_free(value);
}

static void text_of_a_given_length_may_have_zero_bytes(void)
{
    xmml_value *value = xmml_value_text_of("a\0b", 3);
    const char *text = NULL;
    size_t length = 0;
    CHECK(xmml_read_text(value, &text, &length) == XMML_OK);
    CHECK(length == 3 && memcmp(text, "a\0b", 4) == 0);
    xmml_value_free(value);
    CHECK(xmml_value_text_of(NULL, 1) == NULL);
    CHECK_SAYS("text is a null pointer");
    CHECK(xmml_value_text_of("\xff", 1) == NULL);
    CHECK_SAYS("not UTF-8");
}

static void text_that_is_not_utf8_is_refused(void)
{
    CHECK(xmml_value_text("\xff") == NULL);
    CHECK_SAYS("not UTF-8");
}

static void bytes_are_copied(void)
{
    unsigned char bytes[3] = {1, 0, 2};
    xmml_value *value = xmml_value_bytes(bytes, sizeof bytes);
    const void *read = NULL;
    size_t size = 0;
    bytes[0] = 9;
    CHECK(xmml_read_bytes(value, &read, &size) == XMML_OK);
    CHECK(size == 3 && memcmp(read, "\x01\x00\x02", 3) == 0);
    xmml_value_free(value);
}

static void every_element_type_is_read_where_it_lies(void)
{
    const unsigned char zeros[16 * 6] = {0};
    const size_t shape[2] = {2, 3};
    int code;
    for (code = XMML_BOOL; code <= XMML_C128; ++code) {
        xmml_dtype dtype = (xmml_dtype)code;
        xmml_value *value = xmml_value_array(dtype, 2, shape, zeros);
        xmml_array array;
        CHECK(value != NULL);
        CHECK(xmml_read_array(value, dtype, 2, XMML_ROW_MAJOR, &array) == XMML_OK);
        CHECK(array.dtype == dtype && array.rank == 2 && array.size == 6);
        CHECK(array.shape[0] == 2 && array.shape[1] == 3);
        CHECK((uintptr_t)array.data % (xmml_dtype_size(dtype) < 8 ? xmml_dtype_size(dtype) : 8) == 0);
        CHECK(memcmp(array.data, zeros, 6 * xmml_dtype_size(dtype)) == 0);
        xmml_value_free(value);
    }
}

static void ranks_from_0_to_7_are_read_back(void)
{
    double data[128];
    size_t shape[7] = {2, 2, 2, 2, 2, 2, 2}, rank, i;
    for (i = 0; i < 128; ++i) data[i] = (double)i;
    for (rank = 0; rank <= 7; ++rank) {
        xmml_value *value = xmml_value_array(XMML_F64, rank, shape, data);
        xmml_array array;
        CHECK(xmml_read_array(value, XMML_F64, rank, XMML_ROW_MAJOR, &array) == XMML_OK);
        CHECK(array.size == (size_t)1 << rank);
        CHECK(memcmp(array.data, data, array.size * sizeof(double)) == 0);
        xmml_value_free(value);
    }
}

static void a_column_major_array_is_transposed_for_a_row_major_reader(void)
{
    /* | 0 2 4 |
       | 1 3 5 | */
    const int32_t columns[6] = {0, 1, 2, 3, 4, 5}, rows[6] = {0, 2, 4, 1, 3, 5};
    const size_t shape[2] = {2, 3};
    xmml_value *value = xmml_value_array_order(XMML_I32, XMML_COLUMN_MAJOR, 2, shape, columns);
    xmml_array array;
    CHECK(xmml_read_array(value, XMML_I32, 2, XMML_ROW_MAJOR, &array) == XMML_OK);
    CHECK(array.order == XMML_ROW_MAJOR && memcmp(array.data, rows, sizeof rows) == 0);
    CHECK(xmml_read_array(value, XMML_I32, 2, XMML_COLUMN_MAJOR, &array) == XMML_OK);
    CHECK(array.order == XMML_COLUMN_MAJOR && memcmp(array.data, columns, sizeof columns) == 0);
    CHECK(xmml_read_array(value, XMML_I32, 2, XMML_ANY_ORDER, &array) == XMML_OK);
    CHECK(array.order == XMML_COLUMN_MAJOR);
    xmml_value_free(value);
}

static void another_element_type_is_an_error_that_names_both(void)
{
    const float data[2] = {1, 2};
    const size_t shape[1] = {2};
    xmml_value *value = xmml_value_array(XMML_F32, 1, shape, data);
    xmml_array array;
    CHECK(xmml_read_array(value, XMML_F64, 1, XMML_ROW_MAJOR, &array) == XMML_ERROR_TYPE);
    CHECK_SAYS("expected an array of float64 of rank 1, but found a float32 array of shape (2,)");
    xmml_value_free(value);
}

static void another_rank_is_an_error_unless_any_is_asked_for(void)
{
    const double data[2] = {1, 2};
    const size_t shape[1] = {2};
    xmml_value *value = xmml_value_array(XMML_F64, 1, shape, data);
    xmml_array array;
    CHECK(xmml_read_array(value, XMML_F64, 2, XMML_ROW_MAJOR, &array) == XMML_ERROR_TYPE);
    CHECK(xmml_read_array(value, XMML_F64, XMML_ANY_RANK, XMML_ROW_MAJOR, &array) == XMML_OK);
    CHECK(xmml_read_any_array(value, XMML_ROW_MAJOR, &array) == XMML_OK && array.dtype == XMML_F64);
    xmml_value_free(value);
}

static void copying_into_another_shape_is_an_error(void)
{
    double data[6] = {1, 2, 3, 4, 5, 6}, copy[6] = {0};
    const size_t shape[2] = {2, 3}, other[2] = {3, 2};
    xmml_value *value = xmml_value_array(XMML_F64, 2, shape, data);
    CHECK(xmml_copy_array(value, XMML_F64, 2, shape, copy) == XMML_OK && memcmp(data, copy, sizeof data) == 0);
    CHECK(xmml_copy_array(value, XMML_F64, 2, other, copy) == XMML_ERROR_TYPE);
    CHECK_SAYS("expected shape (3, 2), but found a float64 array of shape (2, 3)");
    xmml_value_free(value);
}

static void an_empty_array_needs_no_data(void)
{
    const size_t shape[2] = {0, 3};
    xmml_value *value = xmml_value_array(XMML_F64, 2, shape, NULL);
    xmml_array array;
    CHECK(value != NULL);
    CHECK(xmml_read_array(value, XMML_F64, 2, XMML_ROW_MAJOR, &array) == XMML_OK && array.size == 0);
    xmml_value_free(value);
}

static void a_shape_with_too_many_elements_is_refused(void)
{
    const size_t shape[2] = {SIZE_MAX, 2}, hidden[3] = {SIZE_MAX, 2, 0};
    double data = 0;
    CHECK(xmml_value_array(XMML_F64, 2, shape, &data) == NULL);
    CHECK_SAYS("too many elements");
    CHECK(xmml_value_array(XMML_F64, 3, hidden, &data) == NULL);
}

static void an_unknown_element_type_is_refused(void)
{
    double data = 0;
    CHECK(xmml_value_array((xmml_dtype)13, 0, NULL, &data) == NULL);
    CHECK_SAYS("13 is no element type");
    CHECK(xmml_dtype_size((xmml_dtype)13) == 0);
}

static void maps_and_lists_nest(void)
{
    const double levels[2] = {0.5, 0.25};
    const size_t shape[1] = {2};
    xmml_value *map = xmml_map_new(), *list = xmml_list_new();
    const xmml_value *found;
    double number = 0;
    CHECK(xmml_list_add(list, xmml_value_int(1)) == XMML_OK);
    CHECK(xmml_list_add(list, xmml_value_array(XMML_F64, 1, shape, levels)) == XMML_OK);
    CHECK(xmml_map_set(map, "list", list) == XMML_OK);
    CHECK(xmml_map_set(map, "depth", xmml_value_double(1.0)) == XMML_OK);
    CHECK(xmml_map_set(map, "depth", xmml_value_double(2.0)) == XMML_OK);

    CHECK(xmml_map_size(map) == 2);
    CHECK(strcmp(xmml_map_key(map, 0), "list") == 0);
    found = xmml_map_get(map, "list");
    CHECK(found == xmml_map_value(map, 0) && xmml_list_size(found) == 2);
    CHECK(xmml_value_kind(xmml_list_get(found, 1)) == XMML_KIND_ARRAY);
    CHECK(xmml_read_double(xmml_map_get(map, "depth"), &number) == XMML_OK && number == 2.0);
    CHECK(xmml_map_get(map, "width") == NULL && xmml_list_get(found, 2) == NULL && xmml_map_key(map, 2) == NULL);
    xmml_value_free(map);
}

static void a_value_that_could_not_be_made_cannot_be_put_in(void)
{
    xmml_value *list = xmml_list_new();
    CHECK(xmml_list_add(list, xmml_value_text("\xff")) == XMML_ERROR_USAGE);
    CHECK(xmml_list_size(list) == 0);
    xmml_value_free(list);
}

static void only_lists_and_maps_hold_values(void)
{
    xmml_value *number = xmml_value_int(1);
    CHECK(xmml_list_add(number, xmml_value_int(2)) == XMML_ERROR_USAGE);
    CHECK_SAYS("cannot add to an integer");
    CHECK(xmml_map_set(number, "key", xmml_value_int(2)) == XMML_ERROR_USAGE);
    CHECK(xmml_list_add(NULL, xmml_value_int(2)) == XMML_ERROR_USAGE);
    xmml_value_free(number);
}

static void a_list_or_map_cannot_hold_itself(void)
{
    xmml_value *list = xmml_list_new(), *map = xmml_map_new();
    CHECK(xmml_list_add(list, list) == XMML_ERROR_USAGE);
    CHECK_SAYS("cannot hold itself");
    CHECK(xmml_map_set(map, "me", map) == XMML_ERROR_USAGE);
    CHECK_SAYS("cannot hold itself");
    CHECK(xmml_list_add(list, map) == XMML_OK && xmml_list_size(list) == 1);
    xmml_value_free(list);
}

static void a_key_may_be_one_of_the_map(void)
{
    xmml_value *map = xmml_map_new();
    CHECK(xmml_map_set(map, "a", xmml_value_int(1)) == XMML_OK);
    CHECK(xmml_map_set(map, xmml_map_key(map, 0), xmml_value_int(2)) == XMML_OK);
    int64_t number = 0;
    CHECK(xmml_map_size(map) == 1 && xmml_read_int(xmml_map_get(map, "a"), &number) == XMML_OK && number == 2);
    xmml_value_free(map);
}

static void nesting_is_bounded(void)
{
    xmml_value *value = xmml_list_new();
    int levels = 1;
    for (;;) {
        xmml_value *outer = xmml_list_new();
        if (xmml_list_add(outer, value) != XMML_OK) {
            xmml_value_free(outer);
            break;
        }
        value = outer;
        ++levels;
    }
    CHECK(levels == 64);
    CHECK_SAYS("64 levels");
}

static void null_pointers_are_errors_and_not_crashes(void)
{
    double number;
    int yes;
    int64_t integer;
    xmml_message *message = (xmml_message *)&number;
    xmml_instance *me = NULL;
    CHECK(xmml_read_double(NULL, &number) == XMML_ERROR_USAGE);
    CHECK_SAYS("value is a null pointer");
    CHECK(xmml_receive(NULL, "port", &message) == XMML_ERROR_USAGE && message == NULL);
    CHECK(xmml_send_double(NULL, "port", 1.0) == XMML_ERROR_USAGE);
    CHECK(xmml_reuse(NULL, &yes) == XMML_ERROR_USAGE);
    CHECK(xmml_step(NULL, &number) == XMML_ERROR_USAGE);
    CHECK(xmml_param_int(NULL, "n", NULL, &integer) == XMML_ERROR_USAGE);
    CHECK(xmml_join(NULL) == XMML_ERROR_USAGE);
    CHECK(xmml_leave(NULL) == XMML_ERROR_USAGE);
    CHECK(xmml_leave(&me) == XMML_ERROR_USAGE);
    CHECK(xmml_value_kind(NULL) == XMML_KIND_NOTHING && xmml_list_size(NULL) == 0 && xmml_map_get(NULL, "a") == NULL);
    CHECK(isnan(xmml_message_timestamp(NULL)) && xmml_message_data(NULL) == NULL);
    CHECK(strcmp(xmml_name(NULL), "") == 0);
    xmml_instance_free(&me);
    xmml_message_free(NULL);
    xmml_value_free(NULL);
    xmml_alone_free(NULL);
}

static void the_error_names_the_line_of_the_call(void)
{
    char place[64];
    double number;
    sprintf(place, "values.c:%d)", __LINE__ + 1);
    CHECK(xmml_read_double(NULL, &number) == XMML_ERROR_USAGE);
    CHECK_SAYS(place);
    CHECK((xmml_read_double)(NULL, &number) == XMML_ERROR_USAGE);
    CHECK(strstr(xmml_error(), "called at") == NULL);
}

static void outside_a_run_joining_says_what_to_do(void)
{
    xmml_instance *me = NULL;
    CHECK(xmml_join(&me) == XMML_ERROR_NOT_IN_A_RUN);
    CHECK(me == NULL);
    CHECK_SAYS("xmml-run");
}

static void the_version_is_known(void)
{
    CHECK(xmml_version()[0] >= '0' && xmml_version()[0] <= '9');
}

int main(int argc, char **argv)
{
    static const struct behaviour all[] = {
        {"a_number_is_read_back", a_number_is_read_back},
        {"an_integer_is_read_as_a_double_only_if_that_is_exact", an_integer_is_read_as_a_double_only_if_that_is_exact},
        {"a_real_number_is_never_read_as_an_integer", a_real_number_is_never_read_as_an_integer},
        {"text_ends_with_a_zero_byte_and_has_its_length", text_ends_with_a_zero_byte_and_has_its_length},
        {"text_of_a_given_length_may_have_zero_bytes", text_of_a_given_length_may_have_zero_bytes},
        {"text_that_is_not_utf8_is_refused", text_that_is_not_utf8_is_refused},
        {"bytes_are_copied", bytes_are_copied},
        {"every_element_type_is_read_where_it_lies", every_element_type_is_read_where_it_lies},
        {"ranks_from_0_to_7_are_read_back", ranks_from_0_to_7_are_read_back},
        {"a_column_major_array_is_transposed_for_a_row_major_reader", a_column_major_array_is_transposed_for_a_row_major_reader},
        {"another_element_type_is_an_error_that_names_both", another_element_type_is_an_error_that_names_both},
        {"another_rank_is_an_error_unless_any_is_asked_for", another_rank_is_an_error_unless_any_is_asked_for},
        {"copying_into_another_shape_is_an_error", copying_into_another_shape_is_an_error},
        {"an_empty_array_needs_no_data", an_empty_array_needs_no_data},
        {"a_shape_with_too_many_elements_is_refused", a_shape_with_too_many_elements_is_refused},
        {"an_unknown_element_type_is_refused", an_unknown_element_type_is_refused},
        {"maps_and_lists_nest", maps_and_lists_nest},
        {"a_value_that_could_not_be_made_cannot_be_put_in", a_value_that_could_not_be_made_cannot_be_put_in},
        {"only_lists_and_maps_hold_values", only_lists_and_maps_hold_values},
        {"a_list_or_map_cannot_hold_itself", a_list_or_map_cannot_hold_itself},
        {"a_key_may_be_one_of_the_map", a_key_may_be_one_of_the_map},
        {"nesting_is_bounded", nesting_is_bounded},
        {"null_pointers_are_errors_and_not_crashes", null_pointers_are_errors_and_not_crashes},
        {"the_error_names_the_line_of_the_call", the_error_names_the_line_of_the_call},
        {"outside_a_run_joining_says_what_to_do", outside_a_run_joining_says_what_to_do},
        {"the_version_is_known", the_version_is_known},
        {NULL, NULL},
    };
    return run_behaviour(all, argc, argv);
}
