// An instance by itself.
#include <xmml.hpp>

#include "behaviour.h"

static xmml::Alone described() {
    xmml::Alone alone("cell");
    alone.port("start", "finit").port("out", "Oi").port("in", "S").port("final", "Of");
    alone.steps(2, 0.5).param("length", "2 km").param("cells", "40").param("large", "300").param("scheme", "hll");
    return alone;
}

static xmml::Instance cell() {
    auto alone = described();
    return alone.input("start", std::vector<double>{1, 2}, 10.0).input("in", 2.0, 10.0).input("in", 3.0, 10.5).join();
}

static void the_loop_reads_as_the_model() {
    auto me = cell();
    double sum = 0;
    int runs = 0;
    while (me.reuse()) {
        const auto start = me.receive("start").array<double>(1);
        sum = start(0) + start(1);
        for (double t : me.steps()) {
            CHECK(me.send("out", xmml::array(start.data(), {1, 2}), t));
            sum += me.receive("in").as<double>();
        }
        me.send("final", sum);
        ++runs;
    }
    CHECK(runs == 1);
    const auto out = me.outputs("out");
    CHECK(out.size() == 2 && out[0].timestamp() == 10.0 && out[1].timestamp() == 10.5);
    CHECK(out[0].next_timestamp() == 10.5 && !out[1].next_timestamp());
    CHECK(out[1].array<double>(2)(0, 1) == 2.0);
    CHECK(me.outputs("final").at(0).as<double>() == 8.0);
    me.leave();
    me.leave();
    CHECK(me.get() == nullptr);
}

static void a_view_keeps_its_message_alive() {
    auto me = cell();
    CHECK(me.reuse());
    const auto view = [&] { return me.receive("start").array<double>(); }();
    CHECK(view[1] == 2.0);
}

static void parameters_are_converted_and_checked() {
    auto me = cell();
    CHECK(me.param<double>("length", "m") == 2000.0);
    CHECK(me.param<int>("cells") == 40);
    CHECK(me.param<std::string>("scheme") == "hll");
    CHECK(me.param_or<double>("width", 3.5, "m") == 3.5 && me.param_or<int>("cells", 1) == 40);
    try {
        me.param<std::uint8_t>("large");
        CHECK(false);
    } catch (const xmml::ParameterError& error) {
        CHECK(std::string(error.what()).find("large") != std::string::npos);
    }
}

static void explicit_time_stamps_win() {
    auto me = cell();
    CHECK(me.reuse());
    me.receive("start");
    CHECK(me.next_step());
    me.send("out", 1.0, 20.0, std::nullopt);
    const auto message = me.outputs("out").at(0);
    CHECK(message.timestamp() == 20.0 && !message.next_timestamp());
}

static void a_receive_that_does_not_insist_tells_the_end() {
    auto me = described().input("start", 1.0).input("in", 2.0).join();
    CHECK(me.reuse());
    me.receive("start");
    CHECK(me.next_step());
    me.send("out", 1.0);
    CHECK(me.has_message("in"));
    me.receive("in");
    CHECK(me.next_step());
    me.send("out", 1.0);
    CHECK(!me.has_message("in"));
    CHECK(!me.receive_or_end("in"));
    try {
        me.receive("in");
        CHECK(false);
    } catch (const xmml::EndedError& error) {
        CHECK(std::string(error.what()).find("cell.in") != std::string::npos);
    }
}

static void a_call_out_of_order_says_where() {
    auto me = cell();
    CHECK(me.reuse());
    const int line = __LINE__ + 2;
    try {
        me.send("final", 1.0);
        CHECK(false);
    } catch (const xmml::OrderError& error) {
        const std::string place = "alone.cpp:" + std::to_string(line) + ")";
        CHECK(std::string(error.what()).find(place) != std::string::npos);
    }
}

