// Clusters that grow along chains: ops that a list scheduler may treat as one.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// Returns the cluster of each op, numbered as coarse_problem needs it: every dependency leads to the same or a higher
// number.
//
// Merges neighbours, the heaviest edges first, as clustering heuristics zero edges (Gerasoulis and Yang 1992): in one
// pass clusters with their only successor, in the next with their only predecessor, and so on. Neither kind closes a
// cycle: what a pass merges is a tree that other clusters only leave, or only enter, through its root. No cluster takes
// longer than cap_ns of mean time, nor do all ops that share its device because of it; single ops and the problem's own
// groups may. Near-linear: a pass sorts the edges it uses, and there are at most a dozen.
std::vector<int32_t> chain_clusters(const Problem& problem, int64_t cap_ns);

}  // namespace placewright
