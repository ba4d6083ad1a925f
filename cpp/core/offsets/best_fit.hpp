// Each buffer in the smallest gap that holds it.
#pragma once

#include "offsets/arena.hpp"

namespace placewright {

// As they are allocated and freed, as an allocator at run time would; n log n for n buffers.
std::vector<int64_t> best_fit_in_turn(std::span<const TimedBuffer> buffers);

// Large ones first, whenever they are alive; takes the square of n.
std::vector<int64_t> best_fit_by_size(std::span<const TimedBuffer> buffers);

int64_t size_of(std::span<const TimedBuffer> buffers, std::span<const int64_t> offset);

}  // namespace placewright
