// The earliest start of each op in any plan.
#pragma once

#include "bounds/durations.hpp"
#include "problem/delays.hpp"

namespace placewright {

// Returns, per op, a time before which it starts in no plan, no less than `least` where that is given. Looks at about
// `budget` ancestors of ops where paths join. With reversed delays: the least time that the rest of the step needs
// after the op's finish.
std::vector<int64_t> heads(const Delays& delays, const Durations& durations, int64_t budget,
                           std::vector<int64_t> least = {});

}  // namespace placewright
