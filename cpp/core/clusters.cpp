#include "clusters.hpp"

#include <algorithm>
#include <numeric>

#include "disjoint_sets.hpp"

namespace placewright {

namespace {

constexpr int kMaxPasses = 12;

// Merges ops step by step. A cluster is known by the op at the root of its set.
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

    // Whether anything was merged.
    bool pass(bool by_successor) {
        bool merged = false;
        for (const Edge& edge : lone_edges(by_successor)) merged |= merge(edge.op, edge.neighbour);
        return merged;
    }

    Clusters take() {
        Clusters result;
        number(result);
        result.together.assign(result.count, INT32_MAX);
        std::vector<int32_t> first(problem_.num_ops, INT32_MAX);
        for (int32_t op = 0; op < problem_.num_ops; ++op) {
            int32_t& least = first[sharing_.find(op)];
            least = std::min(least, result.cluster_of[op]);
        }
        for (int32_t op = 0; op < problem_.num_ops; ++op)
            result.together[result.cluster_of[op]] = first[sharing_.find(op)];
        return result;
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
            for (int32_t tensor : problem_.inputs[op]) f(problem_.producer[tensor], op, problem_.remote_bytes[tensor]);
            for (int32_t next : problem_.controls[op]) f(op, next, int64_t{0});
        }
    }

    // From every cluster with one neighbour on that side the edge to it, the heaviest first.
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

    // Lets two ops share a device; groups always do.
    bool share(int32_t a, int32_t b) {
        const int32_t first = sharing_.find(a), second = sharing_.find(b);
        if (first == second) return true;
        const int64_t sum = shared_work_[first] + shared_work_[second];
        if (sum > cap_ && problem_.group[a] != problem_.group[b]) return false;
        shared_work_[sharing_.join(first, second)] = sum;
        return true;
    }

    // Numbers the clusters in a topological sequence (Kahn 1962).
    void number(Clusters& result) {
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
            const auto [begin, end] =
                std::ranges::equal_range(edges, ready[place], {}, [](auto& e) { return e.first; });
            for (const auto& [a, b] : std::ranges::subrange(begin, end))
                if (--waits[b] == 0) ready.push_back(b);
        }
        result.count = static_cast<int32_t>(ready.size());
        result.cluster_of.resize(problem_.num_ops);
        for (int32_t op = 0; op < problem_.num_ops; ++op) result.cluster_of[op] = number_of[clusters_.find(op)];
    }

    const Problem& problem_;
    const int64_t cap_;
    DisjointSets clusters_, sharing_;
    std::vector<int64_t> work_;         // [root of a cluster] ns
    std::vector<int64_t> shared_work_;  // [root of what shares a device] ns
};

std::vector<int32_t> without_repeats(std::vector<int32_t> values) {
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
}

// The tensors that other clusters read or that stay to the end, sorted by cluster.
std::vector<int32_t> leaving_tensors(const Problem& problem, const Clusters& clusters) {
    const auto cluster = [&](int32_t tensor) { return clusters.cluster_of[problem.producer[tensor]]; };
    std::vector<int32_t> leaving;
    for (int32_t tensor = 0; tensor < problem.num_tensors; ++tensor) {
        const auto leaves = [&](int32_t reader) { return clusters.cluster_of[reader] != cluster(tensor); };
        if (problem.kept[tensor] || std::ranges::any_of(problem.consumers[tensor], leaves)) leaving.push_back(tensor);
    }
    std::ranges::stable_sort(leaving, {}, cluster);
    return leaving;
}

void add_tensors(Problem& small, const Problem& problem, const Clusters& clusters) {
    const std::vector<int32_t> leaving = leaving_tensors(problem, clusters);
    std::vector<int32_t> new_of(problem.num_tensors, -1);
    small.num_tensors = static_cast<int32_t>(leaving.size());
    small.output_begin.assign(clusters.count + 1, 0);
    for (int32_t tensor = 0; tensor < small.num_tensors; ++tensor) {
        const int32_t old = leaving[tensor];
        new_of[old] = tensor;
        ++small.output_begin[clusters.cluster_of[problem.producer[old]] + 1];
        small.home_bytes.push_back(problem.home_bytes[old]);
        small.remote_bytes.push_back(problem.remote_bytes[old]);
        small.kept.push_back(problem.kept[old]);
    }
    std::partial_sum(small.output_begin.begin(), small.output_begin.end(), small.output_begin.begin());
    for (int32_t tensor = 0; tensor < small.num_tensors; ++tensor) {
        const int32_t base = new_of[problem.storage[leaving[tensor]]];
        small.storage.push_back(base < 0 ? tensor : base);
    }
    std::vector<std::vector<int32_t>> inputs(clusters.count);
    for (int32_t op = 0; op < problem.num_ops; ++op)
        for (int32_t tensor : problem.inputs[op])
            if (clusters.cluster_of[problem.producer[tensor]] != clusters.cluster_of[op])
                inputs[clusters.cluster_of[op]].push_back(new_of[tensor]);
    for (auto& own : inputs) own = without_repeats(std::move(own));
    small.inputs = Csr::from_rows(inputs);
}

}  // namespace

Clusters cluster_ops(const Problem& problem, int64_t cap_ns) {
    Merging merging(problem, cap_ns);
    for (int pass = 0, idle = 0; pass < kMaxPasses && idle < 2; ++pass)
        idle = merging.pass(pass % 2 == 0) ? 0 : idle + 1;
    return merging.take();
}

Problem contracted(const Problem& problem, const Clusters& clusters) {
    Problem small;
    small.num_ops = clusters.count;
    small.num_devices = problem.num_devices;
    small.op_time_ns.assign(size_t(clusters.count) * size_t(problem.num_devices), 0);
    small.workspace_bytes.assign(clusters.count, 0);
    small.group = clusters.together;
    small.allowed.assign(clusters.count, 0);
    std::vector<std::vector<int32_t>> controls(clusters.count), residents(clusters.count);
    for (int32_t op = 0; op < problem.num_ops; ++op) {
        const int32_t cluster = clusters.cluster_of[op];
        for (int32_t device = 0; device < problem.num_devices; ++device)
            small.op_time_ns[size_t(cluster) * size_t(problem.num_devices) + size_t(device)] +=
                problem.op_time(op, device);
        small.workspace_bytes[cluster] = std::max(small.workspace_bytes[cluster], problem.workspace_bytes[op]);
        small.allowed[cluster] = problem.allowed[op];
        for (int32_t next : problem.controls[op])
            if (clusters.cluster_of[next] != cluster) controls[cluster].push_back(clusters.cluster_of[next]);
        residents[cluster].insert(residents[cluster].end(), problem.residents[op].begin(), problem.residents[op].end());
    }
    for (auto& own : controls) own = without_repeats(std::move(own));
    for (auto& own : residents) own = without_repeats(std::move(own));
    small.controls = Csr::from_rows(controls);
    small.residents = Csr::from_rows(residents);
    small.resident_bytes = problem.resident_bytes;
    add_tensors(small, problem, clusters);
    small.latency_ns = problem.latency_ns;
    small.inverse_bandwidth = problem.inverse_bandwidth;
    small.memory_limit = problem.memory_limit;
    small.blocking = problem.blocking;
    small.signals = problem.signals;
    small.minimize_memory = problem.minimize_memory;
    small.finish();
    return small;
}

}  // namespace placewright
