// Best fit: puts each buffer into the smallest gap that holds it.
#pragma once

#include "offsets/arena.hpp"

namespace placewright {

// Places buffers in the order in which they are allocated and freed, as an allocator at run time would; O(n log n) for
// n buffers.
std::vector<int64_t> best_fit_in_turn(std::span<const TimedBuffer> buffers);

// Places large buffers first, whatever their times; O(n^2).
std::vector<int64_t> best_fit_by_size(std::span<const TimedBuffer> buffers);

int64_t size_of(std::span<const TimedBuffer> buffers, std::span<const int64_t> offset);

}  // namespace placewright
