// Runs once for every call: adds one to the first element of a matrix per step. Says when each of its runs began.
#include <xmml.hpp>

#include <cstdio>

int main() {
    xmml::Instance me;
    while (me.reuse()) {
        double value = me.receive("macroObs").array<double>()(0, 0);
        std::printf("run from %g s\n", me.origin());
        for ([[maybe_unused]] double t : me.steps()) value += 1.0;
        me.send("microObs", value);
    }
}
