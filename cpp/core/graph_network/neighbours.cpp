#include "graph_network/neighbours.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace placewright::graph_network {

namespace {

// Lists of sources, written node by node; each source occurs once in a list.
class Lists {
  public:
    Lists(int32_t copies, int32_t nodes) : listed_by_(size_t(copies) * size_t(nodes), -1) {
        made_.copies = copies;
        made_.nodes = nodes;
        made_.begin.push_back(0);
    }

    void add(int32_t source) {
        const auto node = int32_t(made_.begin.size()) - 1;
        if (listed_by_[size_t(source)] == node) return;
        listed_by_[size_t(source)] = node;
        made_.source.push_back(source);
    }

    void end_node() { made_.begin.push_back(int32_t(made_.source.size())); }

    Neighbours take() { return std::move(made_); }

  private:
    Neighbours made_;
    std::vector<int32_t> listed_by_;  // the last node whose list has the source
};

std::span<const int32_t> sources_of(const Neighbours& of, int32_t node) {
    const auto first = size_t(of.begin[size_t(node)]), last = size_t(of.begin[size_t(node) + 1]);
    return std::span(of.source).subspan(first, last - first);
}

// Adds the nodes of a copy that are kept, ascending. NaN counts as the lowest score.
void keep_highest(std::span<const float> scores, int32_t first, std::vector<int32_t>& order,
                  std::vector<int64_t>& kept) {
    const auto score = [&](int32_t node) {
        const float value = scores[size_t(first + node)];
        return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
    };
    const auto before = [&](int32_t a, int32_t b) { return score(a) != score(b) ? score(a) > score(b) : a < b; };
    std::iota(order.begin(), order.end(), 0);
    const auto half = order.begin() + std::ptrdiff_t((order.size() + 1) / 2);
    std::nth_element(order.begin(), half, order.end(), before);
    std::sort(order.begin(), half);
    for (auto node = order.begin(); node != half; ++node) kept.push_back(first + *node);
}

}  // namespace

Neighbours side_by_side(std::span<const int64_t> source, std::span<const int64_t> target, int32_t nodes,
                        int32_t copies) {
    std::vector<std::vector<int32_t>> of_one(static_cast<size_t>(nodes));
    for (size_t edge = 0; edge < source.size(); ++edge) of_one[size_t(target[edge])].push_back(int32_t(source[edge]));
    Lists lists(copies, nodes);
    for (int32_t copy = 0; copy < copies; ++copy)
        for (int32_t node = 0; node < nodes; ++node) {
            lists.add(copy * nodes + node);
            for (const int32_t from : of_one[size_t(node)]) lists.add(copy * nodes + from);
            lists.end_node();
        }
    return lists.take();
}

Pooled pooled(const Neighbours& neighbours, std::span<const float> scores) {
    Pooled result;
    std::vector<int32_t> order(static_cast<size_t>(neighbours.nodes));
    for (int32_t copy = 0; copy < neighbours.copies; ++copy)
        keep_highest(scores, copy * neighbours.nodes, order, result.kept);
    std::vector<int32_t> number(size_t(neighbours.size()), -1);
    for (size_t index = 0; index < result.kept.size(); ++index) number[size_t(result.kept[index])] = int32_t(index);
    Lists lists(neighbours.copies, (neighbours.nodes + 1) / 2);
    for (const int64_t node : result.kept) {
        for (const int32_t between : sources_of(neighbours, int32_t(node)))
            for (const int32_t from : sources_of(neighbours, between))
                if (number[size_t(from)] >= 0) lists.add(number[size_t(from)]);
        lists.end_node();
    }
    result.neighbours = lists.take();
    return result;
}

}  // namespace placewright::graph_network
