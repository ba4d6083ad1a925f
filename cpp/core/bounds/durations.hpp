// Times and work of ops that hold on any device, for the bounds on the step time.
#pragma once

#include <cstdint>
#include <span>

namespace placewright {

struct Durations {
    std::span<const int64_t> time_ns;  // [op] least time on any device it may use
    std::span<const int64_t> work;     // [op] in units of which all devices together do at most `scale` per ns
    int64_t scale;
    int64_t heaviest;  // the most of these units that one device does per ns
};

}  // namespace placewright
