// One section of the network, coupled at both ends to whatever is there: a junction, a gate, or nothing (then it ends at a wall).
//
// In every time step it shows its ends (operator O_i) and is told how much left through them (S). At the end it hands its history
// to the picture (O_f) and leaves it in levels.npy and volumes.csv.
#include <xmml.hpp>

#include <array>
#include <fstream>

#include "canal.hpp"

namespace {

void show(const xmml::OutPort& port, const canal::Edge& edge) {
    port.send(std::array{edge.level, edge.depth, edge.discharge, edge.width});
}

canal::Amount passed(const xmml::InPort& port, const canal::Edge& edge, double delta) {
    if (!port.connected()) return canal::wall(edge, delta);
    const auto amount = port.receive().array<double>();
    return {amount[0], amount[1]};
}

/// Writes the levels in numpy's format (a magic word, a header padded to 64 bytes, the numbers) and the volumes as text.
void save(const canal::History& history, int cells) {
    std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (" + std::to_string(history.time.size()) + ", " +
                         std::to_string(cells) + "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    std::ofstream levels("levels.npy", std::ios::binary);
    levels << "\x93NUMPY\x01" << '\0' << char(header.size() % 256) << char(header.size() / 256) << header;
    levels.write(reinterpret_cast<const char*>(history.level.data()), long(history.level.size() * sizeof(double)));

    std::ofstream volumes("volumes.csv");
    volumes.precision(17);
    for (std::size_t i = 0; i < history.time.size(); ++i) volumes << history.time[i] << ',' << history.volume[i] << '\n';
    if (!levels.flush() || !volumes.flush()) throw std::runtime_error("cannot write levels.npy and volumes.csv");
}

}  // namespace

int main() {
    xmml::Instance me;
    const auto left_out = me.out("left_out"), right_out = me.out("right_out");
    const auto left_in = me.in("left_in"), right_in = me.in("right_in");
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
        canal::History history{me.param<double>("record_every", "s")};
        for (double t : me.steps()) {
            history.record(t, section);
            const canal::Edge left = section.left(), right = section.right();
            show(left_out, left);
            show(right_out, right);
            const canal::Amount through_left = passed(left_in, left, me.delta());
            const canal::Amount through_right = passed(right_in, right, me.delta());
            section.advance(through_left, through_right, me.delta());
        }
        history.record(me.origin() + me.total(), section);
        save(history, shape.cells);
        me.send("history", xmml::Value::map({
                               {"length", shape.length},
                               {"time", history.time},
                               {"volume", history.volume},
                               {"level", xmml::array(history.level.data(), {history.time.size(), std::size_t(shape.cells)})},
                           }));
    }
}
