// Copies of one graph side by side, with the neighbours whose states each node of a graph network reads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace placewright::graph_network {

// Nodes of copy c are c * nodes to (c + 1) * nodes - 1.
struct Neighbours {
    int32_t copies = 0, nodes = 0;  // number of copies; nodes of each
    std::vector<int32_t> begin;     // [all nodes + 1] into source
    std::vector<int32_t> source;    // of each node: itself and the nodes with an edge to it, each once

    int32_t size() const { return copies * nodes; }
};

// Makes copies of a graph. source, target: of each edge of one copy.
Neighbours side_by_side(std::span<const int64_t> source, std::span<const int64_t> target, int32_t nodes,
                        int32_t copies);

struct Pooled {
    std::vector<int64_t> kept;  // ascending
    Neighbours neighbours;      // of the nodes kept, numbered in their order
};

// Keeps the half of each copy, rounded up, that has the highest scores; ties go to the first. A node that is kept reads
// the kept nodes from which one or two edges lead to it.
Pooled pooled(const Neighbours& neighbours, std::span<const float> scores);

}  // namespace placewright::graph_network
