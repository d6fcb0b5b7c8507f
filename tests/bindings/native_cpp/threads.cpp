// Instances that several threads use at once; the argument says which. See threads.c.
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <xmml.hpp>

#include "behaviour.h"

constexpr int messages = 200;

static void counts_up(xmml::Instance& me, const char* port) {
    for (int i = 0; i < messages; ++i) me.send(port, i);
}

static void sends_from_two_threads() {
    xmml::Instance me;
    CHECK(me.reuse());
    std::thread other([&me] { counts_up(me, "one"); });
    counts_up(me, "two");
    other.join();
}

static void receives_until_the_end(xmml::Instance& me, const char* port) {
    for (int i = 0; i < messages; ++i) {
        const int got = me.receive(port).as<int>();
        if (got != i) fprintf(stderr, "%s: %d came where %d was due\n", port, got, i);
        CHECK(got == i);
    }
    for (int i = 0; i < messages; ++i) {  // an error at the same time as the other thread
        try {
            me.receive(port);
            CHECK(false);
        } catch (const xmml::EndedError& error) {
            CHECK(std::string(error.what()).find(port) != std::string::npos);
        }
    }
}

static void receives_in_two_threads() {
    xmml::Instance me;
    CHECK(me.reuse());
    std::thread other([&me] { receives_until_the_end(me, "one"); });
    receives_until_the_end(me, "two");
    other.join();
}

// While a thread serves, its callbacks replace themselves, and another thread replaces them too.
static void callbacks_are_replaced_while_they_are_called() {
    xmml::Instance me;
    CHECK(me.reuse());
    std::atomic<int> called{0};
    std::function<void(int)> listen = [&](int generation) {
        const std::string held(100, 'x');
        me.on_message("one", [&called, &listen, held, generation](const xmml::Message&) {
            ++called;
            listen(generation + 1);  // this function is replaced, and goes on
            CHECK(held == std::string(100, 'x'));
        });
    };
    listen(0);
    me.on_message("two", [&called](const xmml::Message&) { ++called; });
    std::thread other([&] {
        while (me.serve()) {
        }
    });
    for (int i = 0; i < 50; ++i) {
        const std::string held(100, 'y');
        me.on_message("two", [&called, held](const xmml::Message&) {
            CHECK(held == std::string(100, 'y'));
            ++called;
        });
    }
    other.join();
    CHECK(called == 2 * messages);
}

int main(int argc, char** argv) {
    static const behaviour all[] = {
        {"sends_from_two_threads", sends_from_two_threads},
        {"receives_in_two_threads", receives_in_two_threads},
        {"callbacks_are_replaced_while_they_are_called", callbacks_are_replaced_while_they_are_called},
        {nullptr, nullptr},
    };
    return run_behaviour(all, argc, argv);
}
