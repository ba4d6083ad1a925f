// Orders of all ops on one device, by the heuristics that compilers use. Each returns a permutation of the ops in which
// every op comes after all it depends on; ties go to the captured order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// Returns whether `ops` holds every op once, after all it depends on.
bool is_valid_order(const Problem& problem, std::span<const int32_t> ops);

// Ops run in the sequence in which they become ready.
std::vector<int32_t> bfs_order(const Problem& problem);

// XLA's DFSMemoryScheduler: post-order from the outputs backwards. Among several operands the one with the most
// additional users in its history goes first, then the one with the most bytes made in it.
std::vector<int32_t> dfs_order(const Problem& problem);

// Least peak memory first, PyTorch Inductor's topological_sort_lpmf: among the ready ops that do not raise the peak,
// the one after which least memory is in use; if all raise it, the one that raises it least.
std::vector<int32_t> lpmf_order(const Problem& problem);

// XLA's ListScheduler: the ready op that frees the most bytes less those it defines, then the one with the most users.
std::vector<int32_t> xla_list_order(const Problem& problem);

// Goes from the outputs backwards: among the ops whose successors are all placed, takes the one before which least
// memory is in use.
std::vector<int32_t> reverse_greedy_order(const Problem& problem);

}  // namespace placewright
