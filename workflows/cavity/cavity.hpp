// Water in a box under a moving lid: the lattice-Boltzmann method with 19 velocities in three dimensions (D3Q19) and one relaxation time (BGK).
//
// A Slab is a part of the box: the layers x = first .. first + layers - 1 of nx. Populations are kept as 19 arrays f[q][x][y][z] with a rim of one cell, so
// that a step is the same arithmetic everywhere: each cell pulls its populations from its neighbours, relaxes them, and writes them to a second set of arrays.
// Before a step the rim must hold what comes in: from walls what went out, turned round (half-way bounce-back; the lid at the top adds its momentum); from the
// neighbouring slab its outermost layer, which exchanges like this:
//
//     slab.leaving(side, out);     // five populations of the outermost layer, to be sent
//     slab.walls();
//     slab.entering(side, in);     // those of the neighbour
//     slab.step();
//
// Cut or whole, on one processor or two, the numbers are the same to the last bit, as long as the compiler fuses no multiplication with an addition here and
// not there: -ffp-contract=off.
#ifndef CAVITY_HPP
#define CAVITY_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace cavity {

constexpr int Q = 19;

struct Velocity {
    int x, y, z;
};

// At rest, along the axes, along the diagonals of the coordinate planes; each followed by its opposite.
constexpr std::array<Velocity, Q> VELOCITY{{{0, 0, 0},
                                            {1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1},
                                            {1, 1, 0}, {-1, -1, 0}, {1, -1, 0}, {-1, 1, 0},
                                            {1, 0, 1}, {-1, 0, -1}, {1, 0, -1}, {-1, 0, 1},
                                            {0, 1, 1}, {0, -1, -1}, {0, 1, -1}, {0, -1, 1}}};

constexpr double weight(int q) { return q == 0 ? 1.0 / 3 : q < 7 ? 1.0 / 18 : 1.0 / 36; }
constexpr int opposite(int q) { return q == 0 ? 0 : q % 2 == 1 ? q + 1 : q - 1; }

// The box, in cells; the speed of its lid, which moves along x, in cells per step; the relaxation rate 1/tau.
struct Box {
    std::size_t nx, ny, nz;
    double lid;
    double omega;

    // With the speed of the lid and the kinematic viscosity in cells and steps.
    static Box of(std::size_t nx, std::size_t ny, std::size_t nz, double lid, double viscosity) {
        return {nx, ny, nz, lid, 1 / (3 * viscosity + 0.5)};
    }
};

enum class Side { low, high };  // towards x = 0, towards x = nx - 1

// Density and velocity of every cell of a slab, as arrays [x][y][z].
struct Flow {
    std::vector<double> density, ux, uy, uz;
};

class Slab {
public:
    // At rest, with density 1.
    Slab(const Box& box, std::size_t first, std::size_t layers)
        : box_(box), first_(first), layers_(layers), row_(box.nz + 2), plane_((box.ny + 2) * row_) {
        if (layers == 0 || box.ny == 0 || box.nz == 0 || first + layers > box.nx)
            throw std::invalid_argument("a slab needs at least one cell in each dimension, and lies in its box");
        // A few lines apart, so that the 19 arrays do not compete for the same places in the cache.
        stride_ = ((layers + 2) * plane_ + 7) / 8 * 8 + 9 * 8;
        now_ = memory(Q * stride_);
        next_ = memory(Q * stride_);
        for (int q = 0; q < Q; ++q)
            for (std::size_t i = 0; i < stride_; ++i) now_[q * stride_ + i] = next_[q * stride_ + i] = weight(q);
    }

    std::size_t cells() const { return layers_ * box_.ny * box_.nz; }
    std::size_t layers() const { return layers_; }
    const Box& box() const { return box_; }

    // How many numbers cross an end of the slab in each step.
    std::size_t crossing() const { return 5 * box_.ny * box_.nz; }

    // Writes the five populations of the outermost layer on this side that leave through it: [5][ny][nz].
    void leaving(Side side, double* out) const {
        const std::size_t x = side == Side::low ? 1 : layers_;
        for (int q : across(side)) {
            for (std::size_t y = 1; y <= box_.ny; ++y, out += box_.nz)
                std::memcpy(out, &now_[at(q, x, y, 1)], box_.nz * sizeof(double));
        }
    }

