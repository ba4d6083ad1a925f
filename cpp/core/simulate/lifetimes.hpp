// From when to when tensors lie in memory, as the simulation holds them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// A tensor in the memory of a device, where it was made or as a copy: from the start of the step at place `begin` of
// the order to the finish of the one at `end`, -1 for what stays to the end.
struct Lifetime {
    int32_t tensor, device, begin, end;
};

// Of the tensors with memory of their own where they are made, by tensor; then of all copies, by place of the transfer.
// The order must be valid.
std::vector<Lifetime> lifetimes(const Problem& problem, std::span<const int32_t> device_of,
                                std::span<const Step> order);

}  // namespace placewright
