#include "construct/insertion.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>

#include "construct/list_schedule.hpp"
#include "problem/readiness.hpp"
#include "support/idle_slots.hpp"

namespace placewright {

namespace {

// Returns all ops in a valid order: always the one of least key among those whose predecessors have come.
template <class Key>
std::vector<int32_t> ordered_by(const Problem& problem, const std::vector<Key>& keys) {
    using Entry = std::pair<Key, int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    Readiness readiness(problem);
    const auto push = [&](int32_t op) { ready.push({keys[op], op}); };
    readiness.for_each_source(push);
    std::vector<int32_t> order;
    while (!ready.empty()) {
        order.push_back(ready.top().second);
        ready.pop();
        readiness.finish(order.back(), push);
    }
    return order;
}

// Calls f(next, ns) for every successor of the op, with the mean time of its transfer.
template <class F>
void for_each_edge(const Problem& problem, const StandIn& link, int32_t op, F&& f) {
    for (int32_t tensor = problem.output_begin[op]; tensor < problem.output_begin[op + 1]; ++tensor)
        for (int32_t next : problem.consumers[tensor]) f(next, link.transfer_time(problem.transfer_bytes[tensor]));
    for (int32_t next : problem.controls[op]) f(next, 0);
}

class Inserter {
  public:
    Inserter(const Problem& problem, const InsertionRule& rule)
        : p_(problem),
          rule_(rule),
          queueing_(rule.links == PlannedLinks::queueing),
          devices_(problem.num_devices),
          links_(queueing_ ? size_t(problem.num_devices) * problem.num_devices : 0),
          arrival_(queueing_ ? size_t(problem.num_tensors) * problem.num_devices : 0, -1),
          allowed_(problem.allowed),
          device_of_(problem.num_ops, -1),
          start_(problem.num_ops),
          finish_(problem.num_ops),
          trial_(problem.num_devices) {
        for (size_t op = 0; op < rule.fixed.size(); ++op)
            if (rule.fixed[op] >= 0) allowed_[p_.group[op]] = uint64_t{1} << rule.fixed[op];
    }

    InsertionSchedule run(std::span<const int32_t> sequence) {
        using Key = std::tuple<int64_t, int64_t, int32_t>;
        std::vector<Key> keys(p_.num_ops);
        for (size_t k = 0; k < sequence.size(); ++k) {
            const int32_t op = sequence[k];
            place(op);
            // An op of no time comes before one that starts at the same time.
            keys[op] = {start_[op], finish_[op], static_cast<int32_t>(k)};
        }
        return {{std::move(device_of_), ordered_by(p_, keys)}, std::ranges::max(finish_)};
    }

  private:
    void place(int32_t op) {
        int64_t best_score = 0, best_start = 0;
        int32_t best = -1;
        for (uint64_t left = allowed_[p_.group[op]] & p_.everywhere(); left != 0; left &= left - 1) {
            const int32_t device = std::countr_zero(left);
            const int64_t start = devices_[device].earliest(ready(op, device, false), p_.op_time(op, device));
            const int64_t outlook = rule_.outlook.empty() ? 0 : rule_.outlook[size_t(op) * p_.num_devices + device];
            const int64_t score = start + p_.op_time(op, device) + outlook;
            if (best >= 0 && score >= best_score) continue;
            best = device;
            best_score = score;
            best_start = start;
        }
        if (queueing_) ready(op, best, true);
        devices_[best].occupy(best_start, p_.op_time(op, best));
        allowed_[p_.group[op]] = uint64_t{1} << best;
        device_of_[op] = best;
        start_[op] = best_start;
        finish_[op] = best_start + p_.op_time(op, best);
    }

    // Returns when all that the op needs is on the device; `keeps` reserves the links for it.
    int64_t ready(int32_t op, int32_t device, bool keeps) {
        int64_t ready = 0;
        if (queueing_) std::ranges::fill(trial_, 0);
        for (int32_t tensor : p_.inputs[op]) ready = std::max(ready, arrival(tensor, device, keeps));
        for (int32_t previous : p_.predecessors[op]) ready = std::max(ready, signal(previous, device));
        return ready;
    }

    int64_t arrival(int32_t tensor, int32_t device, bool keeps) {
        const int32_t producer = p_.producer[tensor], source = device_of_[producer];
        if (source == device) return finish_[producer];
        const int64_t time = p_.transfer_time(tensor, source, device);
        if (!queueing_) return finish_[producer] + time;
        int64_t& known = arrival_[size_t(tensor) * p_.num_devices + device];
        if (known >= 0) return known;
        IdleSlots& link = links_[size_t(source) * p_.num_devices + device];
        // Tensors that one op waits for over one link are sent one after another.
        const int64_t start = link.earliest(std::max(finish_[producer], trial_[source]), time);
        trial_[source] = start + time;
        if (keeps) {
            link.occupy(start, time);
            known = start + time;
        }
        return start + time;
    }

