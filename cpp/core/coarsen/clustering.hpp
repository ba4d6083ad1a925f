// Clusters of the ops of a large problem that are decided about together.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// Returns the cluster of each op: at most about `max_clusters`, if groups and allowed devices permit so few, each of no
// more than 2 / max_clusters of all work or a single op. Clusters are numbered so that every dependency between two of
// them goes from the lower to the higher. A cluster's ops, and all ops that must share their device, have a device that
// all may use.
//
// Each round cuts a valid order of the clusters so far into runs, in the manner of linear clustering along
// dependencies, or across them if that keeps the critical path of work shorter (cf. Gerasoulis and Yang 1993; Herrmann
// et al., SISC 2019, for why a partition of a DAG must stay acyclic and what else keeps it so). Near-linear in ops and
// edges.
std::vector<int32_t> cluster_ops(const Problem& problem, int32_t max_clusters);

}  // namespace placewright
