// The peer of the cross-language suite in C++: sends every case on every out port, or describes what arrives. See README.md.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include <xmml.hpp>

namespace {

// ------------------------------------------------------------------------------------------------------------ elements

template <class F>
F real_number(std::uint64_t m) {
    using Limits = std::numeric_limits<F>;
    switch (m) {
        case 0: return F(-0.0);
        case 1: return Limits::infinity();
        case 2: return -Limits::infinity();
        case 3: return Limits::quiet_NaN();
        case 4: return Limits::denorm_min();
        case 5: return Limits::max();
        default: return (F(m) - 4096) / 64 + (sizeof(F) == 8 ? std::ldexp(F(m), -40) : F(0));
    }
}

// Element number n, counted with the last index fastest, of array number `seed`.
template <class T>
T element(std::uint64_t n, std::uint64_t seed) {
    const std::uint64_t m = (n % 8191 * 131 + seed * 29) % 8191;
    if constexpr (std::is_same_v<T, bool>) {
        return (m & 1) != 0;
    } else if constexpr (std::is_floating_point_v<T>) {
        return real_number<T>(m);
    } else if constexpr (xmml::detail::is_complex<T>::value) {
        using F = typename T::value_type;
        return {real_number<F>(m), real_number<F>((m * 7 + 3) % 8191)};
    } else {
        using U = std::make_unsigned_t<T>;
        const std::uint64_t bits = sizeof(T) == 1   ? m
                                   : sizeof(T) == 2 ? m * 8
                                   : sizeof(T) == 4 ? m * 524288 + m
                                                    : (m << 51) + m;
        return std::is_signed_v<T> ? static_cast<T>(static_cast<U>(bits) ^ (U(1) << (8 * sizeof(T) - 1)))
                                   : static_cast<T>(bits);
    }
}

// The elements of array number `seed`, which has `size`; they are the same again after so many.
constexpr std::size_t period = 8191;
template <class T>
std::array<T, period> elements(std::size_t size, std::uint64_t seed) {
    std::array<T, period> known{};
    for (std::size_t n = 0; n < std::min(size, period); ++n) known[n] = element<T>(n, seed);
    return known;
}

// Calls f with a T for the element type of that name.
template <class F>
void with_type(const std::string& name, F f) {
    if (name == "bool") f(bool());
    else if (name == "int8") f(std::int8_t());
    else if (name == "int16") f(std::int16_t());
    else if (name == "int32") f(std::int32_t());
    else if (name == "int64") f(std::int64_t());
    else if (name == "uint8") f(std::uint8_t());
    else if (name == "uint16") f(std::uint16_t());
    else if (name == "uint32") f(std::uint32_t());
    else if (name == "uint64") f(std::uint64_t());
    else if (name == "float32") f(float());
    else if (name == "float64") f(double());
    else if (name == "complex64") f(std::complex<float>());
    else if (name == "complex128") f(std::complex<double>());
    else throw std::runtime_error("no such type: " + name);
}

using Index = std::array<std::size_t, 7>;

// The indices of element number n, last index fastest.
Index indices(std::size_t n, const std::vector<std::size_t>& shape) {
    Index index{};
    for (std::size_t i = shape.size(); i-- > 0; n /= shape[i]) index[i] = n % shape[i];
    return index;
}

// a(i, j, ...) of a view of any rank.
template <class T, std::size_t... dimensions>
const T& at(const xmml::View<T>& view, const Index& index, std::index_sequence<dimensions...>) {
    return view.at(index[dimensions]...);
}
template <class T>
const T& at(const xmml::View<T>& view, const Index& index) {
    switch (view.rank()) {
        case 0: return at(view, index, std::make_index_sequence<0>());
        case 1: return at(view, index, std::make_index_sequence<1>());
        case 2: return at(view, index, std::make_index_sequence<2>());
        case 3: return at(view, index, std::make_index_sequence<3>());
        case 4: return at(view, index, std::make_index_sequence<4>());
        case 5: return at(view, index, std::make_index_sequence<5>());
        case 6: return at(view, index, std::make_index_sequence<6>());
        default: return at(view, index, std::make_index_sequence<7>());
    }
}

unsigned long adler(const unsigned char* bytes, std::size_t size) {
    unsigned long a = 1;
    unsigned long b = 0;
    for (std::size_t i = 0; i < size;) {
        for (const std::size_t end = std::min(size, i + 4096); i < end; ++i) {
            a += bytes[i];
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}

template <class To, class From>
To bits_of(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

// ------------------------------------------------------------------------------------------------------------- writing

class Writer {
public:
    explicit Writer(const std::string& file) : cases_(file) {}

    void write_case(xmml::Instance& me, const std::vector<std::string>& languages) {
        number_ = std::stoul(token());
        arrays_ = 0;
        const double time = bits(token());
        const std::string next = token();
        const xmml::Value value = value_of(token());
        for (const std::string& language : languages) {
            const std::string port = "to_" + language;
            const auto send = [&](auto... times) {
                return number_ % 2 == 1 ? me.out(port).send(value, times...) : me.send(port, value, times...);
            };
            if (next == "-") send(time);
            else if (next == "none") send(time, std::nullopt);
            else send(time, bits(next));
        }
    }

private:
    std::string token() {
        std::string token;
        if (!(cases_ >> token)) throw std::runtime_error("the cases end too early");
        return token;
    }
    static double bits(const std::string& hex) { return bits_of<double>(std::uint64_t(std::stoull(hex, nullptr, 16))); }
    static std::string unhex(const std::string& hex) {
        std::string bytes;
        for (std::size_t i = 1; i < hex.size(); i += 2) bytes.push_back(char(std::stoi(hex.substr(i, 2), nullptr, 16)));
        return bytes;
    }

    xmml::Value value_of(const std::string& kind) {
        if (kind == "nothing") return nullptr;
        if (kind == "bool") return token() == "1";
        if (kind == "int") return std::stoll(token());
        if (kind == "double") return bits(token());
        if (kind == "complex") {
            const double real = bits(token());
            return std::complex<double>(real, bits(token()));
        }
        if (kind == "text") return unhex(token());
        if (kind == "bytes") {
            const std::string bytes = unhex(token());
            return xmml::Value::bytes(bytes.data(), bytes.size());
        }
        if (kind == "array") return array_value();
        if (kind == "[") {
            auto list = xmml::Value::list();
            for (std::string item = token(); item != "]"; item = token()) list.add(value_of(item));
            return list;
        }
        if (kind != "{") throw std::runtime_error("no such kind: " + kind);
        auto map = xmml::Value::map();
        for (std::string key = token(); key != "}"; key = token()) map.set(unhex(key), value_of(token()));
        return map;
    }

    xmml::Value array_value() {
        const std::size_t seed = number_ + 100 * arrays_++;
        const std::string type = token();
        const bool row = token() == "row";
        std::vector<std::size_t> shape(std::stoul(token()));
        std::size_t size = 1;
        for (std::size_t& extent : shape) size *= extent = std::stoul(token());
        xmml::Value value;
        with_type(type, [&](auto zero) {
            using T = decltype(zero);
            std::unique_ptr<T[]> data(new T[size]);
            const auto known = elements<T>(size, seed);
            for (std::size_t n = 0; n < size; ++n) {
                std::size_t place = n;
                if (!row) {
                    const auto index = indices(n, shape);
                    place = 0;
                    for (std::size_t i = shape.size(); i-- > 0;) place = place * shape[i] + index[i];
                }
                data[place] = known[n % period];
            }
            value = xmml::array(data.get(), shape, row ? xmml::Order::row_major : xmml::Order::column_major);
        });
        return value;
    }

    std::ifstream cases_;
    std::size_t number_ = 0;
    std::size_t arrays_ = 0;
};

// ------------------------------------------------------------------------------------------------------------- reading

class Reader {
public:
    void read_case(xmml::Instance& me, const std::vector<std::string>& languages) {
        for (const std::string& language : languages) {
            const std::string port = "from_" + language;
            const xmml::Message message = number_ % 2 == 1 ? me.in(port).receive() : me.receive(port);
            arrays_ = 0;
            text_ = std::to_string(number_) + hex(message.timestamp()) +
                    (message.next_timestamp() ? hex(*message.next_timestamp()) : " none");
            describe(message.data());
            std::ofstream(port, std::ios::app) << text_ << '\n';
        }
        ++number_;
    }

private:
    static std::string hex(double value) {
        char text[20];
        std::snprintf(text, sizeof text, " %016llx", static_cast<unsigned long long>(bits_of<std::uint64_t>(value)));
        return text;
    }
    template <class Bytes>
    static std::string hex(const Bytes& bytes) {
        std::string text = " x";
        char digits[3];
        for (const auto byte : bytes) {
            std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
            text += digits;
        }
        return text;
    }

    void describe(const xmml::Data& data) {
        switch (data.kind()) {
            case XMML_KIND_NOTHING: text_ += " nothing"; break;
            case XMML_KIND_BOOL: text_ += data.as<bool>() ? " bool 1" : " bool 0"; break;
            case XMML_KIND_INT: text_ += " int " + std::to_string(data.as<std::int64_t>()); break;
            case XMML_KIND_DOUBLE: text_ += " double" + hex(data.as<double>()); break;
            case XMML_KIND_COMPLEX: {
                const auto number = data.as<std::complex<double>>();
                text_ += " complex" + hex(number.real()) + hex(number.imag());
                break;
            }
            case XMML_KIND_TEXT: text_ += " text" + hex(data.as<std::string>()); break;
            case XMML_KIND_BYTES: text_ += " bytes" + hex(data.bytes()); break;
            case XMML_KIND_ARRAY:
                with_type(xmml_dtype_name(data.dtype()), [&](auto zero) { describe_array<decltype(zero)>(data); });
                break;
            case XMML_KIND_LIST:
                text_ += " [";
                for (const xmml::Data& item : data) describe(item);
                text_ += " ]";
                break;
            case XMML_KIND_MAP:
                text_ += " {";
                for (const std::string& key : data.keys()) {
                    text_ += hex(key);
                    describe(data[key]);
                }
                text_ += " }";
        }
    }

    template <class T>
    void describe_array(const xmml::Data& data) {
        const std::size_t seed = number_ + 100 * arrays_++;
        const xmml::View<T> view = data.array<T>(std::nullopt, data.order());
        const std::string order = view.order() == xmml::Order::row_major ? " row" : " column";
        text_ += " array " + std::string(xmml_dtype_name(xmml::dtype_of<T>())) + order + order + " " +
                 std::to_string(view.rank());
        for (const std::size_t extent : view.shape()) text_ += " " + std::to_string(extent);
        char sum[10];
        const auto* bytes = reinterpret_cast<const unsigned char*>(view.data());
        std::snprintf(sum, sizeof sum, " %08lx", adler(bytes, view.size() * sizeof(T)));
        text_ += sum;
        const std::vector<std::size_t> shape(view.shape().begin(), view.shape().end());
        const auto known = elements<T>(view.size(), seed);
        for (std::size_t n = 0; n < view.size(); ++n) {
            if (std::memcmp(&known[n % period], &at(view, indices(n, shape)), sizeof(T)) != 0) {
                text_ += " wrong@" + std::to_string(n);
                return;
            }
        }
    }

    std::size_t number_ = 0;
    std::size_t arrays_ = 0;
    std::string text_;
};

}  // namespace

int main() {
    xmml::Instance me;
    std::istringstream words(me.param<std::string>("languages"));
    std::vector<std::string> languages;
    for (std::string word; words >> word;) languages.push_back(word);
    const bool writes = me.name()[0] == 'w';
    Writer writer(me.param<std::string>("cases"));
    Reader reader;
    while (me.reuse())
        for (double t : me.steps()) {
            static_cast<void>(t);
            if (writes) writer.write_case(me, languages);
            else reader.read_case(me, languages);
        }
}
