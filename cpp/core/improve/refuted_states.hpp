// States from which a search has found nothing better; they cover states that are no better themselves.
#pragma once

#include <span>
#include <unordered_map>

#include "problem/problem.hpp"

namespace placewright {

// A state is a set of ops that are done and rows of one number per device, of which less is better. Of two states with
// the same set, one that is no less in any number leads no further, even after devices that cannot be distinguished are
// exchanged.
class RefutedStates {
  public:
    explicit RefutedStates(const Problem& problem);

    bool covers(uint64_t done, std::span<const int64_t> state) const;
    // Keeps about 32 MB; states beyond that are ignored.
    void add(uint64_t done, std::span<const int64_t> state);

  private:
    using States = std::vector<std::vector<int64_t>>;

    bool is_no_worse(std::span<const int64_t> one, std::span<const int64_t> other) const;

    size_t num_devices_;
    std::vector<std::vector<int32_t>> names_;  // permutations of indistinguishable devices, the identity among them
    std::unordered_map<uint64_t, States> states_;
    size_t num_kept_ = 0;
};

}  // namespace placewright
