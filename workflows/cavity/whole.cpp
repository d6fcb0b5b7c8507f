// The cavity in one program, to compare with: whole NX NY NZ LID VISCOSITY STEPS, in cells and steps; writes density, ux, uy, uz to standard output.
#include <cavity.hpp>
#include <cstdio>
#include <string>

int main(int argc, char** argv) {
    if (argc != 7) {
        std::fprintf(stderr, "usage: whole NX NY NZ LID VISCOSITY STEPS > flow.bin\n");
        return 2;
    }
    const std::size_t nx = std::stoul(argv[1]), ny = std::stoul(argv[2]), nz = std::stoul(argv[3]);
    cavity::Slab slab(cavity::Box::of(nx, ny, nz, std::stod(argv[4]), std::stod(argv[5])), 0, nx);
    const double before = slab.mass();
    for (long steps = std::stol(argv[6]); steps > 0; --steps) {
        slab.walls();
        slab.step();
    }
    const cavity::Flow flow = slab.flow();
    for (const auto* field : {&flow.density, &flow.ux, &flow.uy, &flow.uz})
        if (std::fwrite(field->data(), sizeof(double), field->size(), stdout) != field->size()) return 1;
    std::fprintf(stderr, "mass changed by %.1e of itself\n", (slab.mass() - before) / before);
}
