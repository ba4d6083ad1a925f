// The cost of placements under one scheduling rule for all: first come, first served.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/problem.hpp"
#include "simulate/simulate.hpp"

namespace placewright {

// Returns the whole order: ops dispatched first come, first served, transfers early, or batched if they block.
std::vector<Step> first_come_schedule(const Problem& problem, std::span<const int32_t> device_of);

// Simulates each placement (rows of num_ops devices) in that order. The number of threads does not change the results.
std::vector<Outcome> measure_placements(const Problem& problem, std::span<const int32_t> placements, int32_t threads);

}  // namespace placewright
