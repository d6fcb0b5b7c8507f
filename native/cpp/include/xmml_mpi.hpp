// xMML for MPI programs in C++: all ranks of a communicator join the run together.
//
//     #include <xmml_mpi.hpp>
//
//     int main(int argc, char** argv) {
//         MPI_Init(&argc, &argv);
//         {
//             xmml::mpi::Instance me(MPI_COMM_WORLD);
//             while (me.reuse()) {
//                 for (double t : me.steps()) {
//                     me.send("field", xmml::array(block.data(), me.block("field").extent));   // run:decomp: each rank its block
//                     const double inlet = me.receive("inlet").as<double>();                   // every rank has the message
//                 }
//             }
//         }                                                                  // leaves the run, before MPI_Finalize
//         MPI_Finalize();
//     }
//
// xmml_team.h says what the ranks do together and what each does for itself.
#ifndef XMML_MPI_HPP
#define XMML_MPI_HPP

// clang-format off: first this one, which says that call sites come with default arguments
#include <xmml.hpp>
#include <xmml_mpi.h>
// clang-format on

namespace xmml {
namespace mpi {

// A block of an array: its first index and extent in each dimension, and the extents of the whole array.
struct Block {
    std::vector<std::size_t> shape;
    std::vector<std::size_t> start;
    std::vector<std::size_t> extent;
    std::size_t size() const noexcept {
        std::size_t size = 1;
        for (std::size_t each : extent) size *= each;
        return size;
    }
};

class InPort;
class OutPort;

// The membership of all ranks of a communicator.
class Instance : public xmml::Instance {
public:
    explicit Instance(MPI_Comm comm, Site site = Site::here()) : xmml::Instance(joined(comm, site)) {
        detail::handle_termination();
        detail::joined.store(get());
    }

    std::uint32_t rank() const noexcept { return xmml_rank(get()); }
    std::uint32_t ranks() const noexcept { return xmml_ranks(get()); }

    // Ports that are looked up once, as those of xmml::Instance.
    OutPort out(Name port, Site site = Site::here());
    InPort in(Name port, Site site = Site::here());

    // The block of this rank in the array of a port: of the last message there, or as the spacescales of the model give it.
    Block block(Name port, Site site = Site::here()) const { return block(port, {}, site); }
    // The same of an array whose whole has these extents.
    Block block(Name port, const std::vector<std::size_t>& shape, Site site = Site::here()) const {
        xmml_block found{};
        detail::call(site, xmml_block_of, get(), port.c_str(), shape.size(), shape.empty() ? nullptr : shape.data(),
                     &found);
        const auto list = [&](const std::size_t* extents) {
            return std::vector<std::size_t>(extents, extents + found.rank);
        };
        return {list(found.shape), list(found.start), list(found.extent)};
    }

    // Sends this rank's block of an array whose whole has the extents `shape`; send does so with those of the model. False if every
    // receiver has left.
    bool send_block(Name port, const Sendable& block, const std::vector<std::size_t>& shape, Site site = Site::here()) {
        return detail::call(site, xmml_send_value_block, get(), port.c_str(), block.get(), shape.size(),
                            shape.data()) != XMML_RECEIVER_GONE;
    }

    // Puts an object whose payload is this rank's block of an array with the extents `shape`; put does so with those of the model. Every
    // rank calls it, with the same attributes. Returns how many readers choose it.
    std::uint64_t put_block(Name port, const Sendable& block, const std::vector<std::size_t>& shape,
                            const std::string& attributes = "", Site site = Site::here()) {
        std::uint64_t readers = 0;
        detail::call(site, xmml_put_value_block, get(), port.c_str(), block.get(), shape.size(), shape.data(),
                     attributes.c_str(), &readers);
        return readers;
    }

    // Puts the blocks of all ranks together on rank 0, which sends the array on an ordinary port: send_gathered("field", block,
    // "block(x:2,y:2)").
    bool send_gathered(Name port, const Sendable& block, Name decomposition, Site site = Site::here()) {
        return detail::call(site, xmml_send_value_gathered, get(), port.c_str(), decomposition.c_str(), block.get()) !=
               XMML_RECEIVER_GONE;
    }

    // The memory order in which blocks that are received are put together; row-major unless this says otherwise.
    void prefer_order(Order order, Site site = Site::here()) {
        detail::call(site, xmml_prefer_order, get(), static_cast<int>(order));
    }

private:
    static xmml_instance* joined(MPI_Comm comm, const Site& site) {
        xmml_instance* me = nullptr;
        xmml_at(site.file, site.line);
        const xmml_status status = xmml_join_mpi_as(comm, &me, "c++");
        if (status < 0) detail::raise(status);
        return me;
    }
};

// An out port that was looked up once, with the calls for blocks.
class OutPort : public xmml::OutPort {
public:
    Block block(Site site = Site::here()) const { return ranks_->block(name_, site); }
    Block block(const std::vector<std::size_t>& shape, Site site = Site::here()) const {
        return ranks_->block(name_, shape, site);
    }
    bool send_block(const Sendable& block, const std::vector<std::size_t>& shape, Site site = Site::here()) const {
        return ranks_->send_block(name_, block, shape, site);
    }
    std::uint64_t put_block(const Sendable& block, const std::vector<std::size_t>& shape,
                            const std::string& attributes = "", Site site = Site::here()) const {
        return ranks_->put_block(name_, block, shape, attributes, site);
    }
    bool send_gathered(const Sendable& block, Name decomposition, Site site = Site::here()) const {
        return ranks_->send_gathered(name_, block, decomposition, site);
    }

private:
    friend class Instance;
    OutPort(Instance& me, const xmml::OutPort& port) noexcept : xmml::OutPort(port), ranks_(&me) {}

    Instance* ranks_;
};

// An in port that was looked up once, with the calls for blocks.
class InPort : public xmml::InPort {
public:
    Block block(Site site = Site::here()) const { return ranks_->block(name_, site); }
    Block block(const std::vector<std::size_t>& shape, Site site = Site::here()) const {
        return ranks_->block(name_, shape, site);
    }

private:
    friend class Instance;
    InPort(Instance& me, const xmml::InPort& port) noexcept : xmml::InPort(port), ranks_(&me) {}

    Instance* ranks_;
};

inline OutPort Instance::out(Name port, Site site) { return {*this, xmml::Instance::out(port, site)}; }
inline InPort Instance::in(Name port, Site site) { return {*this, xmml::Instance::in(port, site)}; }

}  // namespace mpi
}  // namespace xmml

#endif