static void received_data_can_be_passed_on() {
    auto me = cell();
    CHECK(me.reuse());
    const auto message = me.receive("start");
    CHECK(me.next_step());
    me.send("out", message.data());
    CHECK(me.outputs("out").at(0).array<double>()[1] == 2.0);
}

static void memory_is_sent_in_the_shape_of_what_was_received() {
    const std::vector<double> memory{1, 2, 3, 4, 5, 6};
    auto me = xmml::Alone("cell")
                  .port("in", "finit")
                  .port("out", "Of")
                  .input("in", xmml::array(memory.data(), {2, 3}))
                  .join();
    CHECK(me.reuse());
    const auto view = me.receive("in").array<double>();
    const std::vector<double> twice{2, 4, 6, 8, 10, 12};
    me.send("out", xmml::array(twice.data(), view.shape()));
    CHECK(me.outputs("out").at(0).array<double>(2)(1, 0) == 8.0);
}

static void scales_are_in_base_units() {
    auto me = xmml::Alone("cell").scale("x", 0.5, 20.0).join();
    CHECK(me.scale("x").delta == 0.5 && me.scale("x").total == 20.0 && me.scale("x").steps == 40);
    try {
        me.scale("z");
        CHECK(false);
    } catch (const xmml::UsageError& error) {
        CHECK(std::string(error.what()).find("it gives x") != std::string::npos);
    }
}

static void an_array_on_loan_is_filled_and_sent() {
    auto me = cell();
    me.reuse();
    me.receive("start");
    for (double time : me.steps()) {
        auto loan = me.loan<double>({2, 3});
        for (double& element : loan) element = time;
        CHECK(loan.size() == 6 && me.send("out", loan));
        auto unsent = me.loan<std::int32_t>({4});
        unsent[3] = 1;
        break;
    }
    CHECK(me.outputs("out").size() == 1);
    CHECK(me.outputs("out")[0].data().array<double>(2)(1, 2) == 10.0);
}

class Sum : public xmml::Submodel {
public:
    using Submodel::Submodel;
    std::string calls;

private:
    const int cells = me.param<int>("cells");
    double state = 0;

    void f_init() override {
        state = me.receive("start").array<double>(1)[1];
        calls += "f";
    }
    void O_i() override {
        me.send("out", state + cells);
        calls += t == me.time() ? "O" : "?";
    }
    void S() override {
        state += me.receive("in").as<double>();
        calls += "S";
    }
    void B() override { calls += "B"; }
    void O_f() override {
        me.send("final", state);
        calls += "o";
    }
};

static void a_submodel_is_a_class_with_the_operators_as_methods() {
    auto me = cell();
    Sum sum(me);
    sum.run();
    CHECK(sum.calls == "fOSBOSBo");
    CHECK(me.outputs("out").at(0).as<double>() == 42.0 && me.outputs("final").at(0).as<double>() == 7.0);
}

class Total : public xmml::Mapper {
public:
    using Mapper::Mapper;

private:
    void map(const Inputs& inputs) override {
        double total = 0;
        for (const auto& input : inputs) total += input.second.at(0).as<double>();
        me.send("total", total);
    }
};

static void a_mapper_is_a_class_with_one_method() {
    auto alone = xmml::Alone("total");
    alone.port("left", "in").port("right", "in").port("total", "out");
    auto me = alone.input("left", 1.0).input("left", 2.0).input("right", 10.0).input("right", 20.0).join();
    Total(me).run();
    const auto totals = me.outputs("total");
    CHECK(totals.size() == 2 && totals[0].as<double>() == 11.0 && totals[1].as<double>() == 22.0);
}

static void a_loop_goes_over_the_messages_of_a_port_until_they_end() {
    auto alone = xmml::Alone("sink");
    alone.port("values", "in");
    auto me = alone.input("values", 1.0).input("values", 2.5).join();
    double sum = 0;
    for (const xmml::Message& message : me.messages("values")) sum += message.as<double>();
    CHECK(sum == 3.5);
}

