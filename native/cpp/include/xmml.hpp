// xMML for C++17: what a submodel written in C++ needs to take part in a coupled model. Header-only, over the C API in xmml.h.
//
//     #include <xmml.hpp>
//
//     int main() {
//         xmml::Instance me;                                                 // joins the run
//         const double k = me.param<double>("k", "1/s");
//         while (me.reuse()) {                                               // one pass per run
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
// That another instance failed is RunAborted: let it pass, and the program ends with one line and exit status 1.
// Of an MPI program only rank 0 makes an Instance: it receives and broadcasts, gathers and sends.
#ifndef XMML_HPP
#define XMML_HPP

#include <array>
#include <atomic>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// Here the call sites come with default arguments, which see through the functions below.
#ifndef XMML_H
#define XMML_NO_CALL_SITES
#endif
#include "xmml.h"

namespace xmml {

// ------------------------------------------------------------------------------------------------------------- errors

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

template <class T>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<std::complex<T>> : std::bool_constant<std::is_same_v<T, float> || std::is_same_v<T, double>> {};

template <class T>
inline constexpr bool is_integer = std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8;

// The types that arrays are made of.
template <class T>
inline constexpr bool is_element = std::is_same_v<T, bool> || is_integer<T> || std::is_same_v<T, float> ||
                                   std::is_same_v<T, double> || is_complex<T>::value;

}  // namespace detail

// The element type of C++ type T in messages.
template <class T>
constexpr xmml_dtype dtype_of() noexcept {
    static_assert(detail::is_element<T>,
                  "arrays are made of bool, integers up to 64 bits, float, double, and std::complex of these");
    if constexpr (std::is_same_v<T, bool>) return XMML_BOOL;
    else if constexpr (std::is_same_v<T, float>) return XMML_F32;
    else if constexpr (std::is_same_v<T, double>) return XMML_F64;
    else if constexpr (std::is_same_v<T, std::complex<float>>) return XMML_C64;
    else if constexpr (std::is_same_v<T, std::complex<double>>) return XMML_C128;
    else if constexpr (std::is_signed_v<T>)
        return sizeof(T) == 1 ? XMML_I8 : sizeof(T) == 2 ? XMML_I16 : sizeof(T) == 4 ? XMML_I32 : XMML_I64;
    else return sizeof(T) == 1 ? XMML_U8 : sizeof(T) == 2 ? XMML_U16 : sizeof(T) == 4 ? XMML_U32 : XMML_U64;
}

// How the elements of an array follow each other.
enum class Order {
    row_major = XMML_ROW_MAJOR,       // last index fastest, as in C
    column_major = XMML_COLUMN_MAJOR  // first index fastest, as in Fortran
};

// ------------------------------------------------------------------------------------------------------------- arrays

// One extent of a shape; any integer that is not negative.
class Extent {
public:
    template <class I, class = std::enable_if_t<detail::is_integer<I>>>
    Extent(I extent) : extent_(static_cast<std::size_t>(extent)) {
        if constexpr (std::is_signed_v<I>) {
            if (extent < 0) throw UsageError(XMML_ERROR_USAGE, "an extent of an array is " + std::to_string(extent));
        }
    }
    operator std::size_t() const noexcept { return extent_; }

private:
    std::size_t extent_;
};

// Memory of the program that is to be sent as an array; it must live until the send returns.
template <class T>
struct ArrayRef {
    const T* data;
    std::vector<std::size_t> shape;
    Order order;
};

// xmml::array(pointer, {ny, nx}): the memory at pointer, seen as an array of this shape.
template <class T>
ArrayRef<std::remove_cv_t<T>> array(T* data, std::initializer_list<Extent> shape, Order order = Order::row_major) {
    return {data, std::vector<std::size_t>(shape.begin(), shape.end()), order};
}

template <class T, class I>
ArrayRef<std::remove_cv_t<T>> array(T* data, const std::vector<I>& shape, Order order = Order::row_major) {
    return {data, std::vector<std::size_t>(shape.begin(), shape.end()), order};
}

// The shape of an array that was received.
class Shape {
public:
    Shape(const std::size_t* extents, std::size_t rank) noexcept : extents_(extents), rank_(rank) {}
    std::size_t size() const noexcept { return rank_; }
    std::size_t operator[](std::size_t i) const noexcept { return extents_[i]; }
    const std::size_t* begin() const noexcept { return extents_; }
    const std::size_t* end() const noexcept { return extents_ + rank_; }

private:
    const std::size_t* extents_;
    std::size_t rank_;
};

