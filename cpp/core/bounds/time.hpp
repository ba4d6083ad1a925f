// Lower bounds on the step time from the earliest start and the shortest rest of each op.
#pragma once

#include "problem/problem.hpp"

namespace placewright {

struct TimeBounds {
    int64_t path_ns;    // longest chain of ops alone
    int64_t chain_ns;   // longest chain of ops with what must happen before and after each of them
    int64_t window_ns;  // work that must fit between the earliest start and the latest finish of its ops
    int64_t launch_ns;  // launches of host threads, and what follows the last of them
};

// work: of each op, in units of 1 / scale ns: in a span of t ns all devices together do at most t * scale, and one
// device at most t * heaviest. About `budget` ancestors of ops where paths join are looked at, and as many descendants.
TimeBounds time_bounds(const Problem& problem, std::span<const int64_t> work, int64_t scale, int64_t heaviest,
                       int64_t budget);

}  // namespace placewright
