// Instances of small models; the argument says which.
#include <xmml.hpp>

#include "behaviour.h"

template <class T>
static void check_array(const xmml::Message& message) {
    const auto view = message.array<T>(2);
    CHECK(view.extent(0) == 2 && view.extent(1) == 3);
    CHECK(reinterpret_cast<std::uintptr_t>(view.data()) % alignof(T) == 0);
}

// The other side of sends_everything in partner.c.
static void receives_everything() {
    xmml::Instance me;
    while (me.reuse()) {
        int number = 0;
        for (double t : me.steps()) {
            const auto message = me.receive("in");
            CHECK(message.timestamp() == t);
            switch (number++ % 16) {
                case XMML_BOOL: check_array<bool>(message); break;
                case XMML_I8: check_array<std::int8_t>(message); break;
                case XMML_I16: check_array<std::int16_t>(message); break;
                case XMML_I32: check_array<std::int32_t>(message); break;
                case XMML_I64: check_array<std::int64_t>(message); break;
                case XMML_U8: {
                    const auto view = message.array<std::uint8_t>(2);
                    const bool row_major = number <= 16;
                    for (int i = 0; i < 2; ++i) {
                        for (int j = 0; j < 3; ++j) CHECK(view(i, j) == (row_major ? 3 * i + j : i + 2 * j) % 2);
                    }
                    break;
                }
                case XMML_U16: check_array<std::uint16_t>(message); break;
                case XMML_U32: check_array<std::uint32_t>(message); break;
                case XMML_U64: check_array<std::uint64_t>(message); break;
                case XMML_F32: check_array<float>(message); break;
                case XMML_F64: check_array<double>(message); break;
                case XMML_C64: check_array<std::complex<float>>(message); break;
                case XMML_C128: check_array<std::complex<double>>(message); break;
                case 13:
                    CHECK(message.as<std::string>() ==
                          "Gr\xc3\xbc\xc3\x9f"
                          "e");
                    break;
                case 14: CHECK(message.data().bytes().size() == 96); break;
                default:
                    CHECK(message.data()["list"][0].as<int>() == -5);
                    CHECK(message.data()["list"][1].as<double>() == t);
            }
        }
    }
}

// Sends to an echo and compares.
static void compares_with_its_echo() {
    xmml::Instance me;
    while (me.reuse()) {
        for (double t : me.steps()) {
            const std::vector<double> numbers(1000, t);
            me.send("out", numbers);
            CHECK(me.receive("in").array<double>(1).to_vector() == numbers);
        }
    }
}

static void asks() {
    xmml::Instance me;
    while (me.reuse()) {
        for (double t : me.steps()) {
            me.send("question", t);
            CHECK(me.receive("answer").as<double>() == 2 * t);
        }
    }
}

static void throws_and_nobody_catches() {
    xmml::Instance me;
    me.reuse();
    throw std::domain_error("negative depth in cell 7");
}

static void throws_and_main_catches() {
    try {
        xmml::Instance me;
        me.reuse();
        me.send("powr", 1.0);
    } catch (const xmml::PortError&) {
        std::exit(1);
    }
}

static void only_receives() {
    xmml::Instance me;
    while (me.reuse()) {
        for (double t : me.steps()) {
            static_cast<void>(t);
            me.receive("in");
        }
    }
}

// Changes the method of the conduit that it receives from.
static void changes_its_method() {
    xmml::Instance me;
    while (me.reuse()) {
        int number = 0;
        for (double t : me.steps()) {
            if (number++ == 3) me.set_methods("in", "unix");
            CHECK(me.receive("in").as<double>() == t);
            if (number == 5) CHECK(me.methods("in").find("a.out -> b.in: unix") != std::string::npos);
        }
    }
}

int main(int argc, char** argv) {
    static const behaviour all[] = {
        {"receives_everything", receives_everything},
        {"compares_with_its_echo", compares_with_its_echo},
        {"asks", asks},
        {"changes_its_method", changes_its_method},
        {"throws_and_nobody_catches", throws_and_nobody_catches},
        {"throws_and_main_catches", throws_and_main_catches},
        {"only_receives", only_receives},
        {nullptr, nullptr},
    };
    return run_behaviour(all, argc, argv);
}