    // Returns when the predecessor lets the op start: at the predecessor's start if only the order counts.
    int64_t signal(int32_t previous, int32_t device) const {
        const int32_t source = device_of_[previous];
        if (source == device) return finish_[previous];
        return p_.signals ? finish_[previous] + p_.latency_ns[size_t(source) * p_.num_devices + device]
                          : start_[previous];
    }

    const Problem& p_;
    const InsertionRule& rule_;
    const bool queueing_;
    std::vector<IdleSlots> devices_;
    std::vector<IdleSlots> links_;   // [source][destination]
    std::vector<int64_t> arrival_;   // [tensor][device] -1 while it has not been sent there
    std::vector<uint64_t> allowed_;  // [first op of the group]
    std::vector<int32_t> device_of_;
    std::vector<int64_t> start_, finish_;
    std::vector<int64_t> trial_;  // [source] when the link to the device that is tried is done with this op's tensors
};

}  // namespace

InsertionSchedule insertion_schedule(const Problem& problem, std::span<const int32_t> sequence,
                                     const InsertionRule& rule) {
    return Inserter(problem, rule).run(sequence);
}

std::vector<int64_t> optimistic_costs(const Problem& problem) {
    const int32_t D = problem.num_devices;
    std::vector<int64_t> costs(size_t(problem.num_ops) * D);
    const StandIn link(problem, Outlook::mean);
    // The cost per op and device with the op itself, and its least over devices.
    std::vector<int64_t> with_op(costs.size()), least(problem.num_ops);
    for (int32_t op = problem.num_ops - 1; op >= 0; --op) {
        const std::span own = std::span(costs).subspan(size_t(op) * D, D);
        for_each_edge(problem, link, op, [&](int32_t next, int64_t moving) {
            for (int32_t device = 0; device < D; ++device)
                own[device] = std::max(own[device], std::min(with_op[size_t(next) * D + device], least[next] + moving));
        });
        for (int32_t device = 0; device < D; ++device)
            with_op[size_t(op) * D + device] = own[device] + problem.op_time(op, device);
        least[op] = std::ranges::min(std::span(with_op).subspan(size_t(op) * D, D));
    }
    return costs;
}

std::vector<int32_t> optimistic_order(const Problem& problem, std::span<const int64_t> costs) {
    std::vector<int64_t> keys(problem.num_ops);
    for (int32_t op = 0; op < problem.num_ops; ++op) {
        const auto own = costs.subspan(size_t(op) * problem.num_devices, problem.num_devices);
        keys[op] = -int64_t(std::accumulate(own.begin(), own.end(), __int128{0}) / problem.num_devices);
    }
    return ordered_by(problem, keys);
}

namespace {

// Returns, per op, the longest path from the start to it, without its own time.
std::vector<int64_t> top_levels(const Problem& problem, const StandIn& link) {
    const std::vector<int64_t> time = stand_in_times(problem, Outlook::mean);
    std::vector<int64_t> level(problem.num_ops);
    for (int32_t op = 0; op < problem.num_ops; ++op)
        for_each_edge(problem, link, op, [&](int32_t next, int64_t moving) {
            level[next] = std::max(level[next], level[op] + time[op] + moving);
        });
    return level;
}

// Returns the path from the first source of highest bottom level along the successors that determine it; ties go to the
// first op.
std::vector<int32_t> critical_path(const Problem& problem, const StandIn& link, const std::vector<int64_t>& bottom) {
    std::vector<int32_t> path{*std::ranges::max_element(problem.sources, {}, [&](int32_t op) { return bottom[op]; })};
    for (int32_t next = path.front(); next >= 0;) {
        std::pair<int64_t, int32_t> best{-1, 0};
        for_each_edge(problem, link, path.back(),
                      [&](int32_t other, int64_t moving) { best = std::max(best, {moving + bottom[other], -other}); });
        next = best.first < 0 ? -1 : -best.second;
        if (next >= 0) path.push_back(next);
    }
    return path;
}

}  // namespace

CriticalPathFirst critical_path_first(const Problem& problem) {
    const StandIn link(problem, Outlook::mean);
    const std::vector<int64_t> bottom = bottom_levels(problem), top = top_levels(problem, link);
    const std::vector<int32_t> path = critical_path(problem, link, bottom);
    std::pair<int64_t, int64_t> least{INT64_MAX, 0};
    int32_t best = 0;
    for (int32_t device = 0; device < problem.num_devices; ++device) {
        std::pair<int64_t, int64_t> cost{0, 0};  // ops that may not go there; ns of the path
        for (int32_t op : path) {
            cost.first += !(problem.allowed[op] >> device & 1);
            cost.second += problem.op_time(op, device);
        }
        if (cost < least) {
            least = cost;
            best = device;
        }
    }
    std::vector<int64_t> keys(problem.num_ops);
    for (int32_t op = 0; op < problem.num_ops; ++op) keys[op] = -bottom[op] - top[op];
    CriticalPathFirst result{ordered_by(problem, keys), std::vector<int32_t>(problem.num_ops, -1)};
    for (int32_t op : path)
        if (problem.allowed[op] >> best & 1) result.fixed[op] = best;
    return result;
}

}  // namespace placewright
