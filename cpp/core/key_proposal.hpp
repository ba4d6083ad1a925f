// A Beta distribution for each key of a chromosome (REGAL, section 3.2).
#pragma once

#include <vector>

#include "beta.hpp"
#include "problem.hpp"

namespace placewright {

// row[key] says which of the tables' distributions a key is drawn from. No rows: all keys uniform.
struct KeyProposal {
    BetaTables tables;
    std::vector<uint16_t> row;

    // Throws std::invalid_argument unless every key of the problem has a distribution that exists.
    void check(const Problem& problem) const;
};

}  // namespace placewright
