#include "decode/key_proposal.hpp"

#include <algorithm>
#include <stdexcept>

namespace placewright {

void KeyProposal::check(size_t num_keys) const {
    if (row.size() != num_keys) throw std::invalid_argument("the proposal has not one distribution per key");
    if (!std::ranges::all_of(row, [&](uint16_t r) { return r < tables->num_rows(); }))
        throw std::invalid_argument("the proposal names a distribution that does not exist");
}

}  // namespace placewright
