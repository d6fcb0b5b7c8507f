// The solver as it is run without coupling: it writes its states to files, which are analysed when it has ended.
//
//     mpirun -n 2 build/to_files CASE CELLS INTERVAL TOTAL FOLDER
//
// A state is the file NNNN.npy in the folder: density, momentum in x and y, energy; when it was, times.csv says. Without a folder
// nothing is written: that is how long the solver takes by itself.
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>

#include "flow.hpp"
#include "stopwatch.hpp"

namespace {

/// Writes states in numpy's format: a magic word, a header padded to 64 bytes, the numbers.
class Folder {
public:
    explicit Folder(std::string path) : path_(std::move(path)), times_(path_ + "/times.csv") { times_.precision(17); }

    void write(const Flow& flow, int rank, int state, double time) {
        const std::size_t size = rank == 0 ? std::size_t(flow.rows()) * flow.columns() : 0;
        whole_.resize(4 * size);
        for (int field = 0; field < 4; ++field) flow.gather(field, whole_.data() + field * size);
        if (rank != 0) return;
        std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, " + std::to_string(flow.rows()) +
                             ", " + std::to_string(flow.columns()) + "), }";
        header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
        header += '\n';
        std::ostringstream name;
        name << path_ << '/' << std::setw(4) << std::setfill('0') << state << ".npy";
        std::ofstream file(name.str(), std::ios::binary);
        file << "\x93NUMPY\x01" << '\0' << char(header.size() % 256) << char(header.size() / 256) << header;
        file.write(reinterpret_cast<const char*>(whole_.data()), long(whole_.size() * sizeof(double)));
        times_ << state << ',' << time << '\n';
        if (!file.flush() || !times_.flush()) throw std::runtime_error("cannot write " + name.str());
    }

private:
    std::string path_;
    std::ofstream times_;
    std::vector<double> whole_;
};

void run(int argc, char** argv) {
    if (argc < 5 || argc > 6) throw std::invalid_argument("to_files CASE CELLS INTERVAL TOTAL [FOLDER]");
    const double interval = std::atof(argv[3]), total = std::atof(argv[4]);
    const long states = std::lround(total / interval);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    Flow flow(euler::named(argv[1]), std::atoi(argv[2]), MPI_COMM_WORLD);
    std::optional<Folder> folder;
    if (argc == 6) folder.emplace(argv[5]);
    const Stopwatch stopwatch(MPI_COMM_WORLD);
    for (int state = 0;; ++state) {
        if (folder) folder->write(flow, rank, state, state * interval);
        if (state == states) break;
        flow.advance_to((state + 1) * interval);
    }
    stopwatch.report(flow.steps());
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        run(argc, argv);
    } catch (const std::exception& error) {
        std::cerr << "to_files: " << error.what() << std::endl;
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
}
