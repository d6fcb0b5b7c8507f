// xMML for C++17: what a submodel written in C++ needs to take part in a coupled model. Header-only, over the C API in xmml.h.
//
//     #include <xmml.hpp>
//
//     int main() {
//         xmml::Instance me;                                                 // joins the run
//         const double k = me.param<double>("k", "1/s");
//         while (me.reuse()) {                                               // once for each pass
//             auto state = me.receive("initial").array<double>().to_vector();   // f_init
//             for (double t : me.steps()) {                                  // exactly the steps of the model
//                 me.send("boundary_out", state.back());                     // O_i
//                 const double left = me.receive("boundary_in").as<double>();   // S
//                 ...
//             }
//             me.send("final", xmml::array(state.data(), {ny, nx}));         // O_f
//         }
//     }                                                                      // leaves the run
//
// Compile with: c++ -std=c++17 -o program program.cpp $(xmml-config --cflags --libs)
//
// Errors are exceptions derived from xmml::Error, which is a std::runtime_error. An instance that is destroyed by an exception tells the
// run that it failed; one that the program ends with because nobody catches it also says what it was.
// That another instance failed is RunAborted, that xmml-run did not start the program NotInARunError: let them pass, and it ends with
// one line and exit status 1.
// Of an MPI program all ranks join together with xmml_mpi.hpp; or only rank 0 makes an Instance, and the others do not call xMML.
#ifndef XMML_HPP
#define XMML_HPP

#include "xmml/alone.hpp"
#include "xmml/array.hpp"
#include "xmml/data.hpp"
#include "xmml/error.hpp"
#include "xmml/instance.hpp"
#include "xmml/port.hpp"
#include "xmml/submodel.hpp"

#endif
