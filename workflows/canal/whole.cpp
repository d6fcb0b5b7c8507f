// The whole network in one program, without any coupling: what the coupled model must reproduce to the last bit.
//
// Reads the network from standard input, one element a line, times in seconds and lengths in metres
//
//     section NAME delta steps length cells width bed_left bed_right manning level wave_height wave_at wave_width record_every
//     junction NAME delta SECTION.END ...            END is `left` or `right`
//     gate NAME delta opens_at opens_within area SECTION.END SECTION.END
//
// and writes each section's history to NAME.csv, to all digits: time, volume, level of every cell. compare.py makes this input
// from a run.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "canal.hpp"

namespace {

/// An end of a section, as a node sees it. A node with short steps sees the edge that a section with long steps had when its step
/// began, and what leaves the section is added up until its step is over.
struct End {
    canal::Edge edge{};
    canal::Amount passed{};
    bool coupled = false;
};

struct Canal {
    double delta;
    long steps;
    canal::Section section;
    canal::History history;
    End left{}, right{};
};

struct Node {
    double delta;
    double opens_at = 0, opens_within = 1, area = 0;  // of a gate
    std::vector<End*> ends{};
};

void junction(const Node& node, double) {
    const double here = node.ends[0]->edge.level;
    double excess = 0.0, total = 0.0;
    for (const End* end : node.ends) {
        const double conveyance = canal::conveyance(end->edge);
        excess += end->edge.discharge + conveyance * (end->edge.level - here);
        total += conveyance;
    }
    const double level = here + excess / total;
    for (End* end : node.ends) {
        const double discharge = end->edge.discharge + canal::conveyance(end->edge) * (end->edge.level - level);
        end->passed += canal::amount(end->edge, level, discharge, node.delta);
    }
}

void gate(const Node& node, double t) {
    End &up = *node.ends[0], &down = *node.ends[1];
    const double up_k = canal::conveyance(up.edge), down_k = canal::conveyance(down.edge);
    const double opened = std::min(1.0, std::max(0.0, (t - node.opens_at) / node.opens_within));
    const double difference =
        (up.edge.level + up.edge.discharge / up_k) - (down.edge.level + down.edge.discharge / down_k);
    const double resistance = 1.0 / up_k + 1.0 / down_k;
    const double jet = 0.6 * node.area * opened;
    const double k = 2.0 * canal::gravity * jet * jet;
    double discharge = 0.0;
    if (k > 0.0) {
        const double drive = k * std::abs(difference);
        discharge = 2.0 * drive / (k * resistance + std::sqrt(k * resistance * (k * resistance) + 4.0 * drive));
    }
    if (difference < 0.0) discharge = -discharge;
    const double up_level = up.edge.level + (up.edge.discharge - discharge) / up_k;
    const double down_level = down.edge.level + (down.edge.discharge + discharge) / down_k;
    up.passed += canal::amount(up.edge, up_level, discharge, node.delta);
    down.passed += canal::amount(down.edge, down_level, -discharge, node.delta);
}

struct Network {
    std::map<std::string, Canal> canals;
    std::vector<Node> junctions, gates;

    End* end(const std::string& name) {
        const auto dot = name.find('.');
        Canal& canal = canals.at(name.substr(0, dot));
        End& end = name.substr(dot + 1) == "left" ? canal.left : canal.right;
        end.coupled = true;
        return &end;
    }

    void read(std::istream& in) {
        for (std::string text; std::getline(in, text);) {
            std::istringstream line(text);
            std::string kind, name;
            if (!(line >> kind >> name)) continue;
            if (kind == "section") {
                double delta, every;
                long steps;
                canal::Shape s{};
                line >> delta >> steps >> s.length >> s.cells >> s.width >> s.bed_left >> s.bed_right >> s.manning >> s.level >>
                    s.wave_height >> s.wave_at >> s.wave_width >> every;
                if (!line) throw std::runtime_error("cannot read: " + text);
                canals.emplace(name, Canal{delta, steps, canal::Section(s), canal::History{every}});
            } else {
                Node node{};
                line >> node.delta;
                if (kind == "gate") line >> node.opens_at >> node.opens_within >> node.area;
                if (!line) throw std::runtime_error("cannot read: " + text);
                for (std::string word; line >> word;) node.ends.push_back(end(word));
                (kind == "gate" ? gates : junctions).push_back(node);
            }
        }
    }

    void run() {
        double shortest = canals.begin()->second.delta;
        long steps = canals.begin()->second.steps;
        for (auto& [name, canal] : canals) {
            shortest = std::min(shortest, canal.delta);
            steps = std::max(steps, canal.steps);
        }
        const auto ratio = [&](double delta) { return std::lround(delta / shortest); };

        for (long step = 0; step < steps; ++step) {
            const double t = double(step) * shortest;
            for (auto& [name, canal] : canals) {
                if (step % ratio(canal.delta) != 0) continue;
                canal.history.record(t, canal.section);
                canal.left = {canal.section.left(), {}, canal.left.coupled};
                canal.right = {canal.section.right(), {}, canal.right.coupled};
            }
            for (const Node& node : junctions)
                if (step % ratio(node.delta) == 0) junction(node, t);
            for (const Node& node : gates)
                if (step % ratio(node.delta) == 0) gate(node, t);
            for (auto& [name, canal] : canals) {
                if ((step + 1) % ratio(canal.delta) != 0) continue;
                canal.section.advance(leaving(canal.left, canal.delta), leaving(canal.right, canal.delta), canal.delta);
            }
        }
        for (auto& [name, canal] : canals) canal.history.record(double(canal.steps) * canal.delta, canal.section);
    }

    static canal::Amount leaving(const End& end, double dt) { return end.coupled ? end.passed : canal::wall(end.edge, dt); }
};

void save(const std::string& name, const canal::History& history) {
    std::ofstream out(name + ".csv");
    out.precision(17);
    const std::size_t cells = history.level.size() / history.time.size();
    for (std::size_t row = 0; row < history.time.size(); ++row) {
        out << history.time[row] << ',' << history.volume[row];
        for (std::size_t cell = 0; cell < cells; ++cell) out << ',' << history.level[row * cells + cell];
        out << '\n';
    }
    if (!out.flush()) throw std::runtime_error("cannot write " + name + ".csv");
}

}  // namespace

int main() try {
    Network network;
    network.read(std::cin);
    if (network.canals.empty()) throw std::runtime_error("no section on standard input");
    network.run();
    for (const auto& [name, canal] : network.canals) save(name, canal.history);
} catch (const std::exception& error) {
    std::fprintf(stderr, "whole: %s\n", error.what());
    return 1;
}
