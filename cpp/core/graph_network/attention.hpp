// Attention of nodes to their neighbours (GAT: Velickovic et al. 2018), and its gradient.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph_network/neighbours.hpp"

namespace placewright::graph_network {

// The weights of a layer, [heads, each]. What a node makes of a neighbour's state counts by the softmax, over its
// neighbours, of leaky(of_source . the neighbour's state + of_target . its own), head by head.
struct Attention {
    int32_t heads = 0, each = 0;
    std::span<const float> of_source, of_target, bias;

    size_t width() const { return size_t(heads) * size_t(each); }
};

// states, result: [nodes, heads, each]. shares: [edges, heads], how much each neighbour counts. What is negative of the
// result is set to 0.
void attend(const Neighbours& neighbours, const Attention& attention, std::span<const float> states,
            std::span<float> result, std::span<float> shares);

struct AttentionGradient {
    std::vector<float> states, of_source, of_target, bias;
};

// By states and weights, where the gradient by the result is given. result, shares: as attend left them.
AttentionGradient attend_back(const Neighbours& neighbours, const Attention& attention, std::span<const float> states,
                              std::span<const float> result, std::span<const float> shares,
                              std::span<const float> by_result);

}  // namespace placewright::graph_network
