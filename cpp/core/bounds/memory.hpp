// A lower bound on the memory in use over all devices together.
#pragma once

#include "problem/problem.hpp"

namespace placewright {

struct LiveMemoryBound {
    int64_t bytes;  // every valid plan has a moment with at least this much in use, over all devices together
    int32_t op;     // the op that alone proves most
    bool exact;     // no other op alone would prove more
};

// Returns the most, over ops v, of the least memory that can be in use when v starts: a minimum cut for each v tried,
// the most promising first, until none is left or about `budget` arcs have been looked at. If none is left, sets of ops
// are tried, too. Each resident counts once.
LiveMemoryBound live_memory_bound(const Problem& problem, int64_t budget);

}  // namespace placewright
