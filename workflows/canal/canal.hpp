// Water in a network of canals: the equations, as used by the coupled section program (section.cpp) and by the program that
// solves the whole network in one process (whole.cpp).
//
// A section is a straight canal with a rectangular cross-section. In it the shallow-water (Saint-Venant) equations hold,
//
//     dh/dt + dq/dx = 0
//     dq/dt + d(q^2/h + g h^2/2)/dx = -g h dz/dx - g n^2 |q| q / h^(7/3)
//
// with the depth h [m], the discharge per metre of width q [m^2/s], the bed z [m] and Manning's n. They are solved by finite
// volumes: HLL fluxes (Harten, Lax, van Leer 1983) with hydrostatic reconstruction (Audusse et al. 2004), so that water at rest
// stays at rest over any bed, and friction taken implicitly. Volume changes only by what passes the faces, so none is lost.
//
// Everything is plain double arithmetic in a fixed order. Compiled with -ffp-contract=off it gives the same bits everywhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace canal {

constexpr double gravity = 9.81;  // m/s^2

/// What a section shows of itself at one of its ends.
struct Edge {
    double level;      ///< of the water [m above datum]
    double depth;      ///< m
    double discharge;  ///< towards the end, out of the section [m^3/s]
    double width;      ///< m
};

/// What passes through an end during one time step. Amounts, not rates: those of four short steps may simply be added to give
/// the amount of one long step, and no water is lost between canals with different time steps.
struct Amount {
    double volume = 0.0;   ///< out of the section [m^3]
    double impulse = 0.0;  ///< pressure and momentum, per density of water [m^4/s]

    Amount& operator+=(const Amount& other) {
        volume += other.volume;
        impulse += other.impulse;
        return *this;
    }
};

/// The conveyance of an end: by how much its discharge falls when the level at the end rises by one metre [m^2/s]. (The wave
/// sent back into the section travels with sqrt(g h).)
inline double conveyance(const Edge& edge) { return edge.width * std::sqrt(gravity * edge.depth); }

/// What passes an end in `dt` seconds, when the level there becomes `level` and the discharge `discharge`.
inline Amount amount(const Edge& edge, double level, double discharge, double dt) {
    const double depth = edge.depth + (level - edge.level);
    const double momentum = discharge * discharge / (edge.width * depth) + 0.5 * gravity * edge.width * depth * depth;
    return {discharge * dt, momentum * dt};
}

/// A closed end: nothing passes, and the water rises against the wall.
inline Amount wall(const Edge& edge, double dt) {
    return amount(edge, edge.level + edge.discharge / conveyance(edge), 0.0, dt);
}

/// How a section is built and filled.
struct Shape {
    double length;           ///< m
    int cells;               ///< number of finite volumes
    double width;            ///< m
    double bed_left;         ///< height of the bed at the left end [m above datum]
    double bed_right;        ///< and at the right end
    double manning;          ///< roughness [s/m^(1/3)]
    double level;            ///< water level at the start [m above datum]
    double wave_height = 0;  ///< a bump in it, to start with [m]
    double wave_at = 0;      ///< where its crest is, from the left end [m]
    double wave_width = 1;   ///< from the crest to its foot [m]
};

/// One straight canal.
class Section {
public:
    explicit Section(const Shape& shape)
        : shape_(shape), dx_(shape.length / shape.cells), depth_(shape.cells), flow_(shape.cells), bed_(shape.cells) {
        const double pi = std::acos(-1.0);
        for (int i = 0; i < shape.cells; ++i) {
            const double x = position(i);
            bed_[i] = shape.bed_left + (shape.bed_right - shape.bed_left) * x / shape.length;
            double level = shape.level;
            if (std::abs(x - shape.wave_at) < shape.wave_width)
                level += shape.wave_height * 0.5 * (1.0 + std::cos(pi * (x - shape.wave_at) / shape.wave_width));
            depth_[i] = level - bed_[i];
            if (!(depth_[i] > 0.0))
                throw std::invalid_argument("at the start the canal is dry at x = " + std::to_string(x) + " m");
        }
    }

