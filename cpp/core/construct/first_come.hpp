// What placements cost under one schedule that is the same for all: ops run first come, first served.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/problem.hpp"
#include "simulate/simulate.hpp"

namespace placewright {

// The whole order: ops as dispatched first come, first served, transfers early, or batched where they block.
std::vector<Step> first_come_schedule(const Problem& problem, std::span<const int32_t> device_of);

// Each placement (rows of num_ops devices) simulated in that order, on so many threads, which decide nothing.
std::vector<Outcome> measure_placements(const Problem& problem, std::span<const int32_t> placements, int32_t threads);

}  // namespace placewright
