// A lower bound on the memory in use over all devices together.
#pragma once

#include "problem/problem.hpp"

namespace placewright {

struct LiveMemoryBound {
    int64_t bytes;  // some moment of every valid plan has at least this much in use, over all devices together
    int32_t op;     // alone it proves most
    bool exact;     // no other op alone would prove more
};

// The most, over ops v, of the least memory that can be in use when v starts: a minimum cut for each v tried, the most
// promising first, until none is left or about `budget` arcs have been looked at. Residents count once.
LiveMemoryBound live_memory_bound(const Problem& problem, int64_t budget);

}  // namespace placewright