static void the_declared_ports_and_parameters_are_listed() {
    const auto me = cell();
    const auto ports = me.ports();
    CHECK(ports.size() == 4 && ports[1].name == "out" && ports[1].operator_name == "Oi" && ports[1].is_out);
    CHECK((me.params() == std::vector<std::string>{"cells", "large", "length", "scheme"}));
}

static void an_array_on_loan_is_indexed_by_dimension() {
    auto me = xmml::Alone("plate").port("field", "Oi").join();
    auto field = me.loan<float>({2, 3}, xmml::Order::column_major);
    field(1, 2) = 4;
    CHECK(field[5] == 4 && field.rank() == 2 && (field.extents<2>() == std::array<std::size_t, 2>{2, 3}));
    bool thrown = false;
    try {
        field.at(2, 0) = 1;
    } catch (const std::out_of_range&) {
        thrown = true;
    }
    CHECK(thrown);
}

static void an_instance_can_be_moved() {
    auto me = cell();
    xmml::Instance moved(std::move(me));
    CHECK(moved.name() == "cell" && moved.count() == 1 && moved.delta() == 0.5);
}

static void an_exception_in_a_callback_comes_out_of_the_call_that_waited() {
    auto me = xmml::Alone("cell").port("in", "S").steps(2, 1.0).input("in", 1).input("in", 2).join();
    CHECK(me.reuse());
    CHECK(me.next_step());
    int sum = 0;
    me.on_message("in", [&sum](const xmml::Message& message) { sum += message.as<int>(); });
    xmml::Instance moved(std::move(me));
    CHECK(moved.serve() && sum == 1);
    bool thrown = false;
    try {
        moved.on_message("in", [](const xmml::Message&) { throw std::out_of_range("too deep"); });
        moved.next_step();
        moved.serve_for(std::chrono::seconds(1));
    } catch (const std::out_of_range& error) {
        thrown = std::string(error.what()) == "too deep";
    }
    CHECK(thrown);
    moved.on_message("in", nullptr);
}

int main(int argc, char** argv) {
    static const behaviour all[] = {
        {"the_loop_reads_as_the_model", the_loop_reads_as_the_model},
        {"a_view_keeps_its_message_alive", a_view_keeps_its_message_alive},
        {"parameters_are_converted_and_checked", parameters_are_converted_and_checked},
        {"explicit_time_stamps_win", explicit_time_stamps_win},
        {"a_receive_that_does_not_insist_tells_the_end", a_receive_that_does_not_insist_tells_the_end},
        {"a_call_out_of_order_says_where", a_call_out_of_order_says_where},
        {"received_data_can_be_passed_on", received_data_can_be_passed_on},
        {"memory_is_sent_in_the_shape_of_what_was_received", memory_is_sent_in_the_shape_of_what_was_received},
        {"scales_are_in_base_units", scales_are_in_base_units},
        {"an_array_on_loan_is_filled_and_sent", an_array_on_loan_is_filled_and_sent},
        {"a_submodel_is_a_class_with_the_operators_as_methods", a_submodel_is_a_class_with_the_operators_as_methods},
        {"a_mapper_is_a_class_with_one_method", a_mapper_is_a_class_with_one_method},
        {"a_loop_goes_over_the_messages_of_a_port_until_they_end",
         a_loop_goes_over_the_messages_of_a_port_until_they_end},
        {"the_declared_ports_and_parameters_are_listed", the_declared_ports_and_parameters_are_listed},
        {"an_array_on_loan_is_indexed_by_dimension", an_array_on_loan_is_indexed_by_dimension},
        {"an_instance_can_be_moved", an_instance_can_be_moved},
        {"an_exception_in_a_callback_comes_out_of_the_call_that_waited",
         an_exception_in_a_callback_comes_out_of_the_call_that_waited},
        {nullptr, nullptr},
    };
    return run_behaviour(all, argc, argv);
}
