// States from which a search has found no way on, and those that are no better.
#pragma once

#include <span>
#include <unordered_map>

#include "problem/problem.hpp"

namespace placewright {

// A state is a set of ops that are done and, row by row, one number per device of which less is better. Of states of
// the same set one that is no less in any number leads no further, whatever devices that cannot be told apart are
// called.
class RefutedStates {
  public:
    explicit RefutedStates(const Problem& problem);

    bool covers(uint64_t done, std::span<const int64_t> state) const;
    // Some 32 MB are kept; what comes later is forgotten.
    void add(uint64_t done, std::span<const int64_t> state);

  private:
    using States = std::vector<std::vector<int64_t>>;

    bool is_no_worse(std::span<const int64_t> one, std::span<const int64_t> other) const;

    size_t num_devices_;
    std::vector<std::vector<int32_t>> names_;  // other names of the devices, among them their own
    std::unordered_map<uint64_t, States> states_;
    size_t num_kept_ = 0;
};

}  // namespace placewright
