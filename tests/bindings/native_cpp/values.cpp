// Values and views by themselves.
#include <algorithm>
#include <numeric>
#include <xmml.hpp>

#include "behaviour.h"

#define CHECK_THROWS(kind, expression)     \
    do {                                   \
        bool thrown = false;               \
        try {                              \
            static_cast<void>(expression); \
        } catch (const kind&) {            \
            thrown = true;                 \
        }                                  \
        CHECK(thrown);                     \
    } while (false)

static void numbers_convert_to_values_and_back() {
    CHECK(xmml::Value(2.5).data().as<double>() == 2.5);
    CHECK(xmml::Value(2.5f).data().as<float>() == 2.5f);
    CHECK(xmml::Value(7).data().as<int>() == 7);
    CHECK(xmml::Value(true).data().as<bool>());
    CHECK(xmml::Value(std::complex<double>(1, 2)).data().as<std::complex<double>>() == std::complex<double>(1, 2));
    CHECK(xmml::Value("inlet").data().as<std::string>() == "inlet");
    CHECK(xmml::Value(std::string("inlet")).data().as<std::string>() == "inlet");
    CHECK(xmml::Value(nullptr).data().is_nothing());
}

static void numbers_are_read_in_the_type_asked_for() {
    using Single = std::complex<float>;
    CHECK(xmml::Value(Single(1, 2)).data().as<Single>() == Single(1, 2));
    const xmml::Value squares(std::vector<int>{1, 4, 9});
    CHECK((squares.data().as<std::vector<int>>() == std::vector<int>{1, 4, 9}));
    CHECK(squares.data().dtype() == XMML_I32 && squares.data().order() == xmml::Order::row_major);
    CHECK_THROWS(xmml::TypeError, squares.data().as<std::vector<long>>());
    CHECK_THROWS(xmml::TypeError, xmml::Value("x").data().dtype());
}

static void texts_may_have_zero_bytes() {
    const std::string text("a\0b", 3);
    CHECK(xmml::Value(text).data().as<std::string>() == text);
    CHECK(xmml::Value(std::string_view(text)).data().as<std::string>() == text);
    CHECK(xmml::Value(std::string()).data().as<std::string>().empty());
    CHECK(xmml::Value(std::string_view()).data().as<std::string>().empty());
}

static void a_loop_goes_over_lists_and_maps() {
    const auto list = xmml::Value::list({1, 2, 3});
    int sum = 0;
    for (const xmml::Data& item : list.data()) sum += item.as<int>();
    CHECK(sum == 6);
    const auto map = xmml::Value::map({{"a", 10}, {"b", 20}});
    for (const xmml::Data& item : map.data()) sum += item.as<int>();
    CHECK(sum == 36);
    const xmml::Value number(1);
    const xmml::Data alone = number.data();
    CHECK(alone.begin() == alone.end());
}

static void a_view_tells_its_extents_and_strides() {
    std::vector<double> elements(6);
    std::iota(elements.begin(), elements.end(), 0.0);
    const xmml::Value rows(xmml::array(elements.data(), {2, 3}));
    const auto view = rows.data().array<double>();
    CHECK((view.extents<2>() == std::array<std::size_t, 2>{2, 3}));
    CHECK(view.stride(0) == 3 && view.stride(1) == 1);
    CHECK_THROWS(std::out_of_range, view.extents<3>());
    const xmml::Value columns(xmml::array(elements.data(), {2, 3}, xmml::Order::column_major));
    const auto turned = columns.data().array<double>(2, xmml::Order::column_major);
    CHECK(turned.stride(0) == 1 && turned.stride(1) == 2 && turned.data()[turned.stride(1)] == turned(0, 1));
}

static void an_integer_that_does_not_fit_is_an_error() {
    const xmml::Value large(300);
    const xmml::Value negative(-1);
    CHECK(large.data().as<short>() == 300);
    CHECK_THROWS(xmml::TypeError, large.data().as<std::uint8_t>());
    CHECK_THROWS(xmml::TypeError, negative.data().as<unsigned>());
    CHECK_THROWS(xmml::TypeError, xmml::Value(std::numeric_limits<std::uint64_t>::max()).data().as<std::int64_t>());
}

static void containers_convert_to_arrays() {
    const std::vector<double> vector{1, 2, 3};
    const std::array<std::int32_t, 2> array{4, 5};
    CHECK(xmml::Value(vector).data().array<double>(1).to_vector() == vector);
    CHECK(xmml::Value(array).data().array<std::int32_t>(1)[1] == 5);
    const xmml::Value truths(std::vector<bool>{true, false, true});
    CHECK(truths.data().array<bool>()[2]);
    CHECK(xmml::Value(std::vector<double>{}).data().array<double>().empty());
}

static void every_integer_type_has_an_element_type() {
    CHECK(xmml::dtype_of<long>() == XMML_I64 && xmml::dtype_of<long long>() == XMML_I64);
    CHECK(xmml::dtype_of<unsigned long>() == XMML_U64 && xmml::dtype_of<std::size_t>() == XMML_U64);
    CHECK(xmml::dtype_of<short>() == XMML_I16 && xmml::dtype_of<unsigned char>() == XMML_U8);
    CHECK(xmml::dtype_of<std::complex<float>>() == XMML_C64);
}

