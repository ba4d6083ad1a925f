#include "coarsen/clustering.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <utility>

#include "coarsen/quotient.hpp"
#include "support/disjoint_sets.hpp"

namespace placewright {

namespace {

// About how many vertices a round joins into one; the order is computed anew before clusters grow further.
constexpr int64_t kGrowth = 4;
// How many times a cluster's share of the work groups may tie to one device.
constexpr double kGroupShare = 4;
// How much longer the critical path may become, unless the work divided over the devices takes longer anyway.
constexpr double kStretch = 1.1;
// The share of clusters that may remain after a round, for the round to be worth it.
constexpr double kLeastGain = 0.9;
// The share of the best path so far that the path of another rule must be below.
constexpr double kMuchShorter = 0.95;

// The ops that must share a device, which clusters join further.
class Components {
  public:
    Components(const Problem& p, const std::vector<double>& work)
        : sets_(p.num_ops), vertices_(p.num_ops), work_(p.num_ops), allowed_(p.num_ops) {
        for (int32_t first = 0; first < p.num_ops; ++first) {
            if (p.members[first].empty()) continue;
            int32_t root = first;
            for (int32_t op : p.members[first]) root = sets_.join(root, sets_.find(op));
            vertices_[root] = static_cast<int32_t>(p.members[first].size());
            for (int32_t op : p.members[first]) work_[root] += work[op];
            allowed_[root] = p.allowed[first] & p.everywhere();
        }
    }

    // Returns whether two vertices may become one: all must have a common device, and not ever more of the graph may be
    // tied to one. A component of one vertex may always join another: nothing elsewhere follows it.
    bool may_join(int32_t a, int32_t b, double max_work) {
        a = sets_.find(a), b = sets_.find(b);
        if (a == b) return true;
        if ((allowed_[a] & allowed_[b]) == 0) return false;
        return vertices_[a] == 1 || vertices_[b] == 1 || work_[a] + work_[b] <= max_work;
    }

    void join(int32_t a, int32_t b) {
        a = sets_.find(a), b = sets_.find(b);
        --vertices_[a];
        if (a == b) return;
        const int32_t root = sets_.join(a, b), other = root == a ? b : a;
        vertices_[root] += vertices_[other];
        work_[root] += work_[other];
        allowed_[root] &= allowed_[other];
    }

  private:
    DisjointSets sets_;
    std::vector<int32_t> vertices_;  // [root]; so are all below
    std::vector<double> work_;
    std::vector<uint64_t> allowed_;
};

enum class Order { along, across };

// The limits of a run.
struct RunLimits {
    double work;      // of a run
    double together;  // of ops that must share a device
    double path;      // from the start to the end of the step through a run, with as many devices as there are runs
    bool connected;   // a vertex joins only what it reads
};

// Cuts a valid order into runs, and labels each vertex with its run. A vertex joins the run before it unless a limit
// forbids that. Runs of a valid order never form a cycle: every dependency goes forwards in the order, so a dependency
// between two runs goes from the earlier to the later.
class RunCutter {
  public:
    RunCutter(const Quotient& q, Components& components, const RunLimits& limits)
        : q_(q),
          components_(components),
          limits_(limits),
          label_(q.size(), -1),
          reads_(q.size(), -1),
          ready_(q.size()) {}

    // Returns the number of runs.
    int32_t cut(std::span<const int32_t> order) {
        level_ = levels(q_, order);
        for (int32_t vertex : order) {
            if (run_ < 0 || !joins(vertex)) begin_run();
            add(vertex);
        }
        return run_ + 1;
    }

    std::vector<int32_t> take_labels() && { return std::move(label_); }

  private:
    bool joins(int32_t vertex) {
        if (work_ + q_.work[vertex] > limits_.work || (limits_.connected && reads_[vertex] != run_)) return false;
        if (!components_.may_join(q_.component[members_.back()], q_.component[vertex], limits_.together)) return false;
        const double finish = std::max(start_, ready_[vertex]) + work_ + q_.work[vertex];
        return finish + std::max(exposed(vertex), level_[vertex] - q_.work[vertex]) <= limits_.path;
    }

    // Returns the longest path to the end from a vertex outside that reads the run, if `vertex` were part of it.
    double exposed(int32_t vertex) {
        while (!exposed_.empty() && label_[exposed_.top().second] == run_) exposed_.pop();
        if (exposed_.empty() || exposed_.top().second != vertex) return exposed_.empty() ? 0 : exposed_.top().first;
        const auto own = exposed_.top();
        while (!exposed_.empty() && (exposed_.top().second == vertex || label_[exposed_.top().second] == run_))
            exposed_.pop();
        const double result = exposed_.empty() ? 0 : exposed_.top().first;
        exposed_.push(own);
        return result;
    }

    void begin_run() {
        for (int32_t member : members_)
            for (const auto& [bytes, successor] : q_.successors(member))
                ready_[successor] = std::max(ready_[successor], start_ + work_);
        members_.clear();
        exposed_ = {};
        ++run_;
        start_ = work_ = 0;
    }

