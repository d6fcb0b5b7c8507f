// Bound ports: looked up once, then used without their names.
#include <xmml.hpp>

#include "behaviour.h"

// In its first run. In: in (S), from (S, two copies); out: out (O_i), to (O_i, three copies).
static xmml::Instance started() {
    xmml::Alone alone("cell");
    alone.port("out", "Oi").port("to", "Oi*3").port("in", "S").port("from", "S*2").steps(2, 1.0);
    alone.input("in", 7, 1.5).input("in", 8, 2.5).input("from[0]", 5).input("from[1]", 6);
    auto me = alone.join();
    CHECK(me.reuse());
    return me;
}

// What a call throws, without the place of the call.
template <class Call>
static std::string thrown_by(Call call) {
    try {
        call();
    } catch (const xmml::PortError& error) {
        const std::string text = error.what();
        CHECK(text.find(" (called at ") != std::string::npos);
        return text.substr(0, text.find(" (called at "));
    }
    return "nothing";
}

static void a_misspelt_port_is_the_error_of_a_call_when_it_is_bound() {
    auto me = started();
    const std::string by_name = thrown_by([&] { me.send("powr", 1); });
    CHECK(by_name.find("powr") != std::string::npos);
    CHECK(thrown_by([&] { me.out("powr"); }) == by_name);
    CHECK(thrown_by([&] { me.in("powr"); }) == by_name);
}

static void a_port_of_the_other_direction_is_the_error_of_a_call_when_it_is_bound() {
    auto me = started();
    CHECK(thrown_by([&] { me.out("in"); }) == thrown_by([&] { me.send("in", 1); }));
    CHECK(thrown_by([&] { me.in("out"); }) == thrown_by([&] { me.receive("out"); }));
}

static void bound_ports_send_and_receive() {
    auto me = started();
    const auto out = me.out("out"), to = me.out("to");
    const auto in = me.in("in");
    CHECK(out.name() == std::string("out") && out.connected() && out.copies() == 0 && !out.methods().empty());
    CHECK(out.send(4));
    to.skip();
    CHECK(in.has_message());
    const auto message = in.receive();
    CHECK(message.as<int>() == 7 && message.timestamp() == 1.5);
    CHECK(out.outputs().at(0).as<int>() == 4);
}

static void a_bound_port_addresses_one_copy() {
    auto me = started();
    const auto out = me.out("out"), to = me.out("to");
    const auto from = me.in("from");
    out.skip();
    CHECK(to.copies() == 3);
    for (std::uint32_t copy = 0; copy < to.copies(); ++copy) CHECK(to.send_to(copy, copy));
    CHECK(me.outputs("to[2]").at(0).as<int>() == 2);
    CHECK(from.has_message_of(1) && from.receive_of(1).as<int>() == 6);
    CHECK(from.receive_or_end_of(0)->as<int>() == 5);
}

static void a_bound_port_receives_of_all_copies() {
    auto me = started();
    me.skip("out");
    me.skip("to");
    const auto messages = me.in("from").receive_all();
    CHECK(messages.size() == 2 && messages[0].as<int>() == 5 && messages[1].as<int>() == 6);
}

static void a_bound_port_takes_time_stamps_and_time_outs() {
    auto me = started();
    const auto out = me.out("out"), to = me.out("to");
    const auto in = me.in("in");
    out.send(1, 20.0, std::nullopt);
    to.send_to(0, 1, 21.0);
    to.send_to(1, 1, 22.0, 23.0);
    to.send_to(2, 1);
    CHECK(out.outputs().at(0).timestamp() == 20.0 && !out.outputs().at(0).next_timestamp());
    CHECK(me.outputs("to[0]").at(0).timestamp() == 21.0);
    CHECK(me.outputs("to[1]").at(0).next_timestamp() == 23.0);
    CHECK(in.receive_for(std::chrono::seconds(1))->as<int>() == 7);
    CHECK(me.in("from").receive_for_of(0, std::chrono::seconds(1))->as<int>() == 5);
}

static void a_loop_goes_over_the_messages_of_a_bound_port_until_they_end() {
    auto alone = xmml::Alone("sink");
    alone.port("values", "in");
    auto me = alone.input("values", 1.0).input("values", 2.5).join();
    const auto values = me.in("values");
    double sum = 0;
    for (const xmml::Message& message : values.messages()) sum += message.as<double>();
    CHECK(sum == 3.5 && !values.receive_or_end());
}

static void a_bound_port_has_a_callback() {
    auto me = xmml::Alone("cell").port("in", "S").steps(1, 1.0).input("in", 3).join();
    int sum = 0;
    me.in("in").on_message([&sum](const xmml::Message& message) { sum += message.as<int>(); });
    CHECK(me.reuse() && me.next_step() && me.serve() && sum == 3);
    me.in("in").on_message(nullptr);
}

static void an_error_of_a_bound_port_says_where() {
    auto me = started();
    const auto in = me.in("in");
    const int line = __LINE__ + 2;
    try {
        in.receive();
        CHECK(false);
    } catch (const xmml::OrderError& error) {
        const std::string text = error.what();
        CHECK(text.find("receive on \"in\"") != std::string::npos);
        CHECK(text.find("ports.cpp:" + std::to_string(line) + ")") != std::string::npos);
    }
}

static void a_bound_port_of_an_instance_that_has_left_is_the_usual_error() {
    auto me = xmml::Alone("cell").port("out", "Oi").port("in", "S").join();
    const auto out = me.out("out");
    const auto in = me.in("in");
    me.leave();
    for (const auto& call :
         {std::function<void()>([&] { out.send(1); }), std::function<void()>([&] { in.receive(); })}) {
        try {
            call();
            CHECK(false);
        } catch (const xmml::UsageError& error) {
            CHECK(std::string(error.what()).find("me is a null pointer") != std::string::npos);
        }
    }
}

int main(int argc, char** argv) {
    static const behaviour all[] = {
        {"a_misspelt_port_is_the_error_of_a_call_when_it_is_bound",
         a_misspelt_port_is_the_error_of_a_call_when_it_is_bound},
        {"a_port_of_the_other_direction_is_the_error_of_a_call_when_it_is_bound",
         a_port_of_the_other_direction_is_the_error_of_a_call_when_it_is_bound},
        {"bound_ports_send_and_receive", bound_ports_send_and_receive},
        {"a_bound_port_addresses_one_copy", a_bound_port_addresses_one_copy},
        {"a_bound_port_receives_of_all_copies", a_bound_port_receives_of_all_copies},
        {"a_bound_port_takes_time_stamps_and_time_outs", a_bound_port_takes_time_stamps_and_time_outs},
        {"a_loop_goes_over_the_messages_of_a_bound_port_until_they_end",
         a_loop_goes_over_the_messages_of_a_bound_port_until_they_end},
        {"a_bound_port_has_a_callback", a_bound_port_has_a_callback},
        {"an_error_of_a_bound_port_says_where", an_error_of_a_bound_port_says_where},
        {"a_bound_port_of_an_instance_that_has_left_is_the_usual_error",
         a_bound_port_of_an_instance_that_has_left_is_the_usual_error},
        {nullptr, nullptr},
    };
    return run_behaviour(all, argc, argv);
}
