// Clusters of ops as a graph of their own.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// An edge for each pair of clusters with a dependency, however many dependencies there are.
struct Quotient {
    std::vector<int32_t> begin{0};
    std::vector<std::pair<int64_t, int32_t>> edges;  // (bytes, successor)
    std::vector<int32_t> in_degree;
    std::vector<double> work;
    std::vector<int32_t> component;  // [vertex] an op of the vertices that must share a device

    int32_t size() const { return static_cast<int32_t>(work.size()); }
    std::span<const std::pair<int64_t, int32_t>> successors(int32_t vertex) const {
        return {edges.data() + begin[vertex], size_t(begin[vertex + 1] - begin[vertex])};
    }
};

// Time of each op, averaged over the devices.
std::vector<double> mean_times(const Problem& problem);

// Every op a cluster of its own; work[op] as given.
Quotient quotient_of(const Problem& problem, const std::vector<double>& work);

// The quotient in which vertices of one label are one; labels count up from 0.
Quotient contracted(const Quotient& fine, std::span<const int32_t> label, int32_t num_labels);

// A valid order that stays with what it has begun: of the vertices that became ready last, the one that reads the most.
std::vector<int32_t> following_order(const Quotient& q);

// A valid order by depth, in a depth next to one another what reads the same: what may run at the same time.
std::vector<int32_t> level_order(const Quotient& q);

// Per vertex the longest path of work from its start to the end.
std::vector<double> levels(const Quotient& q, std::span<const int32_t> order);

// Vertices of a quotient are numbered in a valid order.
double longest_path(const Quotient& q);

}  // namespace placewright