// An array that was received, where it lies. A view keeps the memory alive; copying one is cheap.
template <class T>
class View {
public:
    using value_type = T;
    using const_iterator = const T*;

    View(std::shared_ptr<const void> owner, const xmml_array& array) : owner_(std::move(owner)), array_(array) {}

    const T* data() const noexcept { return static_cast<const T*>(array_.data); }
    std::size_t size() const noexcept { return array_.size; }
    bool empty() const noexcept { return array_.size == 0; }
    std::size_t rank() const noexcept { return array_.rank; }
    Shape shape() const noexcept { return {array_.shape, array_.rank}; }
    std::size_t extent(std::size_t i) const noexcept { return array_.shape[i]; }
    Order order() const noexcept { return static_cast<Order>(array_.order); }

    const T* begin() const noexcept { return data(); }
    const T* end() const noexcept { return data() + size(); }

    // Element number i in memory. Not checked.
    const T& operator[](std::size_t i) const noexcept { return data()[i]; }

    // The element at these indices, one per dimension. The number of indices is checked, their values are not.
    template <class... Indices>
    const T& operator()(Indices... indices) const {
        return data()[offset<false>({static_cast<std::size_t>(indices)...})];
    }

    // The same with the indices checked: std::out_of_range.
    template <class... Indices>
    const T& at(Indices... indices) const {
        return data()[offset<true>({static_cast<std::size_t>(indices)...})];
    }

    std::vector<T> to_vector() const { return std::vector<T>(begin(), end()); }

private:
    template <bool checked>
    std::size_t offset(std::initializer_list<std::size_t> indices) const {
        if (indices.size() != rank()) {
            throw std::out_of_range(std::to_string(indices.size()) + " indices for an array of rank " +
                                    std::to_string(rank()));
        }
        std::size_t offset = 0;
        if (order() == Order::row_major) {
            std::size_t dimension = 0;
            for (std::size_t index : indices) {
                if (checked) check(index, dimension);
                offset = offset * array_.shape[dimension++] + index;
            }
        } else {
            std::size_t stride = 1;
            std::size_t dimension = 0;
            for (std::size_t index : indices) {
                if (checked) check(index, dimension);
                offset += index * stride;
                stride *= array_.shape[dimension++];
            }
        }
        return offset;
    }

    void check(std::size_t index, std::size_t dimension) const {
        if (index >= array_.shape[dimension]) {
            throw std::out_of_range("index " + std::to_string(index) + " in dimension " + std::to_string(dimension) +
                                    ", which has " + std::to_string(array_.shape[dimension]));
        }
    }

    std::shared_ptr<const void> owner_;
    xmml_array array_;
};

// ------------------------------------------------------------------------------------------------------ reading values

// What a message carries, or a part of it. Keeps the message alive; copying is cheap.
class Data {
public:
    Data(std::shared_ptr<const void> owner, const xmml_value* value) : owner_(std::move(owner)), value_(value) {}

    xmml_kind kind() const noexcept { return xmml_value_kind(value_); }
    bool is_nothing() const noexcept { return kind() == XMML_KIND_NOTHING; }
    const xmml_value* get() const noexcept { return value_; }

    // "a float64 array of shape (3, 4)"
    std::string describe() const { return xmml_describe(value_); }

