// The proposal of a search, made from Python arguments: tables of its distributions and a row for each key, or none.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <optional>

#include "arrays.hpp"
#include "decode/key_proposal.hpp"

namespace placewright {

inline std::optional<KeyProposal> make_proposal(std::shared_ptr<BetaTables> tables,
                                                std::optional<ArrayIn<uint16_t>> row) {
    if (!tables && !row) return std::nullopt;
    if (!tables || !row) throw std::invalid_argument("a proposal needs tables and row");
    return KeyProposal{std::move(tables), as_vector(*row)};
}

}  // namespace placewright
