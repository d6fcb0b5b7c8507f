// The Euler equations of a compressible gas in two dimensions, and the scheme that solves them.
//
//     d/dt (rho, rho u, rho v, E) + d/dx F + d/dy G = 0,      E = p / (gamma - 1) + rho (u^2 + v^2) / 2
//
// Finite volumes on square cells, split by dimension (Strang 1968). In each direction the MUSCL-Hancock scheme: linear
// reconstruction of density, velocity and pressure with the minmod limiter, half a time step at the faces, and the HLLC flux (Toro,
// Riemann Solvers and Numerical Methods for Fluid Dynamics, 3rd edition, 10.4, 14.4 and 16.5).
//
// Nothing here knows of processes; flow.hpp spreads the cells over ranks.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace euler {

/// A cell: density, momentum in x and in y, and total energy, each per volume. The order of `names`.
using Cell = std::array<double, 4>;
constexpr std::array<const char*, 4> names{"density", "momentum_x", "momentum_y", "energy"};

/// The same as density, velocity in x and in y, and pressure.
using Primitive = std::array<double, 4>;

inline Primitive primitive(const Cell& c, double gamma) {
    const double u = c[1] / c[0], v = c[2] / c[0];
    return {c[0], u, v, (gamma - 1) * (c[3] - 0.5 * (c[1] * u + c[2] * v))};
}

inline Cell conserved(const Primitive& w, double gamma) {
    return {w[0], w[0] * w[1], w[0] * w[2], w[3] / (gamma - 1) + 0.5 * w[0] * (w[1] * w[1] + w[2] * w[2])};
}

inline double speed_of_sound(const Primitive& w, double gamma) { return std::sqrt(gamma * w[3] / w[0]); }

/// What passes a face of unit size in unit time. Here and below `n` is the component along the face's normal: 1 for x, 2 for y.
template <int n>
Cell flux(const Primitive& w, const Cell& c) {
    Cell f{c[0] * w[n], c[1] * w[n], c[2] * w[n], (c[3] + w[3]) * w[n]};
    f[n] += w[3];
    return f;
}

inline double minmod(double a, double b) { return a * b <= 0 ? 0.0 : std::abs(a) < std::abs(b) ? a : b; }

/// The values at the two faces of a cell, half a time step on. `ratio`: time step over cell size.
template <int n>
void faces(const Primitive& before, const Primitive& here, const Primitive& after, double ratio, double gamma,
           Cell& low, Cell& high) {
    Primitive a, b;
    for (int k = 0; k < 4; ++k) {
        const double half = 0.5 * minmod(here[k] - before[k], after[k] - here[k]);
        a[k] = here[k] - half;
        b[k] = here[k] + half;
    }
    low = conserved(a, gamma);
    high = conserved(b, gamma);
    const Cell in = flux<n>(a, low), out = flux<n>(b, high);
    for (int k = 0; k < 4; ++k) {
        const double change = 0.5 * ratio * (in[k] - out[k]);
        low[k] += change;
        high[k] += change;
    }
}

/// The flux of HLLC between the states on the two sides of a face, with the wave speeds of Batten et al. (1997).
template <int n>
Cell hllc(const Cell& left, const Cell& right, double gamma) {
    const Primitive l = primitive(left, gamma), r = primitive(right, gamma);
    const double cl = speed_of_sound(l, gamma), cr = speed_of_sound(r, gamma);
    const double wl = std::sqrt(l[0]), wr = std::sqrt(r[0]);
    const auto roe = [&](double a, double b) { return (wl * a + wr * b) / (wl + wr); };
    const double u = roe(l[1], r[1]), v = roe(l[2], r[2]);
    const double enthalpy = roe((left[3] + l[3]) / l[0], (right[3] + r[3]) / r[0]);
    const double c = std::sqrt((gamma - 1) * (enthalpy - 0.5 * (u * u + v * v)));
    const double un = n == 1 ? u : v;
    const double sl = std::min(l[n] - cl, un - c), sr = std::max(r[n] + cr, un + c);
    if (sl >= 0) return flux<n>(l, left);
    if (sr <= 0) return flux<n>(r, right);

    const double ml = l[0] * (sl - l[n]), mr = r[0] * (sr - r[n]);
    const double middle = (r[3] - l[3] + ml * l[n] - mr * r[n]) / (ml - mr);
    const auto beside_the_contact = [&](const Primitive& w, const Cell& cell, double s, double m) {
        const double density = m / (s - middle);
        Cell star{density, density * w[1], density * w[2],
                  density * (cell[3] / cell[0] + (middle - w[n]) * (middle + w[3] / m))};
        star[n] = density * middle;
        Cell f = flux<n>(w, cell);
        for (int k = 0; k < 4; ++k) f[k] += s * (star[k] - cell[k]);
        return f;
    };
    return middle >= 0 ? beside_the_contact(l, left, sl, ml) : beside_the_contact(r, right, sr, mr);
}

/// A flow to compute: the gas, its box, and how it begins.
struct Case {
    double gamma;
    double width;   ///< of the box
    bool periodic;  ///< else there are walls around it
    bool flat;      ///< nothing changes with y: a few rows will do
    Primitive (*start)(double x, double y);
};

/// Two streams that slide along each other (McNally, Lyra and Passy 2012): the layers between them are smooth, so all codes should
/// agree as long as the billows grow.
inline Primitive kelvin_helmholtz(double x, double y) {
    constexpr double pi = 3.14159265358979323846, layer = 0.025;
    const double distance = y < 0.5 ? y - 0.25 : 0.75 - y;  // from the nearer layer, into the inner stream
    const double part = 0.5 * std::exp(-std::abs(distance) / layer);
    const double inner = distance < 0 ? part : 1 - part;
    return {1 + inner, 0.5 - inner, 0.01 * std::sin(4 * pi * x), 2.5};
}

/// Thin gas in one corner of a box; shocks run to and fro between the walls (Liska and Wendroff 2003).
inline Primitive implosion(double x, double y) {
    return x + y < 0.15 ? Primitive{0.125, 0, 0, 0.14} : Primitive{1, 0, 0, 1};
}

/// A membrane breaks in the middle of a tube (Sod 1978).
inline Primitive sod(double x, double) { return x < 0.5 ? Primitive{1, 0, 0, 1} : Primitive{0.125, 0, 0, 0.1}; }

/// A smooth wave of density that the flow carries, unchanged, through the corners: what the order of the scheme is measured by.
inline Primitive wave(double x, double y) {
    constexpr double pi = 3.14159265358979323846;
    return {1 + 0.2 * std::sin(2 * pi * (x + y)), 1, 1, 1};
}

inline Case named(const std::string& name) {
    if (name == "kelvin-helmholtz") return {5.0 / 3, 1, true, false, kelvin_helmholtz};
    if (name == "implosion") return {1.4, 0.3, false, false, implosion};
    if (name == "sod") return {1.4, 1, false, true, sod};
    if (name == "wave") return {1.4, 1, true, false, wave};
    throw std::invalid_argument("there is no case " + name + ": kelvin-helmholtz, implosion, sod or wave");
}

}  // namespace euler
