// Tests of attention and pooling of copies of a graph, by hand and by finite differences.
#include <algorithm>
#include <cmath>
#include <vector>

#include "check.hpp"
#include "graph_network/attention.hpp"
#include "graph_network/neighbours.hpp"
#include "support/random.hpp"

namespace placewright::testing {

namespace {

using graph_network::Attention;
using graph_network::Neighbours;

bool is_near(double one, double other, double within) { return std::abs(one - other) <= within; }

// The chain 0 - 1 - 2 - ... with edges both ways.
Neighbours chain(int32_t nodes, int32_t copies) {
    std::vector<int64_t> source, target;
    for (int64_t node = 0; node + 1 < nodes; ++node) {
        source.insert(source.end(), {node, node + 1});
        target.insert(target.end(), {node + 1, node});
    }
    return graph_network::side_by_side(source, target, nodes, copies);
}

std::vector<int32_t> heard_by(const Neighbours& of, int32_t node) {
    const auto at = [&](int32_t index) { return of.source.begin() + of.begin[size_t(index)]; };
    std::vector<int32_t> found(at(node), at(node + 1));
    std::ranges::sort(found);
    return found;
}

struct Layer {
    std::vector<float> states, of_source, of_target, bias;
    int32_t heads;

    Attention attention() const { return {heads, int32_t(of_source.size()) / heads, of_source, of_target, bias}; }
};

Layer random_layer(int32_t nodes, int32_t heads, int32_t each, uint64_t seed) {
    const RandomStream stream(seed, 0, 0, 0);
    uint64_t next = 0;
    const auto drawn = [&](size_t count) {
        std::vector<float> values(count);
        for (float& value : values) value = float(stream.below(next++, 2001)) / 1000 - 1;
        return values;
    };
    const auto width = size_t(heads) * size_t(each);
    return {drawn(size_t(nodes) * width), drawn(width), drawn(width), drawn(width), heads};
}

std::vector<float> attended(const Neighbours& neighbours, const Layer& layer) {
    std::vector<float> result(layer.states.size()), shares(neighbours.source.size() * size_t(layer.heads));
    graph_network::attend(neighbours, layer.attention(), layer.states, result, shares);
    return result;
}

// Returns a sum of the results whose weights differ, so that no errors of a gradient cancel out.
double weighed(const std::vector<float>& result) {
    double sum = 0;
    for (size_t i = 0; i < result.size(); ++i) sum += double(result[i]) * double(i % 7 + 1);
    return sum;
}

constexpr float kStep = 1e-3F;

// Returns the gradient of weighed(attended(...)).
graph_network::AttentionGradient gradient(const Neighbours& neighbours, const Layer& layer) {
    std::vector<float> result(layer.states.size()), shares(neighbours.source.size() * size_t(layer.heads));
    graph_network::attend(neighbours, layer.attention(), layer.states, result, shares);
    std::vector<float> by_result(result.size());
    for (size_t i = 0; i < result.size(); ++i) by_result[i] = float(i % 7 + 1);
    return graph_network::attend_back(neighbours, layer.attention(), layer.states, result, shares, by_result);
}

}  // namespace

TEST("a node listens to itself and to those with an edge to it, in its own copy") {
    const Neighbours of = chain(3, 2);
    CHECK((heard_by(of, 0) == std::vector<int32_t>{0, 1}));
    CHECK((heard_by(of, 1) == std::vector<int32_t>{0, 1, 2}));
    CHECK((heard_by(of, 5) == std::vector<int32_t>{4, 5}));
    CHECK(of.source[size_t(of.begin[5])] == 5);
}

TEST("pooling keeps the better half of each copy, and edges skip what is left out") {
    // In 0 - 1 - 2 - 3 - 4 the highest three are 0, 2 and 4, two steps from each other; in the second copy, whose
    // scores are equal, the first three are kept.
    const std::vector<float> scores{3, 1, 3, 1, 2, 5, 5, 5, 5, 5};
    const auto found = graph_network::pooled(chain(5, 2), scores);
    CHECK((found.kept == std::vector<int64_t>{0, 2, 4, 5, 6, 7}));
    CHECK(found.neighbours.nodes == 3);
    CHECK((heard_by(found.neighbours, 0) == std::vector<int32_t>{0, 1}));
    CHECK((heard_by(found.neighbours, 1) == std::vector<int32_t>{0, 1, 2}));
    CHECK((heard_by(found.neighbours, 3) == std::vector<int32_t>{3, 4, 5}));
}

TEST("pooling keeps one node of one, and what is no number counts least") {
    const auto one = graph_network::pooled(chain(1, 1), std::vector<float>{-1});
    CHECK((one.kept == std::vector<int64_t>{0}));
    const auto two = graph_network::pooled(chain(2, 1), std::vector<float>{std::nanf(""), -9});
    CHECK((two.kept == std::vector<int64_t>{1}));
}

TEST("attention is the mean of the neighbours' states where nobody counts more, plus the bias, and not negative") {
    // One head of one number. The weights are 0, so nodes 0 and 1 of the chain read (2 + 4) / 2 and (2 + 4 - 9) / 3.
    const Layer layer{{2, 4, -9}, {0}, {0}, {0.5F}, 1};
    const auto result = attended(chain(3, 1), layer);
    CHECK(is_near(result[0], 3.5, 1e-6));
    CHECK(result[1] == 0);  // -1 + 0.5
    CHECK(result[2] == 0);
}

TEST("shares are the softmax of leaky sums of products") {
    // There are two nodes. Node 0 scores itself 1 * 1 + 2 * 1 = 3, and its neighbour -1 * 1 + 2 * 1 = 1; node 1 scores
    // 1 - 2 = -1 and -1 - 2 = -3, a fifth of which counts.
    const Layer layer{{1, -1}, {1}, {2}, {1}, 1};
    const auto result = attended(chain(2, 1), layer);
    CHECK(is_near(result[0], 1 + std::tanh(1.0), 1e-6));
    CHECK(is_near(result[1], 1 + std::tanh(0.2), 1e-6));
}

TEST("gradients of attention are those of differences") {
    for (uint64_t seed = 0; seed < 5; ++seed) {
        current_seed = seed;
        const Neighbours neighbours = chain(4, 2);
        Layer layer = random_layer(neighbours.size(), 2, 3 + int32_t(seed) * 4, seed);
        for (float& bias : layer.bias) bias += 5;  // so that nothing is cut off
        const auto by = gradient(neighbours, layer);
        const auto agrees = [&](std::vector<float>& values, const std::vector<float>& found) {
            for (size_t i = 0; i < values.size(); ++i) {
                const float before = values[i];
                values[i] = before + kStep;
                const double above = weighed(attended(neighbours, layer));
                values[i] = before - kStep;
                const double below = weighed(attended(neighbours, layer));
                values[i] = before;
                CHECK(is_near((above - below) / (2 * double(kStep)), found[i], 0.05 + 0.02 * std::abs(found[i])));
            }
        };
        agrees(layer.states, by.states);
        agrees(layer.of_source, by.of_source);
        agrees(layer.of_target, by.of_target);
        agrees(layer.bias, by.bias);
    }
}

TEST("results that were cut off lead no gradient on") {
    const Neighbours neighbours = chain(4, 1);
    Layer layer = random_layer(neighbours.size(), 2, 4, 9);
    for (float& bias : layer.bias) bias -= 5;
    const auto by = gradient(neighbours, layer);
    for (const auto* each : {&by.states, &by.of_source, &by.of_target, &by.bias})
        CHECK(std::ranges::all_of(*each, [](float value) { return value == 0; }));
}

}  // namespace placewright::testing
