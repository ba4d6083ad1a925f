// How early each op can start at best.
#pragma once

#include "bounds/durations.hpp"
#include "problem/delays.hpp"

namespace placewright {

// Per op a time before which it starts in no plan, no less than `least` where that is given. About `budget` ancestors
// are looked at, from ops where paths join. With reversed delays: the time after its finish that the rest of the step
// needs at least.
std::vector<int64_t> heads(const Delays& delays, const Durations& durations, int64_t budget,
                           std::vector<int64_t> least = {});

}  // namespace placewright
