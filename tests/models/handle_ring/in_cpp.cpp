// Offers a handle, asks by the one that it is offered, and adds up what it is asked.
#include <iostream>
#include <xmml.hpp>

int main() {
    xmml::Instance me;
    while (me.reuse()) {
        for (double t : me.steps()) {
            long sum = 0;
            me.on_message("questions", [&sum](const xmml::Message& message) { sum += message.as<long>(); });
            me.send("offer", xmml::Value::map({{"ask", xmml::Value::list({me.handle("questions")})}}), t);
            const std::uint32_t number = me.open("asked", me.receive("offered").data()["ask"][0]);
            for (long value = 0; value < 10; ++value) me.send_to("asked", number, value);
            me.close("asked", number);
            while (me.serve()) {
            }
            std::cout << sum << "\n";
        }
    }
}
