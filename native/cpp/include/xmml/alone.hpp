// An instance without a run, for tests. Included by xmml.hpp.
#ifndef XMML_ALONE_HPP
#define XMML_ALONE_HPP

#include <cstdint>
#include <memory>
#include <string>

#include "instance.hpp"

namespace xmml {

// An instance without a run, for tests: its inputs are given, its outputs kept.
//
//     auto me = xmml::Alone("heater").port("temperature", "S").port("power", "Oi").steps(2, 60.0).input("temperature", 18.5).join();
//
class Alone {
public:
    explicit Alone(Name name) : alone_((xmml_alone_new)(name.c_str()), xmml_alone_free) {
        if (!alone_) detail::raise(XMML_ERROR_USAGE);
    }

    // A port on the operator "finit", "Oi", "S", "B" or "Of"; or "in", "out" for a mapper.
    Alone& port(Name port, const char* operator_or_direction, Site site = Site::here()) {
        detail::call(site, xmml_alone_port, alone_.get(), port.c_str(), operator_or_direction);
        return *this;
    }
    Alone& param(Name name, const std::string& text, Site site = Site::here()) {
        detail::call(site, xmml_alone_param, alone_.get(), name.c_str(), text.c_str());
        return *this;
    }
    Alone& steps(std::uint64_t steps, double delta_s, Site site = Site::here()) {
        detail::call(site, xmml_alone_steps, alone_.get(), steps, delta_s);
        return *this;
    }
    // A scale in space or another dimension, in base units.
    Alone& scale(Name name, double delta, double total, Site site = Site::here()) {
        detail::call(site, xmml_alone_scale, alone_.get(), name.c_str(), delta, total);
        return *this;
    }
    // The next message that the port will deliver; after the last one it has ended. An in port without any is not coupled.
    Alone& input(Name port, const Value& data, double timestamp = 0.0, Site site = Site::here()) {
        detail::call(site, xmml_alone_input, alone_.get(), port.c_str(), timestamp, data.get());
        return *this;
    }
    Instance join(Site site = Site::here()) {
        xmml_alone* alone = alone_.release();
        xmml_instance* me = nullptr;
        detail::call(site, xmml_alone_join, &alone, &me);
        return Instance(me);
    }

private:
    std::unique_ptr<xmml_alone, void (*)(xmml_alone*)> alone_;
};

}  // namespace xmml

#endif
