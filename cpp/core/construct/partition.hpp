// Placement by graph partitioning: few bytes between devices, time balanced; order plays no part.
#pragma once

#include <vector>

#include "problem/problem.hpp"

namespace placewright {

struct PartitionConfig {
    double imbalance = 0.05;  // of all time, that a side may be off its share; the longest op in any case
    int32_t passes = 20;      // over all ops, at most
};

// Device of each op. Devices are halved until one is left, and at each step what stands on them is split by passes in
// the manner of Kernighan & Lin (1970), with single moves in place of exchanges (Fiduccia & Mattheyses, DAC 1982).
std::vector<int32_t> partition(const Problem& problem, const PartitionConfig& config);

}  // namespace placewright