    // A bool, an integer type, float, double, std::complex<double> or std::string. Checked: nothing is rounded or cut off, except
    // that a real number may be read as float.
    template <class T>
    T as(Site site = Site::here()) const {
        if constexpr (std::is_same_v<T, bool>) {
            int truth = 0;
            detail::call(site, xmml_read_bool, value_, &truth);
            return truth != 0;
        } else if constexpr (detail::is_integer<T>) {
            std::int64_t number = 0;
            detail::call(site, xmml_read_int, value_, &number);
            if constexpr (std::is_unsigned_v<T>) {
                if (number < 0) out_of_range<T>(number);
                if (static_cast<std::uint64_t>(number) > std::numeric_limits<T>::max()) out_of_range<T>(number);
            } else if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max()) {
                out_of_range<T>(number);
            }
            return static_cast<T>(number);
        } else if constexpr (std::is_floating_point_v<T>) {
            double number = 0;
            detail::call(site, xmml_read_double, value_, &number);
            return static_cast<T>(number);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
            double real = 0;
            double imaginary = 0;
            detail::call(site, xmml_read_complex, value_, &real, &imaginary);
            return {real, imaginary};
        } else {
            static_assert(std::is_same_v<T, std::string>,
                          "as<T>: bool, an integer, float, double, std::complex<double>, std::string");
            const char* text = nullptr;
            std::size_t length = 0;
            detail::call(site, xmml_read_text, value_, &text, &length);
            return std::string(text, length);
        }
    }

    // A copy of bytes.
    std::vector<unsigned char> bytes(Site site = Site::here()) const {
        const void* bytes = nullptr;
        std::size_t size = 0;
        detail::call(site, xmml_read_bytes, value_, &bytes, &size);
        const auto* first = static_cast<const unsigned char*>(bytes);
        return std::vector<unsigned char>(first, first + size);
    }

    // An array of T; of this rank, if one is given; in row-major order, unless the other is asked for. Where it lies, without a copy,
    // if the sender's order is the one asked for.
    template <class T>
    View<T> array(std::optional<std::size_t> rank = std::nullopt, Order order = Order::row_major,
                  Site site = Site::here()) const {
        xmml_array array{};
        detail::call(site, xmml_read_array, value_, dtype_of<T>(), rank.value_or(XMML_ANY_RANK),
                     static_cast<xmml_order>(order), &array);
        return View<T>(owner_, array);
    }

    // Lists and maps.
    std::size_t size() const noexcept {
        return kind() == XMML_KIND_LIST ? xmml_list_size(value_) : xmml_map_size(value_);
    }
    bool contains(const std::string& key) const { return (xmml_map_get)(value_, key.c_str()) != nullptr; }
    template <class I, std::enable_if_t<detail::is_integer<I>, int> = 0>
    Data operator[](I index) const {
        const auto i = static_cast<std::size_t>(index);
        const xmml_value* element = kind() == XMML_KIND_LIST ? xmml_list_get(value_, i) : xmml_map_value(value_, i);
        if (element == nullptr) throw std::out_of_range(describe() + " has no element " + std::to_string(index));
        return Data(owner_, element);
    }
    Data operator[](const std::string& key) const {
        const xmml_value* element = xmml_map_get(value_, key.c_str());
        if (element == nullptr) throw std::out_of_range(describe() + " has no key \"" + key + "\"");
        return Data(owner_, element);
    }
    Data operator[](const char* key) const { return (*this)[std::string(key)]; }
    std::vector<std::string> keys() const {
        std::vector<std::string> keys;
        for (std::size_t i = 0; i < xmml_map_size(value_); ++i) keys.emplace_back(xmml_map_key(value_, i));
        return keys;
    }

private:
    template <class T>
    [[noreturn]] static void out_of_range(std::int64_t number) {
        throw TypeError(XMML_ERROR_TYPE, std::to_string(number) + " does not fit into an integer of " +
                                             std::to_string(sizeof(T) * 8) + " bits" +
                                             (std::is_signed_v<T> ? "" : " without sign"));
    }

    std::shared_ptr<const void> owner_;
    const xmml_value* value_;
};

// A message that was received. Copies share it; it lives as long as anything that was read from it.
class Message {
public:
    explicit Message(xmml_message* message) : message_(message, xmml_message_free) {}

    // When it was observed, and when the next one will be; seconds of model time.
    double timestamp() const noexcept { return xmml_message_timestamp(message_.get()); }
    std::optional<double> next_timestamp() const noexcept {
        if (xmml_message_has_next(message_.get()) == 0) return std::nullopt;
        return xmml_message_next_timestamp(message_.get());
    }

    Data data() const { return Data(message_, xmml_message_data(message_.get())); }

    // Shortcuts for data().
    template <class T>
    T as(Site site = Site::here()) const {
        return data().as<T>(site);
    }
    template <class T>
    View<T> array(std::optional<std::size_t> rank = std::nullopt, Order order = Order::row_major,
                  Site site = Site::here()) const {
        return data().array<T>(rank, order, site);
    }

private:
    std::shared_ptr<xmml_message> message_;
};

// ------------------------------------------------------------------------------------------------------ making values

