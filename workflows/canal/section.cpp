// One section of the network, coupled at both ends to whatever is there: a junction, a gate, or nothing (then it ends at a wall).
//
// In every time step it shows its ends (operator O_i) and is told how much left through them (S). At the end it hands its history
// to the picture (O_f) and leaves it in levels.npy.
#include <xmml.hpp>

#include <fstream>

#include "canal.hpp"

namespace {

void show(xmml::Instance& me, const char* port, const canal::Edge& edge) {
    me.send(port, std::vector<double>{edge.level, edge.depth, edge.discharge, edge.width});
}

canal::Amount passed(xmml::Instance& me, const char* port, const canal::Edge& edge) {
    if (!me.connected(port)) return canal::wall(edge, me.delta());
    const auto message = me.receive(port);
    const auto amount = message.array<double>();
    return {amount.data()[0], amount.data()[1]};
}

/// Writes a table in numpy's format: a magic word, a header padded to 64 bytes, the numbers.
void save(const char* file, const canal::History& history) {
    std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (" + std::to_string(history.rows()) + ", " +
                         std::to_string(history.columns()) + "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    std::ofstream out(file, std::ios::binary);
    out << "\x93NUMPY\x01" << '\0' << char(header.size() % 256) << char(header.size() / 256) << header;
    out.write(reinterpret_cast<const char*>(history.table().data()), std::streamsize(history.table().size() * sizeof(double)));
    if (!out.flush()) throw std::runtime_error(std::string("cannot write ") + file);
}

}  // namespace

int main() {
    xmml::Instance me;
    canal::Shape shape{};
    shape.length = me.param<double>("length", "m");
    shape.cells = me.param<int>("cells");
    shape.width = me.param<double>("width", "m");
    shape.bed_left = me.param<double>("bed_left", "m");
    shape.bed_right = me.param<double>("bed_right", "m");
    shape.manning = me.param<double>("manning");
    shape.level = me.param<double>("level", "m");
    shape.wave_height = me.param<double>("wave_height", "m");
    shape.wave_at = me.param<double>("wave_at", "m");
    shape.wave_width = me.param<double>("wave_width", "m");

    while (me.reuse()) {
        canal::Section section(shape);
        canal::History history(section, me.param<double>("record_every", "s"));
        for (double t : me.steps()) {
            history.record(t, section);
            const canal::Edge left = section.left(), right = section.right();
            show(me, "left_out", left);
            show(me, "right_out", right);
            const canal::Amount through_left = passed(me, "left_in", left);
            const canal::Amount through_right = passed(me, "right_in", right);
            section.advance(through_left, through_right, me.delta());
        }
        history.record(me.origin() + me.total(), section);
        save("levels.npy", history);
        me.send("history", xmml::array(history.table().data(), {history.rows(), history.columns()}));
    }
}
