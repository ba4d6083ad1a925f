// What the bounds on the step time know of an op's time on any device.
#pragma once

#include <cstdint>
#include <span>

namespace placewright {

struct Durations {
    std::span<const int64_t> time_ns;  // [op] least time on a device it may use
    std::span<const int64_t> work;     // [op] in units of 1 / scale ns of all devices together
    int64_t scale;
    int64_t heaviest;  // of these units, the most that one device does in 1 ns
};

}  // namespace placewright
