// Clusters of ops that a list scheduler may treat as one op, and the smaller problem they make.
#pragma once

#include <cstdint>
#include <vector>

#include "problem.hpp"

namespace placewright {

// Per op the number of its cluster; clusters are numbered so that every dependency leads to a higher number.
struct Clusters {
    std::vector<int32_t> cluster_of;
    std::vector<int32_t> together;  // [cluster] least cluster of those that must share its device
    int32_t count = 0;
};

// Puts neighbours together, the heaviest edges first, as clustering heuristics zero edges (Gerasoulis and Yang 1992):
// in one pass clusters with their only successor, in the next with their only predecessor, and so on. Neither kind
// closes a cycle: what a pass merges is a tree that other clusters only leave, or only enter, through its root. No
// cluster takes longer than cap_ns of mean time, nor do all that share its device because of it; single ops and the
// problem's own groups may. Near-linear: a pass sorts the edges it uses, and there are at most a dozen.
Clusters cluster_ops(const Problem& problem, int64_t cap_ns);

// One op per cluster, with the tensors that leave it or stay to the end; memory inside a cluster is left out.
Problem contracted(const Problem& problem, const Clusters& clusters);

}  // namespace placewright