// Something that a message can carry. Numbers, texts, vectors, arrays and received data convert to one, so that one seldom writes it.
class Value {
public:
    Value() : value_(made(xmml_value_nothing())) {}
    Value(std::nullptr_t) : Value() {}
    Value(const Value& other) : value_(made((xmml_value_copy)(other.get()))) {}
    Value(Value&&) noexcept = default;
    Value& operator=(Value other) noexcept {
        value_ = std::move(other.value_);
        return *this;
    }
    ~Value() = default;

    // A number.
    template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
    Value(T number) : value_(of_number(number)) {}
    Value(std::complex<double> number) : value_(made(xmml_value_complex(number.real(), number.imag()))) {}

    Value(const char* text) : value_(made((xmml_value_text)(text))) {}
    Value(const std::string& text) : value_(made((xmml_value_text)(text.c_str()))) {}

    // An array: memory of the program, or the elements of a container.
    template <class T>
    Value(const ArrayRef<T>& array)
        : value_(made((xmml_value_array_order)(dtype_of<T>(), static_cast<xmml_order>(array.order), array.shape.size(),
                                               array.shape.data(), array.data))) {}
    template <class T>
    Value(const View<T>& view)
        : value_(made((xmml_value_array_order)(dtype_of<T>(), static_cast<xmml_order>(view.order()), view.rank(),
                                               view.shape().begin(), view.data()))) {}
    template <class T, class A, std::enable_if_t<detail::is_element<T> && !std::is_same_v<T, bool>, int> = 0>
    Value(const std::vector<T, A>& elements) : value_(of_elements(elements.data(), elements.size())) {}
    Value(const std::vector<bool>& elements) {
        const std::vector<unsigned char> bytes(elements.begin(), elements.end());
        const std::size_t size = bytes.size();
        value_ = made((xmml_value_array)(XMML_BOOL, 1, &size, bytes.data()));
    }
    template <class T, std::size_t size, std::enable_if_t<detail::is_element<T>, int> = 0>
    Value(const std::array<T, size>& elements) : value_(of_elements(elements.data(), size)) {}

    // Received data, passed on; elements of arrays are not copied.
    Value(const Data& data) : value_(made((xmml_value_copy)(data.get()))) {}

    // Value::bytes(pointer, size), Value::list({1, "two", v}), Value::map({{"x", 1.0}, {"name", "inlet"}})
    static Value bytes(const void* bytes, std::size_t size) { return Value(made((xmml_value_bytes)(bytes, size))); }
    static Value list(std::initializer_list<Value> elements = {}) {
        Value list(made(xmml_list_new()));
        for (const Value& element : elements) list.add(element);
        return list;
    }
    static Value map(std::initializer_list<std::pair<std::string, Value>> entries = {}) {
        Value map(made(xmml_map_new()));
        for (const auto& entry : entries) map.set(entry.first, entry.second);
        return map;
    }
    Value& add(Value element, Site site = Site::here()) {
        detail::call(site, xmml_list_add, value_.get(), element.value_.release());
        return *this;
    }
    Value& set(const std::string& key, Value value, Site site = Site::here()) {
        detail::call(site, xmml_map_set, value_.get(), key.c_str(), value.value_.release());
        return *this;
    }

    const xmml_value* get() const noexcept { return value_.get(); }

    // For reading; the value must outlive what is read.
    Data data() const { return Data(nullptr, value_.get()); }

private:
    struct Free {
        void operator()(xmml_value* value) const noexcept { xmml_value_free(value); }
    };
    using Pointer = std::unique_ptr<xmml_value, Free>;

    explicit Value(Pointer value) : value_(std::move(value)) {}

    static Pointer made(xmml_value* value) {
        if (value == nullptr) detail::raise(XMML_ERROR_USAGE);
        return Pointer(value);
    }
    template <class T>
    static Pointer of_elements(const T* elements, std::size_t size) {
        return made((xmml_value_array)(dtype_of<T>(), 1, &size, elements));
    }
    template <class T>
    static Pointer of_number(T number) {
        if constexpr (std::is_same_v<T, bool>) {
            return made(xmml_value_bool(number));
        } else if constexpr (std::is_floating_point_v<T>) {
            return made(xmml_value_double(static_cast<double>(number)));
        } else {
            if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
                if (number > static_cast<T>(std::numeric_limits<std::int64_t>::max())) {
                    return made((xmml_value_array)(XMML_U64, 0, nullptr, &number));
                }
            }
            return made(xmml_value_int(static_cast<std::int64_t>(number)));
        }
    }

    Pointer value_;
};

