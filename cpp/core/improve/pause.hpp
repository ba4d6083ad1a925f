// The point at which a search pauses when it is advanced some evaluations at a time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace placewright {

// Returns the total of evaluations at which to pause when `done` are spent: `evaluations`, but at most `at_most` from
// now.
inline int64_t pause_at(int64_t done, int64_t evaluations, int64_t at_most) {
    const int64_t end = std::max<int64_t>(evaluations, 0);
    return at_most < end - done ? done + at_most : end;
}

}  // namespace placewright
