// A member of the ring, an xMML submodel: sends an empty message on each of its out ports, receives one on each in port.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <xmml.hpp>

// The same as received() in arrival.py.
void received(const std::string& name) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    char line[256];
    const int length = std::snprintf(line, sizeof line, "%s %ld.%09ld\n", name.c_str(), static_cast<long>(now.tv_sec), now.tv_nsec);
    const std::string folder = std::getenv("BENCH_OUT");
    const int file = open((folder + "/received").c_str(), O_WRONLY | O_APPEND);
    if (write(file, line, static_cast<size_t>(length)) != length) std::perror("received");
    close(file);
    const int hold = open((folder + "/hold").c_str(), O_RDONLY);
    flock(hold, LOCK_SH);
    close(hold);
}

int main(int, char** argv) {
    const int ports = std::atoi(argv[1]);
    xmml::Instance me;
    while (me.reuse()) {
        for ([[maybe_unused]] double t : me.steps()) {
            for (int port = 0; port < ports; ++port) me.send("out" + std::to_string(port), nullptr);
            for (int port = 0; port < ports; ++port) me.receive("in" + std::to_string(port));
            received(me.name());
        }
    }
}