// ---------------------------------------------------------------------------------------------------------- instances

// A name of a port or parameter: a text that ends with a 0 byte, not copied.
class Name {
public:
    Name(const char* name) noexcept : name_(name) {}
    Name(const std::string& name) noexcept : name_(name.c_str()) {}
    const char* c_str() const noexcept { return name_; }

private:
    const char* name_;
};

namespace detail {

// So that an exception that nobody catches reaches the run with its text: the stack is not unwound then, no destructor runs.
inline std::atomic<xmml_instance*> joined{nullptr};
inline std::terminate_handler previous_handler = nullptr;

inline void tell_and_terminate() {
    xmml_instance* me = joined.exchange(nullptr);
    if (me != nullptr) {
        try {
            if (std::exception_ptr exception = std::current_exception()) std::rethrow_exception(exception);
            (xmml_fail)(me, "std::terminate was called");
        } catch (const RunAborted& aborted) {
            // Nothing is wrong with this program, and the run knows why it stops: one line and no core file.
            std::fprintf(stderr, "%s: %s\n", xmml_name(me), aborted.what());
            std::fflush(nullptr);
            std::_Exit(1);
        } catch (const std::exception& exception) {
            (xmml_fail)(me, exception.what());
        } catch (...) {
            (xmml_fail)(me, "an exception that is no std::exception");
        }
    }
    if (previous_handler != nullptr) previous_handler();
    std::abort();
}

inline void remember_joined(xmml_instance* me) {
    static std::once_flag once;
    std::call_once(once, [] { previous_handler = std::set_terminate(tell_and_terminate); });
    joined.store(me);
}

}  // namespace detail

// The iterations of a run: for (double t : me.steps()).
class Steps {
public:
    struct End {};

    class Iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = double;
        using difference_type = std::ptrdiff_t;
        using pointer = const double*;
        using reference = double;

        Iterator(xmml_instance* me, Site site) : me_(me), site_(site) { ++*this; }
        double operator*() const noexcept { return time_; }
        Iterator& operator++() {
            done_ = detail::call(site_, xmml_step, me_, &time_) == XMML_DONE;
            return *this;
        }
        bool operator!=(End) const noexcept { return !done_; }
        bool operator==(End) const noexcept { return done_; }

    private:
        xmml_instance* me_;
        Site site_;
        double time_ = 0;
        bool done_ = false;
    };

    Steps(xmml_instance* me, Site site) noexcept : me_(me), site_(site) {}
    Iterator begin() const { return Iterator(me_, site_); }
    End end() const noexcept { return {}; }

private:
    xmml_instance* me_;
    Site site_;
};

// A program's membership of a run.
class Instance {
public:
    // Joins the run that this process was started for.
    explicit Instance(Site site = Site::here()) {
        detail::call(site, xmml_join_as, &me_, "c++");
        detail::remember_joined(me_);
    }

    Instance(Instance&& other) noexcept
        : me_(std::exchange(other.me_, nullptr)), exceptions_(other.exceptions_), error_(std::move(other.error_)) {}
    Instance& operator=(Instance&&) = delete;

    // Leaves the run, or tells it that this instance failed if an exception is the reason.
    ~Instance() {
        if (me_ == nullptr) return;
        forget();
        if (std::uncaught_exceptions() > exceptions_) {
            (xmml_fail)(me_, error_.empty() ? "an exception ended the program; its error output may say which"
                                            : error_.c_str());
            xmml_instance_free(&me_);
        } else if ((xmml_leave)(&me_) < 0) {
            std::fprintf(stderr, "xmml: %s\n", xmml_error());
        }
    }

    // Leaves the run: everything sent is still delivered, then the partners learn that no more comes.
    void leave(Site site = Site::here()) {
        if (me_ == nullptr) return;
        forget();
        detail::call(site, xmml_leave, &me_);
    }

    // Tells the run that this instance failed, and why; the run stops.
    void fail(const std::string& text, Site site = Site::here()) { call(site, xmml_fail, me_, text.c_str()); }

    // Tells people something, through the run's log and display.
    void warn(const std::string& text, Site site = Site::here()) { call(site, xmml_warn, me_, text.c_str()); }

