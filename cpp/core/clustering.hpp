// Which ops of a large problem to decide about together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem.hpp"

namespace placewright {

// Cluster of each op, at most about `max_clusters`, each of no more than 2 / max_clusters of all work or a single op.
// Clusters are connected where the graph allows it, and numbered so that every dependency between two of them goes from
// the lower to the higher. A cluster's ops, and what must share their device, have a device that all may use. With
// `device_of`, one device per op, only ops that stand on the same device are joined.
std::vector<int32_t> cluster_ops(const Problem& problem, int32_t max_clusters, std::span<const int32_t> device_of = {});

}  // namespace placewright
