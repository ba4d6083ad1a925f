// Lower bounds on the step time from the earliest start and the shortest remaining time of each op.
#pragma once

#include "problem/problem.hpp"

namespace placewright {

struct TimeBounds {
    int64_t path_ns;    // longest chain of ops alone
    int64_t chain_ns;   // longest sum of an op's earliest start, its time and the time needed after it
    int64_t window_ns;  // work that must fit between the earliest start and the latest finish of its ops
    int64_t launch_ns;  // launches by host threads, and the time needed after the last of them
};

// work: of each op, in units such that in t ns all devices together do at most t * scale, and one device at most t *
// heaviest. Looks at about `budget` ancestors of ops where paths join, and at as many descendants.
TimeBounds time_bounds(const Problem& problem, std::span<const int64_t> work, int64_t scale, int64_t heaviest,
                       int64_t budget);

}  // namespace placewright
