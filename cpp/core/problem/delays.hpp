// Dependencies that delay: their successor starts after their predecessor has finished, on whichever devices they are.
#pragma once

#include "problem/problem.hpp"

namespace placewright {

struct Delays {
    static constexpr int64_t kNever = int64_t{1} << 61;  // the least time between devices for ops that share one

    // The dependencies of a problem, numbered as its ops are, so that each goes from a lower op to a higher one.
    explicit Delays(const Problem& problem);

    // All of them turned round, op i as num_ops - 1 - i: what comes before an op here comes after it there.
    Delays reversed() const;

    Csr before;                       // op -> ops it waits for, each once
    std::vector<int64_t> between_ns;  // [place in before.values] the least time more if the two are apart
};

}  // namespace placewright
