// Dependencies that hold on any placement: the successor starts after the predecessor has finished, whichever devices
// they use.
#pragma once

#include "problem/problem.hpp"

namespace placewright {

struct Delays {
    static constexpr int64_t kNever = int64_t{1} << 61;  // the delay across devices of two ops that always share one

    // Collects these dependencies of a problem. Ops keep their numbers, so each dependency goes from a lower op to a
    // higher one.
    explicit Delays(const Problem& problem);

    // Returns all dependencies reversed, with op i as num_ops - 1 - i: the predecessors of an op here are its
    // successors there.
    Delays reversed() const;

    Csr before;                       // op -> ops it waits for, each once
    std::vector<int64_t> between_ns;  // [place in before.values] least extra time if the two run on different devices
};

}  // namespace placewright
