// Reads a frame as docs/protocol.md describes it, with nothing of the implementation, and prints what it means as JSON. What a message
// carries is made and read back with the C++ API.
#include <cstring>
#include <iostream>
#include <sstream>
#include <xmml.hpp>

namespace {

using Bytes = std::vector<unsigned char>;

Bytes from_hex(const std::string& hex) {
    Bytes bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes.push_back(static_cast<unsigned char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

// Takes numbers and texts from the front of bytes.
class Reader {
public:
    Reader(const unsigned char* first, std::size_t size) : at_(first), end_(first + size) {}

    const unsigned char* take(std::size_t size) {
        if (static_cast<std::size_t>(end_ - at_) < size) throw std::runtime_error("the frame ends too early");
        return std::exchange(at_, at_ + size);
    }
    template <class T>
    T number() {
        T number;
        std::memcpy(&number, take(sizeof number), sizeof number);
        return number;
    }
    std::string text(std::size_t size) { return {reinterpret_cast<const char*>(take(size)), size}; }
    void up_to_a_multiple_of_8(std::size_t written) { take((8 - written % 8) % 8); }
    std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

private:
    const unsigned char* at_;
    const unsigned char* end_;
};

xmml::Value array(Reader& descriptor, Reader payload, unsigned dtype, unsigned order, unsigned rank) {
    std::vector<std::size_t> shape(rank);
    std::size_t size = xmml_dtype_size(static_cast<xmml_dtype>(dtype));
    for (auto& extent : shape) size *= extent = static_cast<std::size_t>(descriptor.number<std::uint64_t>());
    payload.take(static_cast<std::size_t>(descriptor.number<std::uint64_t>()));
    const unsigned char* elements = payload.take(size);
    const auto view = [&](auto type) {
        using Type = decltype(type);
        std::vector<Type> aligned(size / sizeof(Type) + 1);
        if (size > 0) std::memcpy(aligned.data(), elements, size);
        return xmml::Value(xmml::array(aligned.data(), shape, static_cast<xmml::Order>(order)));
    };
    switch (dtype) {
        case XMML_I16: return view(std::int16_t());
        case XMML_I32: return view(std::int32_t());
        case XMML_F32: return view(float());
        case XMML_F64: return view(double());
        case XMML_BOOL: {
            bool truths[8] = {};
            for (std::size_t i = 0; i < size; ++i) truths[i] = elements[i] != 0;
            return xmml::array(truths, shape);
        }
        default: throw std::runtime_error("no vector has this element type");
    }
}

xmml::Value node(Reader& descriptor, const Reader& payload) {
    const unsigned char* head = descriptor.take(8);
    const auto count = [&] { return static_cast<std::size_t>(descriptor.number<std::uint64_t>()); };
    const auto bytes = [&] {
        Reader all = payload;
        all.take(count());
        return all.text(count());
    };
    switch (head[0]) {
        case 0: return nullptr;
        case 1: return head[1] == 1;
        case 2: return descriptor.number<std::int64_t>();
        case 3: return descriptor.number<double>();
        case 4: {
            const auto real = descriptor.number<double>();
            return std::complex<double>(real, descriptor.number<double>());
        }
        case 5: return bytes();
        case 6: {
            const std::string read = bytes();
            return xmml::Value::bytes(read.data(), read.size());
        }
        case 7: return array(descriptor, payload, head[1], head[2], head[3]);
        case 8: {
            auto list = xmml::Value::list();
            for (std::size_t left = count(); left > 0; --left) list.add(node(descriptor, payload));
            return list;
        }
        case 9: {
            auto map = xmml::Value::map();
            for (std::size_t left = count(); left > 0; --left) {
                const auto length = descriptor.number<std::uint32_t>();
                const std::string key = descriptor.text(length);
                descriptor.up_to_a_multiple_of_8(4 + length);
                map.set(key, node(descriptor, payload));
            }
            return map;
        }
        default: throw std::runtime_error("unknown node");
    }
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }

std::string hexadecimal(const Bytes& bytes) {
    std::ostringstream hex;
    hex << std::hex;
    for (unsigned byte : bytes) hex << byte / 16 << byte % 16;
    return hex.str();
}

template <class T>
std::string described(const xmml::View<T>& view) {
    std::ostringstream json;
    json << R"({"array":{"dtype":)" << quoted(xmml_dtype_name(xmml::dtype_of<T>())) << R"(,"order":)"
         << quoted(view.order() == xmml::Order::row_major ? "row" : "column") << R"(,"shape":[)";
    for (std::size_t i = 0; i < view.rank(); ++i) json << (i > 0 ? "," : "") << view.extent(i);
    json << R"(],"elements":[)";
    for (std::size_t i = 0; i < view.size(); ++i) json << (i > 0 ? "," : "") << static_cast<double>(view[i]);
    json << "]}}";
    return json.str();
}

// The order in which the elements stand is part of the meaning.
std::string described_array(const xmml::Data& data) {
    xmml_array array{};
    if (xmml_read_any_array(data.get(), XMML_ANY_ORDER, &array) != XMML_OK) throw std::runtime_error(xmml_error());
    const auto order = static_cast<xmml::Order>(array.order);
    switch (array.dtype) {
        case XMML_BOOL: return described(data.array<bool>(array.rank, order));
        case XMML_I16: return described(data.array<std::int16_t>(array.rank, order));
        case XMML_I32: return described(data.array<std::int32_t>(array.rank, order));
        case XMML_F32: return described(data.array<float>(array.rank, order));
        case XMML_F64: return described(data.array<double>(array.rank, order));
        default: throw std::runtime_error("no vector has this element type");
    }
}

std::string described(const xmml::Data& data) {
    std::ostringstream json;
    switch (data.kind()) {
        case XMML_KIND_NOTHING: return R"({"nothing":null})";
        case XMML_KIND_BOOL: return data.as<bool>() ? R"({"bool":true})" : R"({"bool":false})";
        case XMML_KIND_INT: json << R"({"int":)" << data.as<std::int64_t>() << '}'; break;
        case XMML_KIND_DOUBLE: json << R"({"float":)" << data.as<double>() << '}'; break;
        case XMML_KIND_COMPLEX: {
            const auto number = data.as<std::complex<double>>();
            json << R"({"complex":[)" << number.real() << ',' << number.imag() << "]}";
            break;
        }
        case XMML_KIND_TEXT: return R"({"text":)" + quoted(data.as<std::string>()) + '}';
        case XMML_KIND_BYTES: return R"({"bytes":)" + quoted(hexadecimal(data.bytes())) + '}';
        case XMML_KIND_ARRAY: return described_array(data);
        case XMML_KIND_LIST:
            json << R"({"list":[)";
            for (std::size_t i = 0; i < data.size(); ++i) json << (i > 0 ? "," : "") << described(data[i]);
            json << "]}";
            break;
        case XMML_KIND_MAP: {
            json << R"({"map":[)";
            const auto keys = data.keys();
            for (std::size_t i = 0; i < keys.size(); ++i) {
                json << (i > 0 ? "," : "") << '[' << quoted(keys[i]) << ',' << described(data[keys[i]]) << ']';
            }
            json << "]}";
            break;
        }
    }
    return json.str();
}

std::string meaning(const Bytes& frame) {
    Reader reader(frame.data(), frame.size());
    const auto length = reader.number<std::uint64_t>();
    const auto kind = reader.number<std::uint8_t>();
    const auto version = reader.number<std::uint8_t>();
    const auto flags = reader.number<std::uint16_t>();
    const auto conduit = reader.number<std::uint32_t>();
    const auto sequence = reader.number<std::uint64_t>();
    if (version != 1 || length != reader.left()) throw std::runtime_error("not a frame");

    std::ostringstream json;
    json << R"({"conduit":)" << conduit << R"(,"sequence":)" << sequence << R"(,"frame":)";
    switch (kind) {
        case 2: json << R"("end"})"; return json.str();
        case 3: json << R"("gone"})"; return json.str();
        case 4: json << R"("receipt"})"; return json.str();
        case 6: json << R"("resume"})"; return json.str();
        case 1: break;
        default: throw std::runtime_error("a frame of another kind");
    }
    const auto timestamp = reader.number<double>();
    const auto next = reader.number<double>();
    const auto descriptor_length = reader.number<std::uint32_t>();
    const auto copy = reader.number<std::uint32_t>();
    Reader descriptor(reader.take(descriptor_length), descriptor_length);
    if ((flags & 2) != 0) descriptor.take(16);  // checksums, which TCP makes superfluous here
    const xmml::Value value = node(descriptor, reader);
    if (descriptor.left() != 0) throw std::runtime_error("the descriptor is too long");

    json << R"("message","timestamp":)" << timestamp << R"(,"next_timestamp":)";
    (flags & 1) != 0 ? json << next : json << "null";
    json << R"(,"sender_copy":)";
    copy != 0xffffffff ? json << copy : json << "null";
    json << R"(,"data":)" << described(value.data()) << '}';
    return json.str();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    std::cout << meaning(from_hex(argv[1])) << '\n';
}