    // Whether there is another run to do; waits until that is known.
    bool reuse(Site site = Site::here()) {
        int again = 0;
        call(site, xmml_reuse, me_, &again);
        return again != 0;
    }

    // The iterations of this run, as their model times.
    Steps steps(Site site = Site::here()) { return Steps(me_, site); }

    // Begins the next iteration by hand: its model time, or nothing after the last.
    std::optional<double> next_step(Site site = Site::here()) {
        double time = 0;
        if (call(site, xmml_step, me_, &time) == XMML_DONE) return std::nullopt;
        return time;
    }

    // The name in the model (copies: "c[3]"), the number among the copies from 0, and how many copies there are.
    std::string name() const { return xmml_name(me_); }
    std::uint32_t index() const noexcept { return xmml_index(me_); }
    std::uint32_t count() const noexcept { return xmml_count(me_); }

    // Model time of this iteration and of the beginning of this run; length of a step and of a run; all in seconds.
    double time() const noexcept { return xmml_time(me_); }
    double origin() const noexcept { return xmml_origin(me_); }
    double delta() const noexcept { return xmml_delta(me_); }
    double total() const noexcept { return xmml_total(me_); }

    // A parameter: double, float, an integer type, bool or std::string; numbers are converted to `unit` if one is given.
    template <class T>
    T param(Name name, const char* unit = nullptr, Site site = Site::here()) {
        if constexpr (std::is_same_v<T, bool>) {
            int truth = 0;
            call(site, xmml_param_bool, me_, name.c_str(), &truth);
            return truth != 0;
        } else if constexpr (detail::is_integer<T>) {
            std::int64_t number = 0;
            call(site, xmml_param_int, me_, name.c_str(), unit, &number);
            try {
                return Value(number).data().as<T>(site);
            } catch (const TypeError& error) {
                throw ParameterError(XMML_ERROR_PARAMETER,
                                     this->name() + ": parameter \"" + name.c_str() + "\": " + error.what());
            }
        } else if constexpr (std::is_floating_point_v<T>) {
            double number = 0;
            call(site, xmml_param_double, me_, name.c_str(), unit, &number);
            return static_cast<T>(number);
        } else {
            static_assert(std::is_same_v<T, std::string>, "param<T>: bool, an integer, float, double, std::string");
            const char* text = nullptr;
            call(site, xmml_param_text, me_, name.c_str(), &text);
            return text;
        }
    }

    // The same, or `otherwise` if the model does not set it.
    template <class T>
    T param_or(Name name, T otherwise, const char* unit = nullptr, Site site = Site::here()) {
        return has_param(name) ? param<T>(name, unit, site) : otherwise;
    }
    bool has_param(Name name) const noexcept { return xmml_has_param(me_, name.c_str()) != 0; }

    // Whether the port is coupled in this model; how many copies are at its other end; how its conduits travel.
    bool connected(Name port, Site site = Site::here()) {
        int yes = 0;
        call(site, xmml_connected, me_, port.c_str(), &yes);
        return yes != 0;
    }
    std::uint32_t copies(Name port, Site site = Site::here()) {
        std::uint32_t copies = 0;
        call(site, xmml_copies, me_, port.c_str(), &copies);
        return copies;
    }
    std::string methods(Name port, Site site = Site::here()) {
        const char* text = nullptr;
        call(site, xmml_methods, me_, port.c_str(), &text);
        return text;
    }

    // Declares that nothing is sent on this out port in this iteration (O_i) or run (O_f).
    void skip(Name port, Site site = Site::here()) { call(site, xmml_skip, me_, port.c_str()); }

