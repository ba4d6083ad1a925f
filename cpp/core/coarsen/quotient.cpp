#include "coarsen/quotient.hpp"

#include <algorithm>
#include <numeric>

namespace placewright {

namespace {

// Builds the edges of one vertex after another; several between the same two vertices become one.
class EdgeMerger {
  public:
    EdgeMerger(Quotient& quotient, int32_t size) : q_(quotient), place_(size, -1) { q_.in_degree.assign(size, 0); }

    void add(int64_t bytes, int32_t successor) {
        if (place_[successor] < q_.begin.back()) {
            place_[successor] = static_cast<int32_t>(q_.edges.size());
            q_.edges.push_back({0, successor});
            ++q_.in_degree[successor];
        }
        q_.edges[place_[successor]].first += bytes;
    }
    void end_vertex() { q_.begin.push_back(static_cast<int32_t>(q_.edges.size())); }

  private:
    Quotient& q_;
    std::vector<int32_t> place_;  // [vertex] place of its newest edge
};

}  // namespace

std::vector<double> mean_times(const Problem& p) {
    std::vector<double> work(p.num_ops);
    for (int32_t op = 0; op < p.num_ops; ++op) {
        for (int32_t device = 0; device < p.num_devices; ++device) work[op] += double(p.op_time(op, device));
        work[op] /= p.num_devices;
    }
    return work;
}

Quotient quotient_of(const Problem& p, const std::vector<double>& work) {
    Quotient q;
    EdgeMerger merger(q, p.num_ops);
    for (int32_t op = 0; op < p.num_ops; ++op) {
        for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
            for (int32_t next : p.consumers[tensor]) merger.add(p.transfer_bytes[tensor], next);
        for (int32_t next : p.controls[op]) merger.add(0, next);
        merger.end_vertex();
    }
    q.work = work;
    q.component.resize(p.num_ops);
    std::iota(q.component.begin(), q.component.end(), 0);
    return q;
}

Quotient contracted(const Quotient& fine, std::span<const int32_t> label, int32_t num_labels) {
    std::vector<int32_t> begin(num_labels + 1), member(fine.size());
    for (int32_t own : label) ++begin[own + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<int32_t> next(begin.begin(), begin.end() - 1);
    for (int32_t vertex = 0; vertex < fine.size(); ++vertex) member[next[label[vertex]]++] = vertex;
    Quotient q;
    EdgeMerger merger(q, num_labels);
    q.work.resize(num_labels);
    q.component.resize(num_labels);
    for (int32_t own = 0; own < num_labels; ++own) {
        for (int32_t i = begin[own]; i < begin[own + 1]; ++i) {
            const int32_t vertex = member[i];
            q.work[own] += fine.work[vertex];
            q.component[own] = fine.component[vertex];
            for (const auto& [bytes, successor] : fine.successors(vertex))
                if (label[successor] != own) merger.add(bytes, label[successor]);
        }
        merger.end_vertex();
    }
    return q;
}

std::vector<int32_t> following_order(const Quotient& q) {
    std::vector<int32_t> missing(q.in_degree), order, waiting;
    std::vector<std::pair<int64_t, int32_t>> ready;
    order.reserve(q.size());
    for (int32_t vertex = q.size() - 1; vertex >= 0; --vertex)
        if (missing[vertex] == 0) waiting.push_back(vertex);
    while (!waiting.empty()) {
        const int32_t vertex = waiting.back();
        waiting.pop_back();
        order.push_back(vertex);
        ready.clear();
        for (const auto& [bytes, successor] : q.successors(vertex))
            if (--missing[successor] == 0) ready.push_back({bytes, -successor});
        std::ranges::sort(ready);
        for (const auto& [bytes, negative] : ready) waiting.push_back(-negative);
    }
    return order;
}

std::vector<int32_t> level_order(const Quotient& q) {
    std::vector<int32_t> missing(q.in_degree), order, next;
    order.reserve(q.size());
    for (int32_t vertex = 0; vertex < q.size(); ++vertex)
        if (missing[vertex] == 0) order.push_back(vertex);
    for (size_t i = 0; i < order.size(); ++i)
        for (const auto& [bytes, successor] : q.successors(order[i]))
            if (--missing[successor] == 0) order.push_back(successor);
    return order;
}

std::vector<double> levels(const Quotient& q, std::span<const int32_t> order) {
    std::vector<double> level(q.size());
    for (size_t i = order.size(); i-- > 0;) {
        double longest = 0;
        for (const auto& [bytes, successor] : q.successors(order[i])) longest = std::max(longest, level[successor]);
        level[order[i]] = q.work[order[i]] + longest;
    }
    return level;
}

double longest_path(const Quotient& q) {
    std::vector<int32_t> order(q.size());
    std::iota(order.begin(), order.end(), 0);
    return std::ranges::max(levels(q, order));
}

}  // namespace placewright
