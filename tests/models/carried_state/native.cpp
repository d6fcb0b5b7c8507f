// Counts its runs in the state that each leaves to the next.
#include <cstdio>
#include <xmml.hpp>

int main() {
    xmml::Instance me;
    while (me.reuse()) {
        const double start = me.receive("start").as<double>();
        const long runs = me.connected("before") ? me.receive("before").as<long>() : 0;
        std::printf("%g %ld\n", start, runs);
        me.send("after", runs + 1);
    }
}