    // Puts into the rim on this side what left the neighbour there.
    void entering(Side side, const double* in) {
        const std::size_t x = side == Side::low ? 0 : layers_ + 1;
        for (int q : across(side == Side::low ? Side::high : Side::low)) {
            for (std::size_t y = 1; y <= box_.ny; ++y, in += box_.nz)
                std::memcpy(&now_[at(q, x, y, 1)], in, box_.nz * sizeof(double));
        }
    }

    // Turns round what runs into the walls of the box.
    void walls() {
        const std::size_t x0 = first_ == 0 ? 1 : 0, x1 = first_ + layers_ == box_.nx ? layers_ : layers_ + 1;
        for (int q = 1; q < Q; ++q) {
            const Velocity& c = VELOCITY[std::size_t(q)];
            // Cells from 1 to layers, ny, nz; those whose neighbour upstream, at x - c, is in a wall.
            const auto in_wall = [&](std::size_t x, std::size_t y) {
                const std::size_t ux = x - std::size_t(c.x), uy = y - std::size_t(c.y);
                return ux < x0 || ux > x1 || uy < 1 || uy > box_.ny;
            };
            const std::size_t back = at(opposite(q), 0, 0, 0), upstream = at(q, 0, 0, 0);
            const std::ptrdiff_t shift = offset(c);
            const double push = c.y == -1 ? 6 * weight(q) * box_.lid * c.x : 0.0;  // the lid is above y = ny
            for (std::size_t x = 1; x <= layers_; ++x) {
                const bool end = (x == 1 && c.x == 1) || (x == layers_ && c.x == -1);
                for (std::size_t y = 1; y <= box_.ny; ++y) {
                    const std::size_t cell = x * plane_ + y * row_;
                    double* ghost = &now_[upstream + cell] - shift;
                    const double* source = &now_[back + cell];
                    if ((end || (y == 1 && c.y == 1) || (y == box_.ny && c.y == -1)) && in_wall(x, y)) {
                        const double add = y == box_.ny ? push : 0.0;
                        for (std::size_t z = 1; z <= box_.nz; ++z) ghost[z] = source[z] + add;
                    } else if (c.z != 0) {
                        const std::size_t z = c.z == 1 ? 1 : box_.nz;
                        ghost[z] = source[z];
                    }
                }
            }
        }
    }

    // One time step: stream and relax.
    void step() {
        for (std::size_t x = 1; x <= layers_; ++x)
            for (std::size_t y = 1; y <= box_.ny; ++y) relax_row(x * plane_ + y * row_ + 1);
        std::swap(now_, next_);
    }

    double mass() const {
        double sum = 0;
        for (int q = 0; q < Q; ++q) each_row([&](std::size_t row) {
            for (std::size_t z = 0; z < box_.nz; ++z) sum += now_[q * stride_ + row + z];
        });
        return sum;
    }

    Flow flow() const {
        Flow flow;
        for (auto* field : {&flow.density, &flow.ux, &flow.uy, &flow.uz}) field->reserve(cells());
        each_row([&](std::size_t row) {
            for (std::size_t z = 0; z < box_.nz; ++z) {
                double density = 0, ux = 0, uy = 0, uz = 0;
                for (int q = 0; q < Q; ++q) {
                    const double f = now_[q * stride_ + row + z];
                    const Velocity& c = VELOCITY[std::size_t(q)];
                    density += f, ux += c.x * f, uy += c.y * f, uz += c.z * f;
                }
                flow.density.push_back(density);
                flow.ux.push_back(ux / density), flow.uy.push_back(uy / density), flow.uz.push_back(uz / density);
            }
        });
        return flow;
    }

    // A number that differs when any bit of any population does (with all likelihood).
    std::uint64_t fingerprint() const {
        std::uint64_t print = 0xcbf29ce484222325;
        for (int q = 0; q < Q; ++q) each_row([&](std::size_t row) {
            for (std::size_t z = 0; z < box_.nz; ++z) {
                std::uint64_t bits;
                std::memcpy(&bits, &now_[q * stride_ + row + z], sizeof bits);
                print = (print ^ bits) * 0x9e3779b97f4a7c15;
                print ^= print >> 29;
            }
        });
        return print;
    }

private:
    struct Free {
        void operator()(double* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
    };
    using Memory = std::unique_ptr<double[], Free>;
    static Memory memory(std::size_t numbers) {
        return Memory(static_cast<double*>(::operator new[](numbers * sizeof(double), std::align_val_t{64})));
    }

