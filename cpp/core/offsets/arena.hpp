// Offsets of buffers in one arena that is as small as a search can make it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace placewright {

// A buffer, alive from event `begin` up to event `end`, which is after it; `size` is above 0, in bytes or any other
// unit.
struct TimedBuffer {
    int32_t begin, end;
    int64_t size;
};

struct Arena {
    std::vector<int64_t> offset;  // of each buffer
    int64_t size;                 // end of the highest buffer
    int64_t bound;                // no arena is smaller; at least the peak, the most in use at one time
};

// Returns the best arena of best fit and a search for smaller ones, which spends no more than about `effort` looks at a
// buffer; a billion take about two seconds.
Arena smallest_arena(std::span<const TimedBuffer> buffers, int64_t effort);

}  // namespace placewright
