// A flow whose cells are spread over the ranks of a communicator, in slabs of whole rows.
#pragma once

#include <mpi.h>

#include <vector>

#include "euler.hpp"

/// The state of the gas, and its way through time. All ranks call the same functions together.
class Flow {
public:
    /// The flow at time zero, with so many cells from left to right.
    Flow(const euler::Case& setting, int cells, MPI_Comm comm) : case_(setting), columns_(cells), comm_(comm) {
        MPI_Comm_rank(comm, &rank_);
        MPI_Comm_size(comm, &ranks_);
        all_rows_ = setting.flat ? 2 * ghosts : cells;
        if (all_rows_ < ghosts * ranks_) throw std::invalid_argument("each rank needs two rows of cells");
        first_row_ = first_row_of(rank_);
        rows_ = first_row_of(rank_ + 1) - first_row_;
        pitch_ = columns_ + 2 * ghosts;
        size_ = setting.width / cells;
        cells_.resize(std::size_t(rows_ + 2 * ghosts) * pitch_);
        primitive_ = cells_;
        low_ = high_ = flux_ = cells_;
        for (int j = 0; j < rows_; ++j)
            for (int i = 0; i < columns_; ++i)
                cells_[at(j, i)] =
                    euler::conserved(setting.start((i + 0.5) * size_, (first_row_ + j + 0.5) * size_), setting.gamma);
    }

    int rows() const { return all_rows_; }
    int columns() const { return columns_; }
    long steps() const { return steps_; }

    /// Takes as many time steps as stability asks for, the last one cut to end at time `t`.
    void advance_to(double t) {
        while (time_ < t) {
            const double dt = longest_step();
            step(time_ + dt < t ? dt : t - time_);
            time_ = time_ + dt < t ? time_ + dt : t;
        }
    }

    /// Collects one of the four fields (`euler::names`) on rank 0, in `whole`: rows() x columns() numbers. The others give anything.
    void gather(int field, double* whole) const {
        std::vector<double> own(std::size_t(rows_) * columns_);
        for (int j = 0, k = 0; j < rows_; ++j)
            for (int i = 0; i < columns_; ++i) own[k++] = cells_[at(j, i)][field];
        std::vector<int> counts(ranks_), starts(ranks_);
        for (int rank = 0; rank < ranks_; ++rank) {
            starts[rank] = first_row_of(rank) * columns_;
            counts[rank] = first_row_of(rank + 1) * columns_ - starts[rank];
        }
        MPI_Gatherv(own.data(), int(own.size()), MPI_DOUBLE, whole, counts.data(), starts.data(), MPI_DOUBLE, 0, comm_);
    }

private:
    static constexpr int ghosts = 2;
    static constexpr double courant = 0.8;

    int first_row_of(int rank) const { return int(long(all_rows_) * rank / ranks_); }
    /// Where a cell lies; rows and columns from -ghosts to their number + ghosts.
    std::size_t at(int row, int column) const { return std::size_t(row + ghosts) * pitch_ + column + ghosts; }

    double longest_step() const {
        double fastest = 0;
        for (int j = 0; j < rows_; ++j)
            for (int i = 0; i < columns_; ++i) {
                const euler::Primitive w = euler::primitive(cells_[at(j, i)], case_.gamma);
                const double speed = std::max(std::abs(w[1]), std::abs(w[2]));
                fastest = std::max(fastest, speed + euler::speed_of_sound(w, case_.gamma));
            }
        MPI_Allreduce(MPI_IN_PLACE, &fastest, 1, MPI_DOUBLE, MPI_MAX, comm_);
        return courant * size_ / fastest;
    }

    /// One time step; the directions take turns in being first, which keeps it of second order.
    void step(double dt) {
        const bool x_first = steps_++ % 2 == 0;
        if (x_first) sweep<1>(dt);
        sweep<2>(dt);
        if (!x_first) sweep<1>(dt);
    }

    /// Changes every cell by what passes its faces in direction n: 1 for x, 2 for y.
    template <int n>
    void sweep(double dt) {
        const double ratio = dt / size_, gamma = case_.gamma;
        const std::size_t next = n == 1 ? 1 : pitch_;
        n == 1 ? fill_left_and_right() : fill_above_and_below();
        // How far the loops go beyond the cells of this rank, along the sweep.
        const auto for_all = [&](int before, int after, const auto& work) {
            const int up = n == 2, along = n == 1;
            for (int j = -before * up; j < rows_ + after * up; ++j)
                for (std::size_t k = at(j, -before * along); k < at(j, columns_ + after * along); ++k) work(k);
        };
        for_all(2, 2, [&](std::size_t k) { primitive_[k] = euler::primitive(cells_[k], gamma); });
        for_all(1, 1, [&](std::size_t k) {
            euler::faces<n>(primitive_[k - next], primitive_[k], primitive_[k + next], ratio, gamma, low_[k], high_[k]);
        });
        for_all(1, 0, [&](std::size_t k) { flux_[k] = euler::hllc<n>(high_[k], low_[k + next], gamma); });
        for_all(0, 0, [&](std::size_t k) {
            for (int c = 0; c < 4; ++c) cells_[k][c] += ratio * (flux_[k - next][c] - flux_[k][c]);
        });
    }

    /// What lies beyond the two sides: the other end of a periodic box, or the mirror image in a wall.
    void fill_left_and_right() {
        for (int j = 0; j < rows_; ++j)
            for (int g = 0; g < ghosts; ++g) {
                cells_[at(j, -1 - g)] = case_.periodic ? cells_[at(j, columns_ - 1 - g)] : mirrored(at(j, g), 1);
                cells_[at(j, columns_ + g)] = case_.periodic ? cells_[at(j, g)] : mirrored(at(j, columns_ - 1 - g), 1);
            }
    }

    /// The rows below and above this slab: those of the neighbours, or mirror images.
    void fill_above_and_below() {
        const int count = int(4 * ghosts * pitch_);
        const auto neighbour = [&](int other) {
            return case_.periodic ? (other + ranks_) % ranks_ : other < 0 || other == ranks_ ? MPI_PROC_NULL : other;
        };
        const int below = neighbour(rank_ - 1), above = neighbour(rank_ + 1);
        const auto rows_from = [&](int row) { return cells_[at(row, -ghosts)].data(); };
        MPI_Sendrecv(rows_from(rows_ - ghosts), count, MPI_DOUBLE, above, 0, rows_from(-ghosts), count, MPI_DOUBLE,
                     below, 0, comm_, MPI_STATUS_IGNORE);
        MPI_Sendrecv(rows_from(0), count, MPI_DOUBLE, below, 1, rows_from(rows_), count, MPI_DOUBLE, above, 1, comm_,
                     MPI_STATUS_IGNORE);
        for (int g = 0; g < ghosts; ++g)
            for (int i = 0; i < columns_; ++i) {
                if (below == MPI_PROC_NULL) cells_[at(-1 - g, i)] = mirrored(at(g, i), 2);
                if (above == MPI_PROC_NULL) cells_[at(rows_ + g, i)] = mirrored(at(rows_ - 1 - g, i), 2);
            }
    }

    euler::Cell mirrored(std::size_t k, int n) const {
        euler::Cell cell = cells_[k];
        cell[n] = -cell[n];
        return cell;
    }

    euler::Case case_;
    int columns_, all_rows_, first_row_, rows_;
    std::size_t pitch_;
    double size_;
    MPI_Comm comm_;
    int rank_, ranks_;
    double time_ = 0;
    long steps_ = 0;
    std::vector<euler::Cell> cells_, low_, high_, flux_;
    std::vector<euler::Primitive> primitive_;
};
