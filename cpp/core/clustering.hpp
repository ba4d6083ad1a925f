// Which ops of a large problem to decide about together.
#pragma once

#include <cstdint>
#include <vector>

#include "placements.hpp"
#include "problem.hpp"

namespace placewright {

// Cluster of each op: at most about `max_clusters`, where groups and allowed devices leave so few, each of no more than
// 2 / max_clusters of all work or a single op. Clusters are numbered so that every dependency between two of them goes
// from the lower to the higher. A cluster's ops, and what must share their device, have a device that all may use.
//
// Each round cuts a valid order of the clusters so far into runs, in the manner of linear clustering along
// dependencies, or across them where that keeps the critical path of work shorter (cf. Gerasoulis and Yang 1993;
// Herrmann et al., SISC 2019, for why a partition of a DAG must stay acyclic and what else keeps it so). Near-linear in
// ops and edges.
std::vector<int32_t> cluster_ops(const Problem& problem, int32_t max_clusters);

// Clusters of a solution, for which it is nearly as good as it was: what a device runs one after another without
// waiting for another device, of no more than 2 / max_clusters of all work. Numbered by their last ops in the order.
// There may be more than `max_clusters`, as many as the devices wait for one another.
std::vector<int32_t> cluster_solution(const Problem& problem, int32_t max_clusters, const PlacedOrder& solution);

}  // namespace placewright
