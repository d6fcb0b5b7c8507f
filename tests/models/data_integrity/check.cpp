// Sends random data of every type and many sizes, and checks that each comes back as it was.
#include <xmml.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "datatype.hpp"

using Shape = std::vector<std::size_t>;

void announce(xmml::Instance& me, Datatype type) { me.send("datatype", std::int32_t(type)); }

void expect(bool equal, const std::string& what) {
    if (!equal) throw std::runtime_error(what + " came back changed");
}

template <typename T>
void check(xmml::Instance& me, std::mt19937_64& random, Datatype type, const Shape& shape, const std::string& what) {
    std::size_t size = 1;
    for (std::size_t extent : shape) size *= extent;
    const auto sent = std::make_unique<T[]>(size);
    std::generate_n(sent.get(), size, [&] { return T(std::int32_t(random())); });

    announce(me, type);
    me.send("out", xmml::array(sent.get(), shape));
    const auto back = me.receive("in").template array<T>();
    const bool same_shape = Shape(back.shape().begin(), back.shape().end()) == shape;
    expect(same_shape && std::equal(back.begin(), back.end(), sent.get()), what);
}

void check_bytes(xmml::Instance& me, std::mt19937_64& random, std::size_t size) {
    std::vector<unsigned char> sent(size);
    std::generate(sent.begin(), sent.end(), [&] { return static_cast<unsigned char>(random()); });
    announce(me, Datatype::raw);
    me.send("out", xmml::Value::bytes(sent.data(), sent.size()));
    expect(me.receive("in").data().bytes() == sent, std::to_string(size) + " bytes");
}

void check_text(xmml::Instance& me, const std::string& sent) {
    announce(me, Datatype::text);
    me.send("out", sent);
    expect(me.receive("in").as<std::string>() == sent, "a text of " + std::to_string(sent.size()));
}

void check_all(xmml::Instance& me, unsigned seed) {
    std::mt19937_64 random(seed);
    for (std::size_t size : {0, 1, 3, 8, 50, 1024, 65536, 1048576}) {
        const std::string many = std::to_string(size) + " ";
        check<bool>(me, random, Datatype::boolean, {size}, many + "bool");
        check_bytes(me, random, size);
        check<std::int32_t>(me, random, Datatype::int32, {size}, many + "int32");
        check<float>(me, random, Datatype::float32, {size}, many + "float");
        check<double>(me, random, Datatype::float64, {size}, many + "double");
        check<std::int64_t>(me, random, Datatype::int64, {size}, many + "int64");
    }
    for (const std::string& text : {std::string(), std::string("a"), std::string("Grüße, 水"), std::string(65536, 'x')})
        check_text(me, text);
    check<double>(me, random, Datatype::cube, {15, 30, 21}, "a cube");
    check<std::int32_t>(me, random, Datatype::matrix, {15, 30}, "a matrix");
}

int main() {
    xmml::Instance me;
    for (unsigned seed = 1; seed <= 5; ++seed) {
        check_all(me, seed);
        std::printf("seed %u\n", seed);
    }
    announce(me, Datatype::end);
    std::puts("tests passed");
}
