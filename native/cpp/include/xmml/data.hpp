// What messages carry: reading it, and making it. Included by xmml.hpp.
#ifndef XMML_DATA_HPP
#define XMML_DATA_HPP

#include <array>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "array.hpp"

namespace xmml {

namespace detail {

template <class T>
struct is_vector : std::false_type {};
template <class T, class A>
struct is_vector<std::vector<T, A>> : std::true_type {};

}  // namespace detail

// What a message carries, or a part of it. Keeps the message alive; copying is cheap.
class Data {
public:
    Data(std::shared_ptr<const void> owner, const xmml_value* value) : owner_(std::move(owner)), value_(value) {}

    xmml_kind kind() const noexcept { return xmml_value_kind(value_); }
    bool is_nothing() const noexcept { return kind() == XMML_KIND_NOTHING; }
    const xmml_value* get() const noexcept { return value_; }

    // "a float64 array of shape (3, 4)"
    std::string describe() const { return xmml_describe(value_); }

    // The element type of an array, and how its elements lie; a TypeError for anything else.
    xmml_dtype dtype(Site site = Site::here()) const { return any_array(site).dtype; }
    Order order(Site site = Site::here()) const { return static_cast<Order>(any_array(site).order); }

    // A bool, an integer type, float, double, std::complex of these, std::string, or a std::vector of elements (a copy of an array of
    // rank 1). Checked: nothing is rounded or cut off, except that numbers may be read in single precision.
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
        } else if constexpr (detail::is_complex<T>::value) {
            using Part = typename T::value_type;
            double real = 0;
            double imaginary = 0;
            detail::call(site, xmml_read_complex, value_, &real, &imaginary);
            return {static_cast<Part>(real), static_cast<Part>(imaginary)};
        } else if constexpr (detail::is_vector<T>::value) {
            return array<typename T::value_type>(1, Order::row_major, site).to_vector();
        } else {
            static_assert(std::is_same_v<T, std::string>,
                          "as<T>: bool, an integer, float, double, std::complex, std::string, std::vector");
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

    // Lists and maps. A loop over one goes over its elements, of a map over what its keys() hold.
    class Iterator;
    Iterator begin() const noexcept;
    Iterator end() const noexcept;
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
    xmml_array any_array(const Site& site) const {
        xmml_array array{};
        detail::call(site, xmml_read_any_array, value_, XMML_ANY_ORDER, &array);
        return array;
    }
    template <class T>
    [[noreturn]] static void out_of_range(std::int64_t number) {
        throw TypeError(XMML_ERROR_TYPE, std::to_string(number) + " does not fit into an integer of " +
                                             std::to_string(sizeof(T) * 8) + " bits" +
                                             (std::is_signed_v<T> ? "" : " without sign"));
    }

    std::shared_ptr<const void> owner_;
    const xmml_value* value_;
};

class Data::Iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Data;
    using difference_type = std::ptrdiff_t;
    using pointer = const Data*;
    using reference = Data;

    Iterator(const Data& whole, std::size_t i) noexcept : whole_(&whole), i_(i) {}
    Data operator*() const { return (*whole_)[i_]; }
    Iterator& operator++() noexcept {
        ++i_;
        return *this;
    }
    bool operator==(const Iterator& other) const noexcept { return i_ == other.i_; }
    bool operator!=(const Iterator& other) const noexcept { return i_ != other.i_; }

private:
    const Data* whole_;
    std::size_t i_;
};

inline Data::Iterator Data::begin() const noexcept { return {*this, 0}; }
inline Data::Iterator Data::end() const noexcept { return {*this, size()}; }

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

    // Of an object that was taken: the value of an attribute, lists as arrays, times as texts; nothing if the object does not have it.
    std::optional<Data> attribute(const std::string& name, Site site = Site::here()) const {
        const xmml_value* value = nullptr;
        detail::call(site, xmml_attribute, message_.get(), name.c_str(), &value);
        if (value == nullptr) return std::nullopt;
        return Data(message_, value);
    }

    // The names of the attributes that it has: those of its datatype, then sys.*; none for a message that is no object.
    std::vector<std::string> attributes() const {
        std::vector<std::string> names;
        const std::size_t count = xmml_attribute_count(message_.get());
        for (std::size_t i = 0; i < count; ++i) names.emplace_back(xmml_attribute_name(message_.get(), i));
        return names;
    }

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
    Value(std::complex<float> number) : Value(std::complex<double>(number)) {}

    Value(const char* text) : value_(made((xmml_value_text)(text))) {}
    Value(const std::string& text) : Value(std::string_view(text)) {}
    Value(std::string_view text) : value_(made((xmml_value_text_of)(text.data(), text.size()))) {}

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

#if __cplusplus >= 202002L
    template <class T, std::size_t extent>
    Value(std::span<T, extent> elements) : value_(of_elements(elements.data(), elements.size())) {}
#endif

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
    friend class Sendable;
    friend class Instance;

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
        return made((xmml_value_array)(dtype_of<std::remove_cv_t<T>>(), 1, &size, elements));
    }
    template <class T>
    static Value lent(const T* elements, std::size_t rank, const std::size_t* shape, Order order = Order::row_major) {
        return Value(
            made((xmml_value_lent_array)(dtype_of<T>(), static_cast<xmml_order>(order), rank, shape, elements)));
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

// What send takes: everything that converts to a Value. Arrays are sent from where they lie, which is why this is not for keeping.
class Sendable {
public:
    Sendable() : given_(&nothing()) {}
    Sendable(std::nullptr_t) : Sendable() {}
    Sendable(const Value& value) : given_(&value) {}
    template <class T, std::enable_if_t<std::is_convertible_v<const T&, Value> && !std::is_same_v<T, Value>, int> = 0>
    Sendable(const T& data) : made_(data) {}
    template <class T>
    Sendable(const ArrayRef<T>& array)
        : made_(Value::lent(array.data, array.shape.size(), array.shape.data(), array.order)) {}
    template <class T>
    Sendable(const Loan<T>& loan) : Sendable(loan.array()) {}
    template <class T>
    Sendable(const View<T>& view) : made_(Value::lent(view.data(), view.rank(), view.shape().begin(), view.order())) {}
    template <class T, class A, std::enable_if_t<detail::is_element<T> && !std::is_same_v<T, bool>, int> = 0>
    Sendable(const std::vector<T, A>& elements) : made_(of_elements(elements.data(), elements.size())) {}
    template <class T, std::size_t size, std::enable_if_t<detail::is_element<T>, int> = 0>
    Sendable(const std::array<T, size>& elements) : made_(of_elements(elements.data(), size)) {}
#if __cplusplus >= 202002L
    template <class T, std::size_t extent>
    Sendable(const std::span<T, extent>& elements) : made_(of_elements(elements.data(), elements.size())) {}
#endif

    const xmml_value* get() const noexcept { return given_ == nullptr ? made_.get() : given_->get(); }

private:
    template <class T>
    static Value of_elements(const T* elements, std::size_t size) {
        return Value::lent(elements, 1, &size);
    }

    // Never destroyed, so that it is there for who sends at the very end.
    static const Value& nothing() {
        static const Value& nothing = *new Value();
        return nothing;
    }

    Value made_{Value::Pointer()};
    const Value* given_ = nullptr;
};

}  // namespace xmml

#endif