static void a_view_is_indexed_by_dimension() {
    std::vector<int> numbers(24);
    std::iota(numbers.begin(), numbers.end(), 0);
    const xmml::Value value(xmml::array(numbers.data(), {2, 3, 4}));
    const auto view = value.data().array<int>(3);
    CHECK(view.rank() == 3 && view.size() == 24 && view.extent(1) == 3);
    CHECK(view(1, 2, 3) == 23 && view(1, 0, 0) == 12 && view(0, 2, 1) == 9);
    CHECK(std::accumulate(view.begin(), view.end(), 0) == 276);
    const auto shape = view.shape();
    CHECK((std::vector<std::size_t>(shape.begin(), shape.end()) == std::vector<std::size_t>{2, 3, 4}));
}

static void an_index_is_the_same_element_in_either_order() {
    const std::array<double, 6> columns{0, 1, 2, 3, 4, 5};
    const xmml::Value value(xmml::array(columns.data(), {2, 3}, xmml::Order::column_major));
    const auto rows = value.data().array<double>(2);
    const auto as_sent = value.data().array<double>(2, xmml::Order::column_major);
    CHECK(as_sent[1] == 1 && rows[1] == 2);
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 3; ++j) CHECK(rows(i, j) == i + 2 * j && as_sent(i, j) == i + 2 * j);
    }
}

static void indices_are_checked_by_at() {
    const std::array<double, 6> numbers{};
    const xmml::Value value(xmml::array(numbers.data(), {2, 3}));
    const auto view = value.data().array<double>();
    CHECK(view.at(1, 2) == 0);
    CHECK_THROWS(std::out_of_range, view.at(2, 0));
    CHECK_THROWS(std::out_of_range, view.at(0, 3));
    CHECK_THROWS(std::out_of_range, view(1));
}

static void a_negative_extent_is_refused() {
    const double number = 0;
    const int extent = -1;
    CHECK_THROWS(xmml::UsageError, xmml::array(&number, {extent}));
}

static void nested_values_are_written_as_one_expression() {
    const auto value = xmml::Value::map({
        {"name", "inlet"},
        {"levels", std::vector<double>{0.5, 0.25}},
        {"list", xmml::Value::list({1, 2.5, "three", xmml::Value::map({{"deep", true}})})},
    });
    const auto data = value.data();
    CHECK(data.size() == 3 && data.contains("name") && !data.contains("width"));
    CHECK((data.keys() == std::vector<std::string>{"name", "levels", "list"}));
    CHECK(data["levels"].array<double>(1)[1] == 0.25);
    CHECK(data["list"][0].as<int>() == 1);
    CHECK(data["list"][2].as<std::string>() == "three");
    CHECK(data["list"][3]["deep"].as<bool>());
    CHECK_THROWS(std::out_of_range, data["width"]);
    CHECK_THROWS(std::out_of_range, data["list"][4]);
}

static void bytes_are_bytes() {
    const auto value = xmml::Value::bytes("a\0b", 3);
    CHECK((value.data().bytes() == std::vector<unsigned char>{'a', 0, 'b'}));
}

static void a_copy_is_a_value_of_its_own() {
    auto list = xmml::Value::list({1});
    const auto copy = list;
    list.add(2);
    CHECK(list.data().size() == 2 && copy.data().size() == 1);
}

static void another_type_is_an_error_at_the_line_of_the_call() {
    const xmml::Value value(std::vector<float>{1, 2});
    const int line = __LINE__ + 2;
    try {
        value.data().array<double>();
        CHECK(false);
    } catch (const xmml::TypeError& error) {
        const std::string place = "values.cpp:" + std::to_string(line) + ")";
        CHECK(std::string(error.what()).find(place) != std::string::npos);
        CHECK(error.status() == XMML_ERROR_TYPE);
    }
}

static void outside_a_run_joining_is_an_error_of_its_own() { CHECK_THROWS(xmml::NotInARunError, xmml::Instance()); }

int main(int argc, char** argv) {
    static const behaviour all[] = {
        {"numbers_convert_to_values_and_back", numbers_convert_to_values_and_back},
        {"numbers_are_read_in_the_type_asked_for", numbers_are_read_in_the_type_asked_for},
        {"texts_may_have_zero_bytes", texts_may_have_zero_bytes},
        {"a_loop_goes_over_lists_and_maps", a_loop_goes_over_lists_and_maps},
        {"a_view_tells_its_extents_and_strides", a_view_tells_its_extents_and_strides},
        {"an_integer_that_does_not_fit_is_an_error", an_integer_that_does_not_fit_is_an_error},
        {"containers_convert_to_arrays", containers_convert_to_arrays},
        {"every_integer_type_has_an_element_type", every_integer_type_has_an_element_type},
        {"a_view_is_indexed_by_dimension", a_view_is_indexed_by_dimension},
        {"an_index_is_the_same_element_in_either_order", an_index_is_the_same_element_in_either_order},
        {"indices_are_checked_by_at", indices_are_checked_by_at},
        {"a_negative_extent_is_refused", a_negative_extent_is_refused},
        {"nested_values_are_written_as_one_expression", nested_values_are_written_as_one_expression},
        {"bytes_are_bytes", bytes_are_bytes},
        {"a_copy_is_a_value_of_its_own", a_copy_is_a_value_of_its_own},
        {"another_type_is_an_error_at_the_line_of_the_call", another_type_is_an_error_at_the_line_of_the_call},
        {"outside_a_run_joining_is_an_error_of_its_own", outside_a_run_joining_is_an_error_of_its_own},
        {nullptr, nullptr},
    };
    return run_behaviour(all, argc, argv);
}
