// The interval during which each tensor is in memory, as the simulation counts it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// The interval in which a tensor is in the memory of a device, as original or copy: from the start of the step at
// position `begin` of the order to the finish of the step at position `end`, or -1 if it stays to the end.
struct Lifetime {
    int32_t tensor, device, begin, end;
};

// Returns the lifetimes of the tensors with memory of their own on their producer's device, by tensor, then those of
// all copies, by position of the transfer. The order must be valid.
std::vector<Lifetime> lifetimes(const Problem& problem, std::span<const int32_t> device_of,
                                std::span<const Step> order);

}  // namespace placewright
