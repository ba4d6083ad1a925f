#include <algorithm>
#include <numeric>
#include <utility>

#include "clustering.hpp"
#include "quotient.hpp"

namespace placewright {

namespace {

// What each device is running while a solution is walked through.
class OpenClusters {
  public:
    OpenClusters(const Problem& p, const PlacedOrder& solution, double most_work)
        : p_(p),
          device_of_(solution.device_of),
          most_work_(most_work),
          cluster_of_(p.num_ops, -1),
          open_(p.num_devices, -1),
          work_(p.num_devices) {}

    // A cluster that another device reads is closed, so clusters in the sequence of their last ops are in a valid
    // order. An op that reads what was not there when its device's cluster began does not join it: the cluster would
    // wait.
    void add(int32_t op, double work) {
        const int32_t device = device_of_[op];
        for (int32_t tensor : p_.inputs[op]) close_before(p_.producer[tensor], device);
        for (int32_t previous : p_.predecessors[op]) close_before(previous, device);
        if (open_[device] < 0 || work_[device] + work > most_work_) begin(device);
        cluster_of_[op] = open_[device];
        work_[device] += work;
        last_[open_[device]] = count_++;
    }

    std::vector<int32_t> numbered() && {
        std::vector<int32_t> order(last_.size()), number(last_.size());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::sort(order, {}, [&](int32_t own) { return last_[own]; });
        for (size_t i = 0; i < order.size(); ++i) number[order[i]] = static_cast<int32_t>(i);
        for (int32_t& own : cluster_of_) own = number[own];
        return std::move(cluster_of_);
    }

  private:
    void close_before(int32_t previous, int32_t device) {
        const int32_t other = device_of_[previous];
        if (other == device) return;
        if (open_[other] == cluster_of_[previous]) open_[other] = -1;
        if (open_[device] >= 0 && last_[cluster_of_[previous]] > began_[open_[device]]) open_[device] = -1;
    }

    void begin(int32_t device) {
        open_[device] = static_cast<int32_t>(last_.size());
        work_[device] = 0;
        began_.push_back(count_);
        last_.push_back(count_);
    }

    const Problem& p_;
    const std::vector<int32_t>& device_of_;
    double most_work_;
    std::vector<int32_t> cluster_of_;    // [op]
    std::vector<int32_t> open_;          // [device] its cluster, -1 when there is none to join
    std::vector<double> work_;           // [device] of its cluster
    std::vector<int32_t> began_, last_;  // [cluster] how many ops stand before its first, its last
    int32_t count_ = 0;
};

}  // namespace

std::vector<int32_t> cluster_solution(const Problem& problem, int32_t max_clusters, const PlacedOrder& solution) {
    const std::vector<double> work = mean_times(problem);
    const double total = std::accumulate(work.begin(), work.end(), 0.0);
    OpenClusters clusters(problem, solution, 2 * total / max_clusters);
    for (int32_t op : solution.ops) clusters.add(op, work[op]);
    return std::move(clusters).numbered();
}

}  // namespace placewright
