// How early each op can start at best.
#pragma once

#include "problem/delays.hpp"

namespace placewright {

struct Durations {
    std::span<const int64_t> time_ns;  // [op] least time on a device it may use
    std::span<const int64_t> work;     // [op] in units of 1 / scale ns of all devices together
    int64_t scale;
};

// Per op a time before which it starts in no plan, no less than `least` where that is given. About `budget` ancestors
// are looked at, from ops where paths join. With reversed delays: the time after its finish that the rest of the step
// needs at least.
std::vector<int64_t> heads(const Delays& delays, const Durations& durations, int64_t budget,
                           std::vector<int64_t> least = {});

}  // namespace placewright
