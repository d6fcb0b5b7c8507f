// Half of the cavity as a submodel: cavity_half west|east
#include <string>
#include <xmml.hpp>

#include "time_loop.hpp"

namespace {

struct Conduits {
    xmml::Instance& me;
    cavity::Side side;

    void begin(const cavity::Slab& slab) {
        me.next_step();
        xmml::Loan<double> out = me.loan<double>({std::size_t(5), slab.box().ny, slab.box().nz});
        slab.leaving(side, out.data());
        me.send("leaving", out.array());
    }

    void finish(cavity::Slab& slab) {
        const xmml::Message message = me.receive("entering");
        const auto in = message.array<double>();
        if (in.size() != slab.crossing()) throw std::runtime_error("the neighbour has another height or width");
        slab.entering(side, in.data());
    }
};

}  // namespace

int main(int argc, char** argv) {
    const int half = argc > 1 && std::string(argv[1]) == "east" ? 1 : 0;
    bench::pin(half);
    xmml::Instance me;
    while (me.reuse()) {
        cavity::Slab slab = bench::half_of_cube(half);
        Conduits conduits{me, half == 0 ? cavity::Side::high : cavity::Side::low};
        bench::run(half, slab, conduits);
    }
}
