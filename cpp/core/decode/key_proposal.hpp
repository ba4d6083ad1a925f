// A Beta distribution for each key of a chromosome (REGAL, section 3.2).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "decode/beta.hpp"

namespace placewright {

// row[key] is the row of the tables from which a key is drawn. Many searches may share the tables.
struct KeyProposal {
    std::shared_ptr<const BetaTables> tables;
    std::vector<uint16_t> row;

    // Throws std::invalid_argument unless there is one row per key and each exists in the tables.
    void check(size_t num_keys) const;
};

}  // namespace placewright
