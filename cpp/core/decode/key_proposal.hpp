// A Beta distribution for each key of a chromosome (REGAL, section 3.2).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "decode/beta.hpp"

namespace placewright {

// row[key] says which of the tables' distributions a key is drawn from. Many searches may share the tables.
struct KeyProposal {
    std::shared_ptr<const BetaTables> tables;
    std::vector<uint16_t> row;

    // Throws std::invalid_argument unless every one of so many keys has a distribution that exists.
    void check(size_t num_keys) const;
};

}  // namespace placewright
