// A part of the cavity as a submodel: which part, how fine and how fast is said in the model.
#include <cavity.hpp>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <xmml.hpp>

namespace {

std::size_t whole(double count, const char* what) {
    if (count < 0 || std::abs(count - std::round(count)) > 1e-6)
        throw std::runtime_error(std::string(what) + " is " + std::to_string(count) + " cells, which is no whole number");
    return std::size_t(std::round(count));
}

// O_i: what leaves through a face is written where the neighbour will read it.
void show(xmml::Instance& me, const char* port, const cavity::Slab& slab, cavity::Side side) {
    if (!me.connected(port)) return;
    auto leaving = me.loan<double>({std::size_t(5), slab.box().ny, slab.box().nz});
    slab.leaving(side, leaving.data());
    me.send(port, leaving);
}

// S: what left the neighbour.
void take(xmml::Instance& me, const char* port, cavity::Slab& slab, cavity::Side side) {
    if (!me.connected(port)) return;
    const auto entering = me.receive(port).array<double>();
    if (entering.size() != slab.crossing()) throw std::runtime_error("the neighbour at " + std::string(port) + " has other y or z");
    slab.entering(side, entering.data());
}

}  // namespace

int main() {
    xmml::Instance me;
    const double cell = me.scale("x").delta, step = me.delta();
    const double lid = me.param<double>("lid", "m/s") * step / cell;
    const double viscosity = me.param<double>("viscosity", "m^2/s") * step / (cell * cell);
    const std::size_t nx = whole(me.param<double>("box", "m") / cell, "the box");
    const std::size_t first = whole(me.param<double>("begins", "m") / cell, "the beginning of this part");
    const std::size_t layers = me.scale("x").steps, ny = me.scale("y").steps, nz = me.scale("z").steps;
    std::printf("%zu x %zu x %zu cells of %zu x %zu x %zu, lid %.17g, viscosity %.17g\n", layers, ny, nz, nx, ny, nz, lid, viscosity);

    while (me.reuse()) {
        cavity::Slab slab(cavity::Box::of(nx, ny, nz, lid, viscosity), first, layers);
        for (double t : me.steps()) {
            (void)t;
            show(me, "west_out", slab, cavity::Side::low);
            show(me, "east_out", slab, cavity::Side::high);
            slab.walls();
            take(me, "west_in", slab, cavity::Side::low);
            take(me, "east_in", slab, cavity::Side::high);
            slab.step();
        }
        const cavity::Flow flow = slab.flow();
        const auto field = [&](const std::vector<double>& values) { return xmml::array(values.data(), {layers, ny, nz}); };
        me.send("flow", xmml::Value::map({{"ux", field(flow.ux)}, {"uy", field(flow.uy)}, {"uz", field(flow.uz)},
                                          {"density", field(flow.density)}, {"speed", cell / step}}));
    }
}
