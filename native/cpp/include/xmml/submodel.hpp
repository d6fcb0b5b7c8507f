// Submodels and mappers as classes: their methods are called in the order of the model's loop. Included by xmml.hpp.
#ifndef XMML_SUBMODEL_HPP
#define XMML_SUBMODEL_HPP

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "instance.hpp"

namespace xmml {

// A submodel as a class: override the operators that it has.
//
//     class Decay : public xmml::Submodel {
//         using Submodel::Submodel;
//         const double k = me.param<double>("k", "1/s");
//         double state = 0;
//         void f_init() override { state = 1; }
//         void O_i() override { me.send("state", state); }
//         void S() override { state -= k * state * me.delta(); }
//     };
//     int main() { xmml::run<Decay>(); }
//
class Submodel {
public:
    explicit Submodel(Instance& instance) noexcept : me(instance) {}
    virtual ~Submodel() = default;
    Submodel(const Submodel&) = delete;
    Submodel& operator=(const Submodel&) = delete;

    // Runs the submodel execution loop until no more runs follow.
    void run() {
        while (me.reuse()) {
            t = me.origin();
            f_init();
            for (const double now : me.steps()) {
                t = now;
                O_i();
                S();
                B();
            }
            t = me.time();
            O_f();
        }
    }

protected:
    virtual void f_init() {}  // set the initial state; may receive on ports of operator finit
    virtual void O_i() {}     // send observations of the state, on ports of operator Oi
    virtual void S() {}       // advance the state by one step; may receive on ports of operator S
    virtual void B() {}       // apply boundary conditions; may receive on ports of operator B
    virtual void O_f() {}     // send the final state, on ports of operator Of

    Instance& me;
    double t = 0;  // model time of the step, in seconds
};

// A mapper as a class: override map, which has one message from every coupled in port and sends on every coupled out port.
class Mapper {
public:
    // By in port its message; from a multiplied instance one per copy.
    using Inputs = std::map<std::string, std::vector<Message>>;

    explicit Mapper(Instance& instance) noexcept : me(instance) {}
    virtual ~Mapper() = default;
    Mapper(const Mapper&) = delete;
    Mapper& operator=(const Mapper&) = delete;

    // Maps until an in port has ended.
    void run() {
        while (me.reuse()) {
            Inputs inputs;
            for (const Port& port : me.ports())
                if (!port.is_out && me.connected(port.name)) inputs.emplace(port.name, me.receive_all(port.name));
            map(inputs);
        }
    }

protected:
    virtual void map(const Inputs& inputs) = 0;

    Instance& me;
};

// Joins the run, makes a T with the instance, runs it, and leaves.
template <class T>
void run() {
    Instance me;
    T(me).run();
}

}  // namespace xmml

#endif
