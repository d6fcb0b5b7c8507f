// Prints the numbers that it sees, and polls once before. See ../test_latest.py.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <xmml.hpp>

int main() {
    xmml::Instance me;
    while (me.reuse()) {
        if (me.receive_for("fields", std::chrono::seconds(0))) return 1;
        me.send("ready", 1);
        while (const auto message = me.receive_or_end("fields")) std::cout << message->as<std::int64_t>() << "\n";
    }
}
