// Simple placements for a given order of ops, and the rule by which every method puts transfers into it.
#pragma once

#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// What list methods decide: `ops` holds every op once, after all it depends on.
struct PlacementAndOrder {
    std::vector<int32_t> device_of;
    std::vector<int32_t> ops;
};

// A whole order with what it costs, simulated in full.
struct WholeOrder {
    std::vector<Step> order;
    Fitness fitness;
    int64_t evaluations = 0;
};

// The best of early, late and (where transfers block) batched transfers, the first of equals. Each is one evaluation;
// one is enough when nothing is transferred, and never more are spent than are left.
WholeOrder best_transfers(const Problem& problem, std::span<const int32_t> device_of, std::span<const int32_t> ops,
                          int64_t evaluations_left);

// Everything on `device`; a group that may not go there stands on the first device it may use.
std::vector<int32_t> all_on(const Problem& problem, int32_t device);

// The captured order cut into one run per device: an op counts its outputs and the residents no earlier op has read.
// A run ends when the next op would take more than shares[device] bytes; the last device takes the rest. Groups stand
// together where their first op falls.
std::vector<int32_t> contiguous_runs(const Problem& problem, std::span<const int64_t> shares);

// Shares in which the memory of the graph divides in proportion to the memory limits, or evenly when a device has none.
std::vector<int64_t> balanced_shares(const Problem& problem);

}  // namespace placewright
