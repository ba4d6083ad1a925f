// Attention of nodes to their neighbours (GAT: Velickovic et al. 2018), and its gradient.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph_network/neighbours.hpp"

namespace placewright::graph_network {

// The weights of a layer, [heads, each]. Head by head, a node weighs the states of its neighbours by the softmax over
// them of leaky(of_source . the neighbour's state + of_target . its own).
struct Attention {
    int32_t heads = 0, each = 0;
    std::span<const float> of_source, of_target, bias;

    size_t width() const { return size_t(heads) * size_t(each); }
};

// Computes the new states. states, result: [nodes, heads, each]. shares: [edges, heads], the weight of each neighbour.
// Negative results are set to 0.
void attend(const Neighbours& neighbours, const Attention& attention, std::span<const float> states,
            std::span<float> result, std::span<float> shares);

struct AttentionGradient {
    std::vector<float> states, of_source, of_target, bias;
};

// Returns the gradient by states and weights, given the gradient by the result. result, shares: as attend left them.
AttentionGradient attend_back(const Neighbours& neighbours, const Attention& attention, std::span<const float> states,
                              std::span<const float> result, std::span<const float> shares,
                              std::span<const float> by_result);

}  // namespace placewright::graph_network
