// Finds the ops that may run next while ops finish one after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// Counts, per op, the input tensors and control predecessors that are still missing.
class Readiness {
  public:
    explicit Readiness(const Problem& problem) : problem_(problem), missing_(problem.in_degree) {}

    // Returns to the state in which no op has finished.
    void reset() { std::ranges::copy(problem_.in_degree, missing_.begin()); }

    // Calls became_ready(op) for every op that waits for nothing, ascending.
    template <class F>
    void for_each_source(F&& became_ready) const {
        for (int32_t op : problem_.sources) became_ready(op);
    }

    // Calls became_ready(next) for every op whose last missing predecessor was `op`.
    template <class F>
    void finish(int32_t op, F&& became_ready) {
        const auto arrived = [&](int32_t next) {
            if (--missing_[next] == 0) became_ready(next);
        };
        for (int32_t edge : problem_.edges[op]) arrived(edge >> 1);
    }

  private:
    const Problem& problem_;
    std::vector<int32_t> missing_;
};

}  // namespace placewright
