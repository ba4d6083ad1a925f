// A proposal as searches take it from Python: three arrays or none.
#pragma once

#include <nanobind/stl/optional.h>

#include <optional>

#include "arrays.hpp"
#include "key_proposal.hpp"

namespace placewright {

inline std::optional<KeyProposal> make_proposal(std::optional<ArrayIn<double>> alpha,
                                                std::optional<ArrayIn<double>> beta,
                                                std::optional<ArrayIn<uint16_t>> row) {
    if (!alpha) return std::nullopt;
    if (!beta || !row) throw std::invalid_argument("a proposal needs alpha, beta and row");
    return KeyProposal{BetaTables(as_span(*alpha), as_span(*beta)), as_vector(*row)};
}

}  // namespace placewright
