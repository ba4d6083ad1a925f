#include "clustering.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace placewright {

namespace {

// How many vertices are joined into one in a round, about: the order is taken anew before clusters grow further.
constexpr int64_t kGrowth = 4;
// How many times a cluster's share of the work may stand on one device because of groups.
constexpr double kGroupShare = 4;

// Clusters so far, as a graph: an edge for each pair of them with a dependency, however many there are.
struct Quotient {
    std::vector<int32_t> begin{0};
    std::vector<std::pair<int64_t, int32_t>> edges;  // (bytes, successor)
    std::vector<int32_t> in_degree;
    std::vector<double> work;
    std::vector<int32_t> component;  // [vertex] an op of the vertices that must share a device

    int32_t size() const { return static_cast<int32_t>(work.size()); }
    std::span<const std::pair<int64_t, int32_t>> successors(int32_t vertex) const {
        return {edges.data() + begin[vertex], size_t(begin[vertex + 1] - begin[vertex])};
    }
};

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
    std::vector<int32_t> place_;  // [vertex] of its newest edge
};

// Ops that must share a device, joined further as clusters join them.
class Components {
  public:
    Components(const Problem& p, std::span<const int32_t> device_of, const std::vector<double>& work)
        : parent_(p.group), vertices_(p.num_ops), work_(p.num_ops), allowed_(p.allowed) {
        for (int32_t op = 0; op < p.num_ops; ++op) {
            ++vertices_[p.group[op]];
            work_[p.group[op]] += work[op];
            allowed_[op] &= p.everywhere();
            if (!device_of.empty()) allowed_[op] = uint64_t{1} << device_of[op];
        }
    }

    int32_t find(int32_t op) {
        while (parent_[op] != op) op = parent_[op] = parent_[parent_[op]];
        return op;
    }

    // Whether two vertices may become one: with a device for all, and without tying ever more of the graph to one. A
    // component of one vertex may always go where another stands: nothing elsewhere follows it.
    bool may_join(int32_t a, int32_t b, double most_work) {
        a = find(a), b = find(b);
        if (a == b) return true;
        if ((allowed_[a] & allowed_[b]) == 0) return false;
        return vertices_[a] == 1 || vertices_[b] == 1 || work_[a] + work_[b] <= most_work;
    }

    void join(int32_t a, int32_t b) {
        a = find(a), b = find(b);
        --vertices_[a];
        if (a == b) return;
        parent_[b] = a;
        vertices_[a] += vertices_[b];
        work_[a] += work_[b];
        allowed_[a] &= allowed_[b];
    }

  private:
    std::vector<int32_t> parent_;
    std::vector<int32_t> vertices_;
    std::vector<double> work_;
    std::vector<uint64_t> allowed_;
};

std::vector<double> mean_times(const Problem& p) {
    std::vector<double> work(p.num_ops);
    for (int32_t op = 0; op < p.num_ops; ++op) {
        for (int32_t device = 0; device < p.num_devices; ++device) work[op] += double(p.op_time(op, device));
        work[op] /= p.num_devices;
    }
    return work;
}

Quotient every_op(const Problem& p, const std::vector<double>& work) {
    Quotient q;
    EdgeMerger merger(q, p.num_ops);
    for (int32_t op = 0; op < p.num_ops; ++op) {
        for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
            for (int32_t next : p.consumers[tensor]) merger.add(p.remote_bytes[tensor], next);
        for (int32_t next : p.controls[op]) merger.add(0, next);
        merger.end_vertex();
    }
    q.work = work;
    q.component.resize(p.num_ops);
    std::iota(q.component.begin(), q.component.end(), 0);
    return q;
}

// The quotient in which vertices of one label are one; labels count up from 0.
Quotient contracted(const Quotient& fine, const std::vector<int32_t>& label, int32_t num_labels) {
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

// A valid order that stays with what it has begun: of the vertices that became ready last, the one that reads the most.
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

// Cuts a valid order into runs, and labels each vertex with its run: as long as a vertex depends on the run (or
// always, when they need not be connected), the run stays within `most_work`, and both may share a device.
//
// Runs of a valid order never make a cycle: every dependency inside the order goes forwards, so a dependency between
// two runs goes from the earlier to the later.
int32_t cut_into_runs(const Quotient& q, Components& components, double most_work, double most_together, bool connected,
                      std::vector<int32_t>& label) {
    std::vector<int32_t> reads_run(q.size(), -1);
    label.resize(q.size());
    int32_t run = -1, last = -1;
    double work = 0;
    for (int32_t vertex : following_order(q)) {
        const bool joins = last >= 0 && work + q.work[vertex] <= most_work &&
                           (!connected || reads_run[vertex] == run) &&
                           components.may_join(q.component[last], q.component[vertex], most_together);
        if (joins)
            components.join(q.component[last], q.component[vertex]);
        else
            ++run;
        work = joins ? work + q.work[vertex] : q.work[vertex];
        label[vertex] = run;
        last = vertex;
        for (const auto& [bytes, successor] : q.successors(vertex)) reads_run[successor] = run;
    }
    return run + 1;
}

// New numbers for the vertices: a valid order, of those that are ready the one with the earliest op.
std::vector<int32_t> captured_numbers(const Quotient& q, std::span<const int32_t> cluster_of) {
    std::vector<int32_t> first(q.size(), INT32_MAX), missing(q.in_degree), number(q.size());
    for (size_t op = cluster_of.size(); op-- > 0;) first[cluster_of[op]] = static_cast<int32_t>(op);
    using Entry = std::pair<int32_t, int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (int32_t vertex = 0; vertex < q.size(); ++vertex)
        if (missing[vertex] == 0) ready.push({first[vertex], vertex});
    for (int32_t count = 0; !ready.empty(); ++count) {
        const int32_t vertex = ready.top().second;
        ready.pop();
        number[vertex] = count;
        for (const auto& [bytes, successor] : q.successors(vertex))
            if (--missing[successor] == 0) ready.push({first[successor], successor});
    }
    return number;
}

}  // namespace

std::vector<int32_t> cluster_ops(const Problem& problem, int32_t max_clusters, std::span<const int32_t> device_of) {
    std::vector<double> work = mean_times(problem);
    const double total = std::accumulate(work.begin(), work.end(), 0.0);
    Components components(problem, device_of, work);
    Quotient q = every_op(problem, work);
    std::vector<int32_t> cluster_of(problem.num_ops), label;
    std::iota(cluster_of.begin(), cluster_of.end(), 0);
    bool connected = true;
    for (int64_t target = q.size(); q.size() > max_clusters;) {
        target = std::max<int64_t>(max_clusters, target / kGrowth);
        const double cap = 2 * total / double(target);
        const int32_t size = cut_into_runs(q, components, cap, kGroupShare * cap, connected, label);
        const bool stuck = target == max_clusters && double(size) > 0.9 * q.size();
        for (int32_t& own : cluster_of) own = label[own];
        q = contracted(q, label, size);
        if (stuck && !connected) break;
        connected = connected && !stuck;
    }
    const std::vector<int32_t> number = captured_numbers(q, cluster_of);
    for (int32_t& own : cluster_of) own = number[own];
    return cluster_of;
}

}  // namespace placewright
