// What goes wrong, where in the program it did, and how a call of the C API becomes an exception. Included by xmml.hpp.
#ifndef XMML_ERROR_HPP
#define XMML_ERROR_HPP

#include <stdexcept>
#include <string>
#include <utility>

// Here the call sites come with default arguments, which see through the functions of these headers.
#ifndef XMML_H
#define XMML_NO_CALL_SITES
#endif
#include <xmml.h>

namespace xmml {

// Anything that goes wrong between a program and its run.
class Error : public std::runtime_error {
public:
    Error(xmml_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
    xmml_status status() const noexcept { return status_; }

private:
    xmml_status status_;
};

// clang-format off
class UsageError : public Error { using Error::Error; };         // an argument that cannot be, e.g. a shape that does not fit
class NotInARunError : public Error { using Error::Error; };     // the program was not started by xmml-run
class PortError : public Error { using Error::Error; };          // no such port, another direction, or not coupled
class OrderError : public Error { using Error::Error; };         // out of the order f_init, (O_i, S or B)*, O_f
class EndedError : public Error { using Error::Error; };         // a receive after the sender has ended
class TypeError : public Error { using Error::Error; };          // a value of another type or shape than asked for
class ParameterError : public Error { using Error::Error; };     // missing, or cannot be converted
class RunAborted : public Error { using Error::Error; };         // another instance failed, or somebody interrupted the run
// clang-format on

// Where in the program a call stands; only ever made as a default argument.
struct Site {
    const char* file;
    int line;
    static Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) noexcept { return {file, line}; }
};

namespace detail {

[[noreturn]] inline void raise(xmml_status status) {
    const std::string text = xmml_error();
    switch (status) {
        case XMML_ERROR_USAGE: throw UsageError(status, text);
        case XMML_ERROR_NOT_IN_A_RUN: throw NotInARunError(status, text);
        case XMML_ERROR_PORT:
        case XMML_ERROR_NOT_CONNECTED: throw PortError(status, text);
        case XMML_ERROR_ORDER: throw OrderError(status, text);
        case XMML_ERROR_ENDED: throw EndedError(status, text);
        case XMML_ERROR_TYPE: throw TypeError(status, text);
        case XMML_ERROR_PARAMETER: throw ParameterError(status, text);
        case XMML_ERROR_ABORTED: throw RunAborted(status, text);
        default: throw Error(status, text);
    }
}

// Calls a function of the C API; an error becomes an exception, an outcome is returned. The functions are passed as pointers, so that
// the macros of xmml.h, if they are there, do not put in this header's line numbers.
template <class... Parameters, class... Arguments>
xmml_status call(const Site& site, xmml_status (*function)(Parameters...), Arguments&&... arguments) {
    xmml_at(site.file, site.line);
    const xmml_status status = function(std::forward<Arguments>(arguments)...);
    if (status < 0) raise(status);
    return status;
}

}  // namespace detail

}  // namespace xmml

#endif
