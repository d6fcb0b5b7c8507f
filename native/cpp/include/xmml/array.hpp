// Arrays: their element types, memory to be sent, and views of what was received. Included by xmml.hpp.
#ifndef XMML_ARRAY_HPP
#define XMML_ARRAY_HPP

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include "error.hpp"

namespace xmml {

namespace detail {

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

namespace detail {

// Where the element at these indices lies, and that there are as many indices as the array has dimensions.
template <bool checked>
std::size_t place(std::initializer_list<std::size_t> indices, const std::size_t* shape, std::size_t rank, Order order) {
    if (indices.size() != rank) {
        throw std::out_of_range(std::to_string(indices.size()) + " indices for an array of rank " +
                                std::to_string(rank));
    }
    std::size_t place = 0;
    std::size_t stride = 1;
    std::size_t dimension = 0;
    for (const std::size_t index : indices) {
        const std::size_t extent = shape[dimension];
        if (checked && index >= extent) {
            throw std::out_of_range("index " + std::to_string(index) + " in dimension " + std::to_string(dimension) +
                                    ", which has " + std::to_string(extent));
        }
        if (order == Order::row_major) {
            place = place * extent + index;
        } else {
            place += index * stride;
            stride *= extent;
        }
        ++dimension;
    }
    return place;
}

// The extents as what std::mdspan and others of fixed rank are made from.
template <std::size_t rank>
std::array<std::size_t, rank> extents(const std::size_t* shape, std::size_t found) {
    if (rank != found) {
        throw std::out_of_range("extents of rank " + std::to_string(rank) + " of an array of rank " +
                                std::to_string(found));
    }
    std::array<std::size_t, rank> extents{};
    for (std::size_t i = 0; i < rank; ++i) extents[i] = shape[i];
    return extents;
}

}  // namespace detail

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

// Memory for an array that is handed over when it is sent: receivers on this host get it without a copy. From Instance::loan. After the
// send it belongs to the receiver and must not be touched any more; one that is not sent goes back by itself.
template <class T>
class Loan {
public:
    Loan(xmml_instance* me, T* data, std::vector<std::size_t> shape, Order order) noexcept
        : me_(me), data_(data), shape_(std::move(shape)), order_(order) {}
    Loan(Loan&& other) noexcept
        : me_(other.me_),
          data_(std::exchange(other.data_, nullptr)),
          shape_(std::move(other.shape_)),
          order_(other.order_) {}
    Loan& operator=(Loan&& other) noexcept {
        std::swap(me_, other.me_);
        std::swap(data_, other.data_);
        std::swap(shape_, other.shape_);
        std::swap(order_, other.order_);
        return *this;
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() {
        if (data_ != nullptr) xmml_give_back(me_, data_);  // an error when it was sent, and rightly so
    }

    T* data() const noexcept { return data_; }
    std::size_t size() const noexcept {
        std::size_t size = 1;
        for (std::size_t extent : shape_) size *= extent;
        return size;
    }
    const std::vector<std::size_t>& shape() const noexcept { return shape_; }
    T* begin() const noexcept { return data_; }
    T* end() const noexcept { return data_ + size(); }
    T& operator[](std::size_t i) const noexcept { return data_[i]; }
    std::size_t rank() const noexcept { return shape_.size(); }
    Order order() const noexcept { return order_; }

    // The element at these indices, one per dimension. The number of indices is checked, their values are not; at() checks them too.
    template <class... Indices>
    T& operator()(Indices... indices) const {
        return data_[detail::place<false>({static_cast<std::size_t>(indices)...}, shape_.data(), rank(), order_)];
    }
    template <class... Indices>
    T& at(Indices... indices) const {
        return data_[detail::place<true>({static_cast<std::size_t>(indices)...}, shape_.data(), rank(), order_)];
    }
    template <std::size_t rank>
    std::array<std::size_t, rank> extents() const {
        return detail::extents<rank>(shape_.data(), shape_.size());
    }
#if __cplusplus >= 202002L
    std::span<T> span() const noexcept { return {data_, size()}; }
#endif

    // For a send.
    ArrayRef<T> array() const { return {data_, shape_, order_}; }

private:
    xmml_instance* me_;
    T* data_;
    std::vector<std::size_t> shape_;
    Order order_;
};

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

// With the shape of another array: xmml::array(pointer, view.shape()).
template <class T>
ArrayRef<std::remove_cv_t<T>> array(T* data, const Shape& shape, Order order = Order::row_major) {
    return {data, std::vector<std::size_t>(shape.begin(), shape.end()), order};
}

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
        return data()[detail::place<false>({static_cast<std::size_t>(indices)...}, array_.shape, rank(), order())];
    }

    // The same with the indices checked: std::out_of_range.
    template <class... Indices>
    const T& at(Indices... indices) const {
        return data()[detail::place<true>({static_cast<std::size_t>(indices)...}, array_.shape, rank(), order())];
    }

    std::vector<T> to_vector() const { return std::vector<T>(begin(), end()); }

    // The extents of an array of this rank (else std::out_of_range), for views of other libraries:
    // std::mdspan(view.data(), view.extents<2>()), of a column-major array with std::layout_left.
    template <std::size_t rank>
    std::array<std::size_t, rank> extents() const {
        return detail::extents<rank>(array_.shape, array_.rank);
    }

    // How far apart in memory, in elements, neighbours in dimension i are.
    std::size_t stride(std::size_t i) const noexcept {
        std::size_t stride = 1;
        if (order() == Order::row_major) {
            for (std::size_t j = rank(); j-- > i + 1;) stride *= extent(j);
        } else {
            for (std::size_t j = 0; j < i; ++j) stride *= extent(j);
        }
        return stride;
    }

#if __cplusplus >= 202002L
    // All elements as they lie; the view must outlive it.
    std::span<const T> span() const noexcept { return {data(), size()}; }
#endif

private:
    std::shared_ptr<const void> owner_;
    xmml_array array_;
};

}  // namespace xmml

#endif
