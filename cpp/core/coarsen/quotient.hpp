// The graph of clusters of ops.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// A graph with one edge for each pair of clusters with a dependency, however many dependencies there are.
struct Quotient {
    std::vector<int32_t> begin{0};
    std::vector<std::pair<int64_t, int32_t>> edges;  // (bytes, successor)
    std::vector<int32_t> in_degree;
    std::vector<double> work;
    std::vector<int32_t> component;  // [vertex] an op of those that must share a device with it

    int32_t size() const { return static_cast<int32_t>(work.size()); }
    std::span<const std::pair<int64_t, int32_t>> successors(int32_t vertex) const {
        return {edges.data() + begin[vertex], size_t(begin[vertex + 1] - begin[vertex])};
    }
};

// Returns the time of each op, averaged over the devices.
std::vector<double> mean_times(const Problem& problem);

// Returns the quotient in which every op is a cluster of its own, with the given work[op].
Quotient quotient_of(const Problem& problem, const std::vector<double>& work);

// Returns the quotient in which vertices of one label are one; labels count up from 0.
Quotient contracted(const Quotient& fine, std::span<const int32_t> label, int32_t num_labels);

// Returns a valid order that continues what it has begun: always, of the vertices that became ready last, the one that
// reads the most.
std::vector<int32_t> following_order(const Quotient& q);

// Returns a valid order by depth, in which vertices of one depth that read the same are next to each other: what may
// run at the same time.
std::vector<int32_t> level_order(const Quotient& q);

// Returns, per vertex, the longest path of work from its start to the end.
std::vector<double> levels(const Quotient& q, std::span<const int32_t> order);

// Returns the longest path of work. Vertices of a quotient are numbered in a valid order.
double longest_path(const Quotient& q);

}  // namespace placewright
