// Where a search that is advanced some evaluations at a time pauses.
#pragma once

#include <algorithm>
#include <cstdint>

namespace placewright {

// After how many evaluations in all, of which so many are `done`: `evaluations`, but at most `at_most` from now.
inline int64_t pause_at(int64_t done, int64_t evaluations, int64_t at_most) {
    const int64_t end = std::max<int64_t>(evaluations, 0);
    return at_most < end - done ? done + at_most : end;
}

}  // namespace placewright
