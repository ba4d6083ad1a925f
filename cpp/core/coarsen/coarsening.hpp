// Coarsening of a large problem: ops that are decided about together become one, and a solution of the small problem
// becomes one of the large problem.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "construct/placements.hpp"
#include "problem/problem.hpp"

namespace placewright {

struct Coarsening {
    std::shared_ptr<Problem> coarse;
    std::vector<int32_t> cluster_of;  // [op] the coarse op it belongs to
};

// Returns the problem whose ops are the clusters, each of which runs its ops one after another in captured order.
// Clusters must be numbered so that every dependency between two goes from the lower to the higher.
//
// A tensor that only its own cluster reads is not in the coarse problem; tensors of one cluster with the same readers
// are one tensor, so that they move together with one latency. Memory is overestimated: an op's inputs stay and its
// outputs count from its start, so a cluster has all of its own at once, and in its workspace what its ops need beyond
// that. On one device a coarse order never takes less memory than its ops one after another.
//
// Throws std::invalid_argument if clusters are not so numbered, or no device is left for ops that must share one.
std::shared_ptr<Problem> coarse_problem(const Problem& fine, std::span<const int32_t> cluster_of);

// Coarsens with the clusters of cluster_ops.
Coarsening coarsen(const Problem& fine, int32_t max_clusters);

// Returns a solution of the coarse problem as one of the fine: valid whenever the coarse one is.
PlacementAndOrder expand(const Problem& fine, std::span<const int32_t> cluster_of,
                         std::span<const int32_t> coarse_device_of, std::span<const int32_t> coarse_ops);

// Returns a solution of the fine problem as one of the coarse, as close as possible: a cluster is where its first op is
// (the first of its group), and comes where its last op did.
PlacementAndOrder project(const Problem& coarse, std::span<const int32_t> cluster_of,
                          std::span<const int32_t> device_of, std::span<const int32_t> ops);

}  // namespace placewright
