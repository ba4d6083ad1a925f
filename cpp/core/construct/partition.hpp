// Placement by graph partitioning: few bytes between devices and balanced time, regardless of the order.
#pragma once

#include <vector>

#include "problem/problem.hpp"

namespace placewright {

struct PartitionConfig {
    double imbalance = 0.05;  // share of all time by which a side may miss its target; the longest op is always allowed
    int32_t passes = 20;      // the most passes over all ops
};

// Returns the device of each op. Devices are halved until one is left, and at each step the ops on them are split by
// passes in the manner of Kernighan & Lin (1970), with single moves instead of exchanges (Fiduccia & Mattheyses, DAC
// 1982).
std::vector<int32_t> partition(const Problem& problem, const PartitionConfig& config);

}  // namespace placewright
