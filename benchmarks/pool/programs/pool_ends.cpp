// xMML by its C interface: objects of a pool; or the same payloads as messages, which have no attributes.
#include <xmml.h>

#include "ends.hpp"

namespace {

xmml_instance* me;

void check(xmml_status status) {
    if (status == XMML_OK) return;
    std::fprintf(stderr, "%s\n", xmml_error());
    std::_Exit(1);
}

void put(long index, const double* field) {
    char attributes[300];
    std::snprintf(attributes, sizeof attributes,
                  "class=od stream=enfo type=fc expver='0001' domain=g date=2026-11-27 time=1200 levtype=pl "
                  "levelist=%ld number=%u step=%ld param=%ld",
                  1 + index % 137, xmml_index(me), index, index % bench::PARAMS);
    check(xmml_put_array(me, "fields", XMML_F64, 1, &bench::ELEMENTS, field, attributes, nullptr));
}

void send_message(long, const double* field) {
    check(xmml_send_array(me, "fields", XMML_F64, 1, &bench::ELEMENTS, field));
}

template <typename Look>
void take(Look look) {
    xmml_message* object;
    const xmml_value* value;
    xmml_array field;
    int64_t step;
    check(xmml_take(me, "fields", &object));
    check(xmml_attribute(object, "step", &value));
    check(xmml_read_int(value, &step));
    check(xmml_message_array(object, XMML_F64, 1, &field));
    look(step, static_cast<const double*>(field.data));
    xmml_message_free(object);
}

}  // namespace

int main(int count, char** words) {
    const std::string role = count == 3 ? words[1] : "", way = count == 3 ? words[2] : "";
    int is_running;
    check(xmml_join(&me));
    for (check(xmml_reuse(me, &is_running)); is_running; check(xmml_reuse(me, &is_running))) {
        const auto nothing = [] {};
        long next = 0;
        if (role == "writer" && way == "pool") {
            bench::write(put, nothing);
        } else if (role == "writer") {
            bench::write(send_message, nothing);
        } else if (way == "pool") {
            bench::read([](auto look) { take(look); });
        } else {
            bench::read([&next](auto look) {
                xmml_message* message;
                xmml_array field;
                check(xmml_receive(me, "fields", &message));
                check(xmml_message_array(message, XMML_F64, 1, &field));
                look(next++ % bench::COUNT, static_cast<const double*>(field.data));
                xmml_message_free(message);
            });
        }
    }
    return xmml_leave(&me) != XMML_OK;
}
