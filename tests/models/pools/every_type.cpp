// Puts objects with an attribute of every type, or prints what it takes. See ../test_pools_in_every_language.py.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>
#include <xmml.hpp>

namespace {

const char* const of_every_type =
    "truth=true whole=-3 natural=9007199254740993 number=0.1 text='say \"\u00b5\"' level=ml "
    "moment=2026-11-27T13:30:00.250001+01:00 wholes=[1,-2,9007199254740993] numbers=[0.1,-2.5] raw='raw \u00b5'";

template <class Call>
void print_error(const char* what, Call call) {
    try {
        call();
        std::printf("%s: nothing\n", what);
    } catch (const xmml::UsageError& error) {
        std::printf("%s: usage: %s\n", what, error.what());
    } catch (const xmml::TypeError& error) {
        std::printf("%s: type: %s\n", what, error.what());
    } catch (const xmml::PortError& error) {
        std::printf("%s: port: %s\n", what, error.what());
    } catch (const std::logic_error& error) {
        std::printf("%s: usage: %s\n", what, error.what());
    }
}

std::string bits(double number) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llX", static_cast<unsigned long long>(bits));
    return digits;
}

template <class Bytes>
std::string hex(const Bytes& bytes) {
    std::string digits;
    for (const auto each : bytes) {
        char two[3];
        std::snprintf(two, sizeof two, "%02X", static_cast<unsigned>(static_cast<unsigned char>(each)));
        digits += two;
    }
    return digits;
}

void print(const xmml::Message& object) {
    std::string line = object.attribute("sys.instance")->as<std::string>();
    char between = ' ';
    for (const std::string& name : object.attributes()) {
        line += between + name;
        between = ',';
    }
    const auto whole = [&](const char* name) { return std::to_string(object.attribute(name)->as<std::int64_t>()); };
    const auto text = [&](const char* name) { return object.attribute(name)->as<std::string>(); };
    if (!object.attribute("truth")) {
        line += " whole " + whole("whole") + " kind " + std::to_string(static_cast<int>(object.data().kind()));
        if (object.attribute("sys.group")) line += " group " + whole("sys.group") + " follow " + whole("sys.follow");
        std::puts(line.c_str());
        return;
    }
    line += std::string(" truth ") + (object.attribute("truth")->as<bool>() ? "true" : "false");
    line += " whole " + whole("whole") + " natural " + whole("natural");
    line += " number " + bits(object.attribute("number")->as<double>());
    line += " text " + hex(text("text")) + " level " + text("level") + " moment " + text("moment") + " wholes";
    for (const std::int64_t each : object.attribute("wholes")->as<std::vector<std::int64_t>>())
        line += " " + std::to_string(each);
    line += " numbers";
    for (const double each : object.attribute("numbers")->as<std::vector<double>>()) line += " " + bits(each);
    line += " raw " + hex(object.attribute("raw")->bytes());
    const auto field = object.array<double>(2);
    std::printf("%s elements %d %d\n", line.c_str(), static_cast<int>(field(0, 1)), static_cast<int>(field(1, 0)));
}

void write_objects(xmml::Instance& me) {
    const std::vector<double> field{0, 1, 2, 3, 4, 5};
    std::printf("readers %d\n", static_cast<int>(me.put("objects", xmml::array(field.data(), {2, 3}), of_every_type)));
    auto objects = me.out("objects");
    objects.put(nullptr, "whole=4");
    print_error("unknown", [&] { objects.put(nullptr, "whloe=4"); });
    print_error("mistyped", [&] { me.put("objects", nullptr, "whole=x"); });
    std::printf("nowhere %d\n", static_cast<int>(me.put("nowhere", nullptr)));
    std::printf("wanted %d %d\n", static_cast<int>(me.wanted("objects", "whole=4")),
                static_cast<int>(objects.wanted("whole=5")));
    print_error("unwanted", [&] { objects.wanted("whloe=4"); });
}

void write_groups(xmml::Instance& me) {
    auto objects = me.out("objects");
    objects.group("whole=5").put(nullptr);
    auto group = me.group("objects", "whole=6");
    print_error("second", [&] { objects.group(); });
    group.put(nullptr);
    group.put(nullptr, "whole=7");
    std::printf("group %d\n", static_cast<int>(group.end()));
    print_error("over", [&] { group.put(nullptr); });
    print_error("common", [&] { me.group("objects", "whloe=4"); });
}

void read_objects(xmml::Instance& me) {
    if (!me.take_for("later", std::chrono::milliseconds(10))) std::puts("timed out");
    auto go = me.out("go");
    go.put(nullptr);
    go.end();
    print_error("late", [&] { me.put("go", nullptr); });
    if (!me.take("later")) std::puts("ended");
    print_error("nowhere", [&] { me.take("nowhere"); });
    auto objects = me.in("objects");
    while (auto object = objects.take()) {
        print(*object);
        print_error("unknown", [&] { object->attribute("truht"); });
        if (object->attribute("text")) print_error("mistyped", [&] { object->attribute("text")->as<int>(); });
    }
}

}  // namespace

int main() {
    xmml::Instance me;
    while (me.reuse()) {
        if (me.name()[0] == 'w') {
            write_objects(me);
            write_groups(me);
        } else {
            read_objects(me);
        }
    }
}
