#include "construct/list_schedule.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <queue>
#include <tuple>

#include "construct/partial_schedule.hpp"
#include "problem/readiness.hpp"

namespace placewright {

namespace {

int64_t stand_in_time(const Problem& problem, int32_t op, Outlook outlook) {
    const auto row = std::span(problem.op_time_ns).subspan(size_t(op) * problem.num_devices, problem.num_devices);
    if (outlook == Outlook::best) return std::ranges::min(row);
    if (outlook == Outlook::worst) return std::ranges::max(row);
    return int64_t(std::accumulate(row.begin(), row.end(), __int128{0}) / problem.num_devices);
}

// Breaks ties of time, least first. With overlapped transfers the device that would idle least runs the op and leaves
// the others to later ops; with blocking ones the lagging device does, as it must catch up at the next barrier anyway.
int64_t preference(const Problem& problem, const PartialSchedule& schedule, int32_t device) {
    return problem.blocking ? schedule.clock(device) : -schedule.clock(device);
}

template <class F>
void for_each_device(uint64_t mask, F&& f) {
    for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

}  // namespace

StandIn::StandIn(const Problem& problem, Outlook outlook) {
    const int32_t D = problem.num_devices;
    if (D == 1 || outlook == Outlook::best) return;
    double latency = 0, inverse = 0;
    for (int32_t source = 0; source < D; ++source)
        for (int32_t destination = 0; destination < D; ++destination) {
            if (source == destination) continue;
            const auto link = size_t(source * D + destination);
            latency += double(problem.latency_ns[link]);
            inverse += double(problem.inverse_bandwidth[link]);
            latency_ns = std::max(latency_ns, problem.latency_ns[link]);
            inverse_bandwidth = std::max(inverse_bandwidth, problem.inverse_bandwidth[link]);
        }
    if (outlook == Outlook::worst) return;
    const int32_t pairs = outlook == Outlook::pairs ? D * (D + 1) : D * (D - 1);
    latency_ns = static_cast<int64_t>(latency / pairs);
    inverse_bandwidth = static_cast<int64_t>(inverse / pairs);
}

std::vector<int64_t> stand_in_times(const Problem& problem, Outlook outlook) {
    std::vector<int64_t> times(problem.num_ops);
    for (int32_t op = 0; op < problem.num_ops; ++op) times[op] = stand_in_time(problem, op, outlook);
    return times;
}

std::vector<int64_t> bottom_levels(const Problem& problem, Outlook outlook) {
    const StandIn link(problem, outlook);
    std::vector<int64_t> level(problem.num_ops);
    for (int32_t op = problem.num_ops - 1; op >= 0; --op) {
        int64_t longest = 0;
        for (int32_t tensor = problem.output_begin[op]; tensor < problem.output_begin[op + 1]; ++tensor)
            for (int32_t next : problem.consumers[tensor])
                longest = std::max(longest, link.transfer_time(problem.transfer_bytes[tensor]) + level[next]);
        for (int32_t next : problem.controls[op]) longest = std::max(longest, level[next]);
        level[op] = stand_in_time(problem, op, outlook) + longest;
    }
    return level;
}

std::vector<int32_t> bottom_level_order(const Problem& problem, Outlook outlook) {
    const std::vector<int64_t> level = bottom_levels(problem, outlook);
    std::vector<int32_t> order(problem.num_ops);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](int32_t op) { return level[op]; });
    return order;
}

void list_schedule(const Problem& problem, std::span<const int32_t> order, DeviceChoice choice,
                   PartialSchedule& schedule) {
    for (int32_t op : order) {
        using Score = std::tuple<int64_t, int64_t, int64_t>;
        Score best{INT64_MAX, 0, 0};
        int32_t best_device = -1;
        for_each_device(schedule.placement().allowed(op), [&](int32_t device) {
            const int64_t finish = schedule.earliest_start(op, device) + problem.op_time(op, device);
            const int64_t peak = problem.needs_memory || choice == DeviceChoice::least_peak
                                     ? schedule.placement().resulting_peak(op, device)
                                     : 0;
            const int64_t over = std::max<int64_t>(0, peak - problem.memory_limit[device]);
            const Score score = choice == DeviceChoice::least_peak
                                    ? Score{over, peak, finish}
                                    : Score{over, finish, preference(problem, schedule, device)};
            if (score < best) {
                best = score;
                best_device = device;
            }
        });
        schedule.append(op, best_device);
    }
}

PlacementAndOrder list_schedule(const Problem& problem, std::span<const int32_t> order, DeviceChoice choice) {
    PartialSchedule schedule(problem);
    list_schedule(problem, order, choice, schedule);
    return std::move(schedule).take();
}

PlacementAndOrder earliest_task_first(const Problem& problem, int32_t max_pairs) {
    const auto window = static_cast<size_t>(std::max(1, max_pairs / problem.num_devices));
    const std::vector<int64_t> level = bottom_levels(problem);
    const auto lower = [&](int32_t a, int32_t b) { return std::tie(level[a], b) < std::tie(level[b], a); };
    std::priority_queue<int32_t, std::vector<int32_t>, decltype(lower)> waiting(lower);
    std::vector<int32_t> compared;
    PartialSchedule schedule(problem);
    Readiness readiness(problem);
    const auto push = [&](int32_t op) { waiting.push(op); };
    readiness.for_each_source(push);
    for (int32_t placed = 0; placed < problem.num_ops; ++placed) {
        while (!waiting.empty() && compared.size() < window) {
            compared.push_back(waiting.top());
            waiting.pop();
        }
        using Score = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int32_t>;
        Score best{INT64_MAX, 0, 0, 0, 0, 0};
        size_t best_slot = 0;
        int32_t best_device = -1;
        for (size_t slot = 0; slot < compared.size(); ++slot)
            for_each_device(schedule.placement().allowed(compared[slot]), [&](int32_t device) {
                const int32_t op = compared[slot];
                const int64_t start = schedule.earliest_start(op, device);
                const int64_t over = problem.needs_memory ? schedule.placement().bytes_over_limit(op, device) : 0;
                const int64_t finish = start + problem.op_time(op, device);
                const Score score{over, start, -level[op], finish, preference(problem, schedule, device), op};
                if (score < best) {
                    best = score;
                    best_slot = slot;
                    best_device = device;
                }
            });
        const int32_t op = compared[best_slot];
        schedule.append(op, best_device);
        compared[best_slot] = compared.back();
        compared.pop_back();
        readiness.finish(op, push);
    }
    return std::move(schedule).take();
}

}  // namespace placewright
