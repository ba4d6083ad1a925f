#include "coarsen/chain_clusters.hpp"

#include <algorithm>
#include <numeric>

#include "support/disjoint_sets.hpp"

namespace placewright {

namespace {

constexpr int kMaxPasses = 12;

// Merges ops step by step. A cluster is identified by the op at the root of its set.
class Merging {
  public:
    Merging(const Problem& problem, int64_t cap_ns)
        : problem_(problem),
          cap_(cap_ns),
          clusters_(problem.num_ops),
          sharing_(problem.num_ops),
          work_(problem.num_ops) {
        for (int32_t op = 0; op < problem.num_ops; ++op) {
            for (int32_t device = 0; device < problem.num_devices; ++device) work_[op] += problem.op_time(op, device);
            work_[op] /= problem.num_devices;
        }
        shared_work_ = work_;
        for (int32_t op = 0; op < problem.num_ops; ++op) share(op, problem.group[op]);
    }

    // Makes one pass; returns whether anything was merged.
    bool pass(bool by_successor) {
        bool merged = false;
        for (const Edge& edge : lone_edges(by_successor)) merged |= merge(edge.op, edge.neighbour);
        return merged;
    }

    // Returns the cluster of each op, numbered in topological order (Kahn 1962).
    std::vector<int32_t> numbered() {
        std::vector<int32_t> waits(problem_.num_ops), number_of(problem_.num_ops, -1);
        std::vector<std::pair<int32_t, int32_t>> edges;
        for_each_edge([&](int32_t source, int32_t target, int64_t) {
            const int32_t a = clusters_.find(source), b = clusters_.find(target);
            if (a != b) edges.emplace_back(a, b);
        });
        std::ranges::sort(edges);
        for (const auto& [a, b] : edges) ++waits[b];
        std::vector<int32_t> ready;
        for (int32_t op = 0; op < problem_.num_ops; ++op)
            if (clusters_.find(op) == op && waits[op] == 0) ready.push_back(op);
        for (size_t place = 0; place < ready.size(); ++place) {
            number_of[ready[place]] = static_cast<int32_t>(place);
            const auto own = std::ranges::equal_range(edges, ready[place], {}, [](auto& edge) { return edge.first; });
            for (const auto& [a, b] : own)
                if (--waits[b] == 0) ready.push_back(b);
        }
        std::vector<int32_t> cluster_of(problem_.num_ops);
        for (int32_t op = 0; op < problem_.num_ops; ++op) cluster_of[op] = number_of[clusters_.find(op)];
        return cluster_of;
    }

  private:
    static constexpr int32_t kNone = -1, kSeveral = -2;
    struct Edge {
        int64_t bytes;
        int32_t op, neighbour;
    };

    template <class F>
    void for_each_edge(F&& f) const {
        for (int32_t op = 0; op < problem_.num_ops; ++op) {
            for (int32_t tensor : problem_.inputs[op])
                f(problem_.producer[tensor], op, problem_.transfer_bytes[tensor]);
            for (int32_t next : problem_.controls[op]) f(op, next, int64_t{0});
        }
    }

    // Returns, for every cluster with a single neighbour on that side, the edge to it, the heaviest first.
    std::vector<Edge> lone_edges(bool by_successor) {
        std::vector<int32_t> neighbour(problem_.num_ops, kNone);
        std::vector<int64_t> bytes(problem_.num_ops);
        for_each_edge([&](int32_t source, int32_t target, int64_t size) {
            const int32_t a = clusters_.find(source), b = clusters_.find(target);
            if (a == b) return;
            const int32_t own = by_successor ? a : b, other = by_successor ? b : a;
            neighbour[own] = neighbour[own] == kNone || neighbour[own] == other ? other : kSeveral;
            bytes[own] += size;
        });
        std::vector<Edge> edges;
        for (int32_t op = 0; op < problem_.num_ops; ++op)
            if (neighbour[op] >= 0) edges.push_back({bytes[op], op, neighbour[op]});
        std::ranges::stable_sort(edges, std::ranges::greater{}, &Edge::bytes);
        return edges;
    }

    bool merge(int32_t a, int32_t b) {
        const int32_t first = clusters_.find(a), second = clusters_.find(b);
        if (problem_.allowed[a] != problem_.allowed[b] || work_[first] + work_[second] > cap_ || !share(a, b))
            return false;
        const int64_t sum = work_[first] + work_[second];
        work_[clusters_.join(first, second)] = sum;
        return true;
    }

    // Lets two ops share a device if the cap permits; groups always do. Returns whether they share one.
    bool share(int32_t a, int32_t b) {
        const int32_t first = sharing_.find(a), second = sharing_.find(b);
        if (first == second) return true;
        const int64_t sum = shared_work_[first] + shared_work_[second];
        if (sum > cap_ && problem_.group[a] != problem_.group[b]) return false;
        shared_work_[sharing_.join(first, second)] = sum;
        return true;
    }

    const Problem& problem_;
    const int64_t cap_;
    DisjointSets clusters_, sharing_;
    std::vector<int64_t> work_;         // [root of a cluster] ns
    std::vector<int64_t> shared_work_;  // [root of ops that share a device] ns
};

}  // namespace

std::vector<int32_t> chain_clusters(const Problem& problem, int64_t cap_ns) {
    Merging merging(problem, cap_ns);
    for (int pass = 0, idle = 0; pass < kMaxPasses && idle < 2; ++pass)
        idle = merging.pass(pass % 2 == 0) ? 0 : idle + 1;
    return merging.numbered();
}

}  // namespace placewright
