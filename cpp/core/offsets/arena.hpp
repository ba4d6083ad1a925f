// Offsets of buffers in one arena, which is made as small as can be found.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace placewright {

// Alive from event `begin` up to event `end`, which is after it; `size` is above 0, in bytes or any other unit.
struct TimedBuffer {
    int32_t begin, end;
    int64_t size;
};

struct Arena {
    std::vector<int64_t> offset;  // of each buffer
    int64_t size;                 // where the highest of them ends
    int64_t bound;                // no arena is smaller; at least the peak, the most that is in use at one time
};

// Best fit, then a search for smaller arenas, which spends no more than about `effort` looks at a buffer; a billion
// take some two seconds.
Arena smallest_arena(std::span<const TimedBuffer> buffers, int64_t effort);

}  // namespace placewright
