#include "graph_network/attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace placewright::graph_network {

namespace {

constexpr float kSlope = 0.2F;  // slope of the leaky function below 0
constexpr float kTiny = 1e-16F;

// Computes eight sums side by side, which the compiler may keep in vectors.
float dot(const float* one, const float* other, int32_t count) {
    std::array<float, 8> sums{};
    int32_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int32_t lane = 0; lane < 8; ++lane) sums[size_t(lane)] += one[i + lane] * other[i + lane];
    float rest = 0;
    for (; i < count; ++i) rest += one[i] * other[i];
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) + rest;
}

void add_scaled(float* __restrict into, const float* __restrict from, float factor, int32_t count) {
    for (int32_t i = 0; i < count; ++i) into[i] += factor * from[i];
}

// Returns, per node and head, the product of its state with a row of weights.
std::vector<float> products(const Attention& attention, std::span<const float> row, std::span<const float> states) {
    std::vector<float> result(states.size() / size_t(attention.each));
    for (size_t index = 0; index < result.size(); ++index) {
        const size_t head = index % size_t(attention.heads);
        result[index] = dot(states.data() + index * size_t(attention.each), row.data() + head * size_t(attention.each),
                            attention.each);
    }
    return result;
}

// The passes over one node and one head.
struct Pass {
    const Neighbours& neighbours;
    const Attention& attention;
    std::span<const float> states;
    std::vector<float> as_source, as_target;  // [nodes, heads]

    Pass(const Neighbours& neighbours, const Attention& attention, std::span<const float> states)
        : neighbours(neighbours),
          attention(attention),
          states(states),
          as_source(products(attention, attention.of_source, states)),
          as_target(products(attention, attention.of_target, states)) {}

    size_t of(int32_t node, int32_t head) const { return size_t(node) * size_t(attention.heads) + size_t(head); }

    float score(int32_t source, int32_t node, int32_t head) const {
        return as_source[of(source, head)] + as_target[of(node, head)];
    }

    // Writes the share of each neighbour into shares.
    void weigh(int32_t node, int32_t head, std::span<float> shares) const {
        const int32_t first = neighbours.begin[size_t(node)], last = neighbours.begin[size_t(node) + 1];
        float highest = -std::numeric_limits<float>::infinity();
        for (int32_t edge = first; edge < last; ++edge) {
            const float raw = score(neighbours.source[size_t(edge)], node, head);
            const float leaky = raw > 0 ? raw : kSlope * raw;
            shares[of(edge, head)] = leaky;
            highest = std::max(highest, leaky);
        }
        float sum = kTiny;
        for (int32_t edge = first; edge < last; ++edge) {
            float& share = shares[of(edge, head)];
            share = std::exp(share - highest);
            sum += share;
        }
        for (int32_t edge = first; edge < last; ++edge) shares[of(edge, head)] /= sum;
    }

    void gather(int32_t node, int32_t head, std::span<const float> shares, std::span<float> result) const {
        const auto each = size_t(attention.each);
        float* into = result.data() + of(node, head) * each;
        std::copy_n(attention.bias.data() + size_t(head) * each, each, into);
        for (int32_t edge = neighbours.begin[size_t(node)]; edge < neighbours.begin[size_t(node) + 1]; ++edge) {
            const float* from = states.data() + of(neighbours.source[size_t(edge)], head) * each;
            add_scaled(into, from, shares[of(edge, head)], attention.each);
        }
        for (size_t i = 0; i < each; ++i) into[i] = into[i] < 0 ? 0 : into[i];
    }
};

// Accumulates the gradient by the scores and by the states.
struct BackwardPass {
    const Pass& pass;
    std::span<const float> shares;
    std::vector<float> by_source, by_target;  // gradients by as_source and as_target
    std::vector<float> by_share;              // by the shares of the neighbours of one node and head

    BackwardPass(const Pass& pass, std::span<const float> shares)
        : pass(pass), shares(shares), by_source(pass.as_source.size()), by_target(pass.as_target.size()) {}

    // by_result: the gradient by the result of this node and head, with 0 where the result was cut off.
    void scatter(int32_t node, int32_t head, const float* by_result, std::vector<float>& by_states) {
        const auto& [neighbours, attention, states, as_source, as_target] = pass;
        const int32_t first = neighbours.begin[size_t(node)], last = neighbours.begin[size_t(node) + 1];
        by_share.resize(size_t(last - first));
        float mean = 0;
        for (int32_t edge = first; edge < last; ++edge) {
            const size_t from = pass.of(neighbours.source[size_t(edge)], head) * size_t(attention.each);
            const float share = shares[pass.of(edge, head)];
            const float by = dot(by_result, states.data() + from, attention.each);
            add_scaled(by_states.data() + from, by_result, share, attention.each);
            by_share[size_t(edge - first)] = by;
            mean += share * by;
        }
        for (int32_t edge = first; edge < last; ++edge) {
            const int32_t source = neighbours.source[size_t(edge)];
            const float by_leaky = shares[pass.of(edge, head)] * (by_share[size_t(edge - first)] - mean);
            const float by_score = pass.score(source, node, head) > 0 ? by_leaky : kSlope * by_leaky;
            by_source[pass.of(source, head)] += by_score;
            by_target[pass.of(node, head)] += by_score;
        }
    }
};

// Propagates the gradient by products(attention, row, states) to row and states.
void products_back(const Attention& attention, std::span<const float> row, std::span<const float> states,
                   const std::vector<float>& by_products, std::vector<float>& by_row, std::vector<float>& by_states) {
    const auto each = size_t(attention.each);
    for (size_t index = 0; index < by_products.size(); ++index) {
        const size_t head = index % size_t(attention.heads) * each;
        add_scaled(by_row.data() + head, states.data() + index * each, by_products[index], attention.each);
        add_scaled(by_states.data() + index * each, row.data() + head, by_products[index], attention.each);
    }
}

}  // namespace

void attend(const Neighbours& neighbours, const Attention& attention, std::span<const float> states,
            std::span<float> result, std::span<float> shares) {
    const Pass pass(neighbours, attention, states);
    for (int32_t node = 0; node < neighbours.size(); ++node)
        for (int32_t head = 0; head < attention.heads; ++head) {
            pass.weigh(node, head, shares);
            pass.gather(node, head, shares, result);
        }
}

AttentionGradient attend_back(const Neighbours& neighbours, const Attention& attention, std::span<const float> states,
                              std::span<const float> result, std::span<const float> shares,
                              std::span<const float> by_result) {
    const size_t width = attention.width(), each = size_t(attention.each);
    const Pass pass(neighbours, attention, states);
    BackwardPass back(pass, shares);
    AttentionGradient by{std::vector<float>(states.size()), std::vector<float>(width), std::vector<float>(width),
                         std::vector<float>(width)};
    std::vector<float> by_sum(width);
    for (int32_t node = 0; node < neighbours.size(); ++node) {
        for (size_t i = 0; i < width; ++i) {
            const size_t at = size_t(node) * width + i;
            by_sum[i] = result[at] > 0 ? by_result[at] : 0;
            by.bias[i] += by_sum[i];
        }
        for (int32_t head = 0; head < attention.heads; ++head)
            back.scatter(node, head, by_sum.data() + size_t(head) * each, by.states);
    }
    products_back(attention, attention.of_source, states, back.by_source, by.of_source, by.states);
    products_back(attention, attention.of_target, states, back.by_target, by.of_target, by.states);
    return by;
}

}  // namespace placewright::graph_network
