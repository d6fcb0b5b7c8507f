// The solver, coupled: it puts its states into a pool and goes on.
#include <xmml_mpi.hpp>

#include "flow.hpp"
#include "stopwatch.hpp"

namespace {

/// Puts a state. Its four fields are gathered on rank 0, in memory that the readers read, and become visible together.
void put(xmml::mpi::Instance& me, const Flow& flow, int state, double time) {
    char attributes[64];
    std::snprintf(attributes, sizeof attributes, "state=%d time=%.17g", state, time);
    auto group = me.group("fields", attributes);
    for (std::size_t field = 0; field < euler::names.size(); ++field) {
        auto whole = me.loan<double>({me.rank() == 0 ? flow.rows() : 0, flow.columns()});
        flow.gather(int(field), whole.data());
        group.put(whole, std::string("name=") + euler::names[field]);
    }
    group.end();
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    {
        xmml::mpi::Instance me(MPI_COMM_WORLD);
        while (me.reuse()) {
            Flow flow(euler::named(me.param<std::string>("case")), me.param<int>("cells"), MPI_COMM_WORLD);
            const Stopwatch stopwatch(MPI_COMM_WORLD);
            int state = 0;
            for (double t : me.steps()) {
                put(me, flow, state, t);
                flow.advance_to(++state * me.delta());
            }
            put(me, flow, state, state * me.delta());
            stopwatch.report(flow.steps());
        }
    }
    MPI_Finalize();
}