    std::size_t at(int q, std::size_t x, std::size_t y, std::size_t z) const {
        return std::size_t(q) * stride_ + x * plane_ + y * row_ + z;
    }
    std::ptrdiff_t offset(const Velocity& c) const {
        return c.x * std::ptrdiff_t(plane_) + c.y * std::ptrdiff_t(row_) + c.z;
    }

    // The populations that leave through this side.
    static std::array<int, 5> across(Side side) {
        return side == Side::high ? std::array<int, 5>{1, 7, 9, 11, 13} : std::array<int, 5>{2, 8, 10, 12, 14};
    }

    template <class Function>
    void each_row(Function function) const {
        for (std::size_t x = 1; x <= layers_; ++x)
            for (std::size_t y = 1; y <= box_.ny; ++y) function(x * plane_ + y * row_ + 1);
    }

    // The row of cells that begins at `row`, from now_ to next_. Written out for vector instructions: every line works on neighbouring numbers.
    void relax_row(std::size_t row) {
        std::array<const double*, Q> from;
        std::array<double*, Q> to;
        for (int q = 0; q < Q; ++q) {
            from[std::size_t(q)] = &now_[q * stride_ + row] - offset(VELOCITY[std::size_t(q)]);
            to[std::size_t(q)] = &next_[q * stride_ + row];
        }
        const double omega = box_.omega;
        const auto n = std::ptrdiff_t(box_.nz);
#pragma GCC ivdep
        for (std::ptrdiff_t z = 0; z < n; ++z) {
            const double f0 = from[0][z], f1 = from[1][z], f2 = from[2][z], f3 = from[3][z], f4 = from[4][z];
            const double f5 = from[5][z], f6 = from[6][z], f7 = from[7][z], f8 = from[8][z], f9 = from[9][z];
            const double f10 = from[10][z], f11 = from[11][z], f12 = from[12][z], f13 = from[13][z], f14 = from[14][z];
            const double f15 = from[15][z], f16 = from[16][z], f17 = from[17][z], f18 = from[18][z];

            const double density = f0 + ((f1 + f2) + (f3 + f4) + (f5 + f6)) + ((f7 + f8) + (f9 + f10)) +
                                   ((f11 + f12) + (f13 + f14)) + ((f15 + f16) + (f17 + f18));
            const double inverse = 1 / density;
            const double ux = ((f1 - f2) + (f7 - f8) + (f9 - f10) + (f11 - f12) + (f13 - f14)) * inverse;
            const double uy = ((f3 - f4) + (f7 - f8) - (f9 - f10) + (f15 - f16) + (f17 - f18)) * inverse;
            const double uz = ((f5 - f6) + (f11 - f12) - (f13 - f14) + (f15 - f16) - (f17 - f18)) * inverse;

            const double still = 1 - 1.5 * (ux * ux + uy * uy + uz * uz);
            const double share = omega * density;
            const double keep = 1 - omega;
            to[0][z] = keep * f0 + share * (1.0 / 3) * still;
            // Of a pair: what is even in the velocity, and what is odd.
            const auto pair = [&](int q, double a, double b, double weight, double u) {
                const double even = share * weight * (still + 4.5 * u * u), odd = share * weight * 3 * u;
                to[std::size_t(q)][z] = keep * a + (even + odd);
                to[std::size_t(q) + 1][z] = keep * b + (even - odd);
            };
            pair(1, f1, f2, 1.0 / 18, ux);
            pair(3, f3, f4, 1.0 / 18, uy);
            pair(5, f5, f6, 1.0 / 18, uz);
            pair(7, f7, f8, 1.0 / 36, ux + uy);
            pair(9, f9, f10, 1.0 / 36, ux - uy);
            pair(11, f11, f12, 1.0 / 36, ux + uz);
            pair(13, f13, f14, 1.0 / 36, ux - uz);
            pair(15, f15, f16, 1.0 / 36, uy + uz);
            pair(17, f17, f18, 1.0 / 36, uy - uz);
        }
    }

    Box box_;
    std::size_t first_, layers_;
    std::size_t row_, plane_, stride_;  // numbers from a cell to the next in y, in x, and from a population to the next
    Memory now_, next_;
};

}  // namespace cavity

#endif