    // Sends; false if every receiver has left. Time stamps follow from the loop unless given; std::nullopt as the next one says that
    // this is the last. send_to addresses one copy of a multiplied receiver; send gives every copy the message.
    bool send(Name port, const Value& data, Site site = Site::here()) {
        return queued(call(site, xmml_send, me_, port.c_str(), data.get()));
    }
    bool send(Name port, const Value& data, double timestamp, Site site = Site::here()) {
        return queued(call(site, xmml_send_at, me_, port.c_str(), data.get(), timestamp, XMML_DEFAULT_TIME));
    }
    bool send(Name port, const Value& data, double timestamp, std::optional<double> next_timestamp,
              Site site = Site::here()) {
        return queued(
            call(site, xmml_send_at, me_, port.c_str(), data.get(), timestamp, next_timestamp.value_or(XMML_NO_TIME)));
    }
    bool send_to(Name port, std::uint32_t to, const Value& data, Site site = Site::here()) {
        return queued(call(site, xmml_send_to, me_, port.c_str(), to, data.get()));
    }
    bool send_to(Name port, std::uint32_t to, const Value& data, double timestamp, Site site = Site::here()) {
        return queued(call(site, xmml_send_to_at, me_, port.c_str(), to, data.get(), timestamp, XMML_DEFAULT_TIME));
    }
    bool send_to(Name port, std::uint32_t to, const Value& data, double timestamp, std::optional<double> next_timestamp,
                 Site site = Site::here()) {
        return queued(call(site, xmml_send_to_at, me_, port.c_str(), to, data.get(), timestamp,
                           next_timestamp.value_or(XMML_NO_TIME)));
    }

    // Waits for the next message. That the sender has ended is an EndedError.
    Message receive(Name port, Site site = Site::here()) {
        xmml_message* message = nullptr;
        call(site, xmml_receive, me_, port.c_str(), &message);
        return Message(message);
    }
    // From one copy of a multiplied sender.
    Message receive_of(Name port, std::uint32_t of, Site site = Site::here()) {
        xmml_message* message = nullptr;
        call(site, xmml_receive_of, me_, port.c_str(), of, &message);
        return Message(message);
    }
    // One from every copy; a single one if the sender is not multiplied.
    std::vector<Message> receive_all(Name port, Site site = Site::here()) {
        std::vector<Message> messages;
        const std::uint32_t count = copies(port, site);
        if (count == 0) messages.push_back(receive(port, site));
        for (std::uint32_t of = 0; of < count; ++of) messages.push_back(receive_of(port, of, site));
        return messages;
    }
    // Nothing when the sender has ended.
    std::optional<Message> receive_or_end(Name port, Site site = Site::here()) {
        xmml_message* message = nullptr;
        if (call(site, xmml_receive_or_end, me_, port.c_str(), &message) == XMML_ENDED) return std::nullopt;
        return Message(message);
    }
    std::optional<Message> receive_or_end_of(Name port, std::uint32_t of, Site site = Site::here()) {
        xmml_message* message = nullptr;
        if (call(site, xmml_receive_or_end_of, me_, port.c_str(), of, &message) == XMML_ENDED) return std::nullopt;
        return Message(message);
    }
    // Nothing when no message came in time.
    std::optional<Message> receive_for(Name port, std::chrono::duration<double> timeout, Site site = Site::here()) {
        xmml_message* message = nullptr;
        if (call(site, xmml_receive_timeout, me_, port.c_str(), timeout.count(), &message) == XMML_TIMED_OUT)
            return std::nullopt;
        return Message(message);
    }
    // Whether a message waits, so that receive returns at once.
    bool has_message(Name port, Site site = Site::here()) {
        int yes = 0;
        call(site, xmml_has_message, me_, port.c_str(), &yes);
        return yes != 0;
    }

    // What an instance by itself (see Alone) has sent on a port so far.
    std::vector<Message> outputs(Name port, Site site = Site::here()) {
        std::vector<Message> messages;
        xmml_message* message = nullptr;
        while (call(site, xmml_output, me_, port.c_str(), messages.size(), &message) == XMML_OK)
            messages.emplace_back(message);
        return messages;
    }

    // For calls of the C API; null after leave().
    xmml_instance* get() const noexcept { return me_; }

private:
    friend class Alone;
    explicit Instance(xmml_instance* me) noexcept : me_(me) {}

    template <class Function, class... Arguments>
    xmml_status call(const Site& site, Function function, Arguments&&... arguments) {
        try {
            return detail::call(site, function, std::forward<Arguments>(arguments)...);
        } catch (const Error& error) {
            error_ = error.what();
            throw;
        }
    }
    static bool queued(xmml_status status) noexcept { return status != XMML_RECEIVER_GONE; }
    void forget() noexcept {
        xmml_instance* me = me_;
        detail::joined.compare_exchange_strong(me, nullptr);
    }

    xmml_instance* me_ = nullptr;
    int exceptions_ = std::uncaught_exceptions();
    std::string error_;
};

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
