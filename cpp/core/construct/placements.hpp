// Simple placements for a given order of ops, and the rule by which every method inserts transfers.
#pragma once

#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// The decisions of list methods: `ops` holds every op once, after all it depends on.
struct PlacementAndOrder {
    std::vector<int32_t> device_of;
    std::vector<int32_t> ops;
};

// A whole order and its cost, simulated in full.
struct WholeOrder {
    std::vector<Step> order;
    Fitness fitness;
    int64_t evaluations = 0;
};

// Returns the best of early, late and (where transfers block) batched transfers, the first of equals. Each is one
// evaluation. One is enough if nothing is transferred; at least one is spent, otherwise no more than are left.
WholeOrder best_transfers(const Problem& problem, std::span<const int32_t> device_of, std::span<const int32_t> ops,
                          int64_t evaluations_left);

// Places everything on `device`; a group that may not go there goes to the first device it may use.
std::vector<int32_t> all_on(const Problem& problem, int32_t device);

// Cuts the captured order into one run per device: an op counts its outputs and the residents that no earlier op has
// read. A run ends when the next op would take more than shares[device] bytes; the last device takes the rest. Groups
// go together where their first op falls.
std::vector<int32_t> contiguous_runs(const Problem& problem, std::span<const int64_t> shares);

// Returns shares that divide the memory of the graph in proportion to the memory limits, or evenly if a device has
// none.
std::vector<int64_t> balanced_shares(const Problem& problem);

}  // namespace placewright
