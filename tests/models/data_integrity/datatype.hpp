// What check announces before it sends: how bounce shall read the next message.
#pragma once
#include <cstdint>

enum class Datatype : std::int32_t {
    end = -1,
    boolean = 0,
    raw,
    int32,
    float32,
    float64,
    int64,
    text,
    cube,    // float64, rank 3
    matrix,  // int32, rank 2
};