    void add(int32_t vertex) {
        if (!members_.empty()) components_.join(q_.component[members_.back()], q_.component[vertex]);
        start_ = std::max(start_, ready_[vertex]);
        work_ += q_.work[vertex];
        label_[vertex] = run_;
        members_.push_back(vertex);
        for (const auto& [bytes, successor] : q_.successors(vertex)) {
            reads_[successor] = run_;
            exposed_.push({level_[successor], successor});
        }
    }

    const Quotient& q_;
    Components& components_;
    const RunLimits& limits_;
    std::vector<int32_t> label_;  // [vertex]
    std::vector<int32_t> reads_;  // [vertex] the last run it reads
    std::vector<double> ready_;   // [vertex] when the runs it reads have finished, each as early as it can
    std::vector<double> level_;
    int32_t run_ = -1;
    double start_ = 0, work_ = 0;
    std::vector<int32_t> members_;
    std::priority_queue<std::pair<double, int32_t>> exposed_;  // vertices that read the run, some of them in it
};

// Returns new numbers for the vertices in a valid order: always the ready vertex with the earliest op.
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

// The clusters after some rounds.
struct Stage {
    Components components;
    Quotient quotient;
    double path = INFINITY;      // the longest path of work
    std::vector<int32_t> label;  // [vertex of the stage before]
};

Stage join_runs(const Stage& before, const RunLimits& limits, Order order) {
    const Quotient& q = before.quotient;
    Stage stage{before.components, {}, 0, {}};
    RunCutter cutter(q, stage.components, limits);
    const int32_t size = cutter.cut(order == Order::across ? level_order(q) : following_order(q));
    stage.label = std::move(cutter).take_labels();
    stage.quotient = contracted(q, stage.label, size);
    stage.path = longest_path(stage.quotient);
    return stage;
}

// Makes rounds of runs, in each of which clusters grow by about kGrowth, until there are few enough.
class Clustering {
  public:
    Clustering(const Problem& p, const std::vector<double>& work)
        : total_(std::accumulate(work.begin(), work.end(), 0.0)),
          together_(total_ / (8 * p.num_devices)),
          now_{Components(p, work), quotient_of(p, work), 0, {}},
          cluster_of_(p.num_ops) {
        std::iota(cluster_of_.begin(), cluster_of_.end(), 0);
        now_.path = longest_path(now_.quotient);
        max_path_ = std::max(kStretch * now_.path, total_ / (2 * p.num_devices));
    }

    std::vector<int32_t> clusters(int32_t max_clusters) {
        int64_t target = now_.quotient.size();
        for (bool gains = true; size() > max_clusters && (gains || target > max_clusters);) {
            target = std::max<int64_t>(max_clusters, target / kGrowth);
            gains = connected_round(2 * total_ / double(target));
        }
        for (bool gains = true; size() > max_clusters && gains;)
            gains = take(join_runs(now_, {2 * total_ / max_clusters, together_, total_, false}, Order::along));
        const std::vector<int32_t> number = captured_numbers(now_.quotient, cluster_of_);
        for (int32_t& own : cluster_of_) own = number[own];
        return std::move(cluster_of_);
    }

  private:
    int32_t size() const { return now_.quotient.size(); }
    bool is_smaller(const Stage& stage) const { return double(stage.quotient.size()) < kLeastGain * double(size()); }

    // Takes the first rule that makes a difference, unless it makes the critical path longer and a later one does so
    // less: along dependencies, with groups apart; with groups tied together; with any length of the path; and at last
    // across them, for ops that may run at the same time. Returns whether any rule made a difference.
    bool connected_round(double share) {
        const std::pair<RunLimits, Order> rules[] = {{{share, kGroupShare * share, max_path_, true}, Order::along},
                                                     {{share, together_, max_path_, true}, Order::along},
                                                     {{share, together_, total_, true}, Order::along},
                                                     {{share, together_, max_path_, false}, Order::across}};
        Stage best{now_.components, {}, INFINITY, {}};
        for (const auto& [limits, order] : rules) {
            Stage stage = join_runs(now_, limits, order);
            if (!is_smaller(stage)) continue;
            const bool is_free = stage.path <= kStretch * now_.path;
            if (stage.path < kMuchShorter * best.path) best = std::move(stage);
            if (is_free) break;
        }
        return !best.label.empty() && take(std::move(best));
    }

    bool take(Stage&& stage) {
        const bool gains = is_smaller(stage);
        for (int32_t& own : cluster_of_) own = stage.label[own];
        now_ = std::move(stage);
        return gains;
    }

    double total_, together_, max_path_ = 0;
    Stage now_;
    std::vector<int32_t> cluster_of_;  // [op] vertex of the quotient
};

}  // namespace

std::vector<int32_t> cluster_ops(const Problem& problem, int32_t max_clusters) {
    return Clustering(problem, mean_times(problem)).clusters(max_clusters);
}

}  // namespace placewright