    Edge left() const { return edge(0, -1.0); }
    Edge right() const { return edge(cells() - 1, 1.0); }
    int cells() const { return shape_.cells; }
    double position(int i) const { return (i + 0.5) * dx_; }
    double level(int i) const { return bed_[i] + depth_[i]; }

    /// The water in the section [m^3].
    double volume() const {
        double sum = 0.0;
        for (double depth : depth_) sum += depth;
        return sum * dx_ * shape_.width;
    }

    /// One time step of `dt` seconds, in which `left` and `right` leave through the ends.
    void advance(const Amount& left, const Amount& right, double dt) {
        const int n = cells();
        std::vector<double> depth = depth_, flow = flow_;

        const double per_cell = 1.0 / (shape_.width * dx_);
        depth[0] -= left.volume * per_cell;
        flow[0] += left.impulse * per_cell;
        for (int i = 0; i + 1 < n; ++i) {
            const Face face = between(i, i + 1, dt);
            depth[i] -= face.volume * (dt / dx_);
            depth[i + 1] += face.volume * (dt / dx_);
            flow[i] -= face.momentum_left * (dt / dx_);
            flow[i + 1] += face.momentum_right * (dt / dx_);
        }
        depth[n - 1] -= right.volume * per_cell;
        flow[n - 1] -= right.impulse * per_cell;

        for (int i = 0; i < n; ++i) {
            if (!(depth[i] > 0.0))
                throw std::runtime_error("the canal ran dry at x = " + std::to_string(position(i)) + " m");
            const double drag = gravity * shape_.manning * shape_.manning * std::abs(flow[i]) /
                                (depth[i] * depth[i] * std::cbrt(depth[i]));
            flow[i] /= 1.0 + dt * drag;
        }
        depth_ = depth;
        flow_ = flow;
    }

private:
    /// Fluxes per metre of width through the face between two cells. The two sides see different momentum where the bed steps.
    struct Face {
        double volume, momentum_left, momentum_right;
    };

    Edge edge(int cell, double outwards) const {
        return {level(cell), depth_[cell], outwards * flow_[cell] * shape_.width, shape_.width};
    }

    Face between(int l, int r, double dt) const {
        // Hydrostatic reconstruction: both sides see the higher bed.
        const double bed = std::max(bed_[l], bed_[r]);
        const double hl = std::max(0.0, level(l) - bed), hr = std::max(0.0, level(r) - bed);
        const double ul = flow_[l] / depth_[l], ur = flow_[r] / depth_[r];

        // HLL: the fluxes across a fan of two waves.
        const double cl = std::sqrt(gravity * hl), cr = std::sqrt(gravity * hr);
        const double slowest = std::min(0.0, std::min(ul - cl, ur - cr));
        const double fastest = std::max(0.0, std::max(ul + cl, ur + cr));
        if (std::max(-slowest, fastest) * dt > dx_)
            throw std::runtime_error("a wave crosses more than one cell in a time step: choose a shorter step or fewer cells");
        const double ql = hl * ul, qr = hr * ur;
        const double ml = ql * ul + 0.5 * gravity * hl * hl, mr = qr * ur + 0.5 * gravity * hr * hr;
        double volume = 0.0, momentum = 0.0;
        if (fastest > slowest) {
            volume = (fastest * ql - slowest * qr + fastest * slowest * (hr - hl)) / (fastest - slowest);
            momentum = (fastest * ml - slowest * mr + fastest * slowest * (qr - ql)) / (fastest - slowest);
        }
        return {volume, momentum + 0.5 * gravity * (depth_[l] * depth_[l] - hl * hl),
                momentum + 0.5 * gravity * (depth_[r] * depth_[r] - hr * hr)};
    }

    Shape shape_;
    double dx_;
    std::vector<double> depth_, flow_, bed_;
};

/// What a section was like at certain times: every `every` seconds.
struct History {
    double every;
    std::vector<double> time{};    ///< s
    std::vector<double> volume{};  ///< m^3
    std::vector<double> level{};   ///< of every cell [m above datum], one time after the other

    void record(double t, const Section& section) {
        if (std::fmod(t, every) != 0.0) return;
        time.push_back(t);
        volume.push_back(section.volume());
        for (int i = 0; i < section.cells(); ++i) level.push_back(section.level(i));
    }
};

}  // namespace canal
