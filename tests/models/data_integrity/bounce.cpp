// Sends every message back, read and written as the type that was announced for it.
#include <xmml.hpp>

#include <string>

#include "datatype.hpp"

template <typename T>
void bounce(xmml::Instance& me) {
    me.send("out", me.receive("in").template array<T>());
}

void bounce_bytes(xmml::Instance& me) {
    const auto bytes = me.receive("in").data().bytes();
    me.send("out", xmml::Value::bytes(bytes.data(), bytes.size()));
}

int main() {
    xmml::Instance me;
    while (true) {
        switch (Datatype(me.receive("datatype").as<std::int32_t>())) {
            case Datatype::end: return 0;
            case Datatype::boolean: bounce<bool>(me); break;
            case Datatype::int32:
            case Datatype::matrix: bounce<std::int32_t>(me); break;
            case Datatype::float32: bounce<float>(me); break;
            case Datatype::float64:
            case Datatype::cube: bounce<double>(me); break;
            case Datatype::int64: bounce<std::int64_t>(me); break;
            case Datatype::raw: bounce_bytes(me); break;
            case Datatype::text: me.send("out", me.receive("in").as<std::string>()); break;
        }
    }
}
