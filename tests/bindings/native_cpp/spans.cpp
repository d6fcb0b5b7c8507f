// Spans of C++20: sent, and over what was received or lent.
#include <numeric>
#include <span>
#include <xmml.hpp>

#include "behaviour.h"

static void a_span_is_sent_as_an_array() {
    auto me = xmml::Alone("plate").port("edge", "Oi").steps(1, 1.0).join();
    const std::vector<float> field{1, 2, 3, 4};
    CHECK(me.reuse());
    for (double t : me.steps()) me.send("edge", std::span<const float>(field).subspan(1, 2), t);
    const auto view = me.outputs("edge").at(0).array<float>(1);
    CHECK(view.size() == 2 && view.span().front() == 2 && view.span().back() == 3);
}

static void a_span_is_put_into_a_list() {
    std::vector<int> numbers{1, 2, 3};
    const auto list = xmml::Value::list({xmml::Value(std::span<int>(numbers)), "x"});
    CHECK(list.data()[0].array<int>(1).size() == 3);
}

static void a_loan_is_filled_through_a_span() {
    auto me = xmml::Alone("plate").port("edge", "Oi").join();
    auto loan = me.loan<double>({2, 2});
    std::iota(loan.span().begin(), loan.span().end(), 1.0);
    CHECK(loan(1, 1) == 4);
}

int main(int argc, char** argv) {
    static const behaviour all[] = {
        {"a_span_is_sent_as_an_array", a_span_is_sent_as_an_array},
        {"a_span_is_put_into_a_list", a_span_is_put_into_a_list},
        {"a_loan_is_filled_through_a_span", a_loan_is_filled_through_a_span},
        {nullptr, nullptr},
    };
    return run_behaviour(all, argc, argv);
}
