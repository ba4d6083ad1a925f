#include "improve/link_orders.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace placewright {

std::optional<Solution> LinkOrders::find(std::span<const int32_t> device_of, std::span<const int32_t> ops,
                                         int64_t limit_ns, int64_t max_orders) {
    device_of_ = device_of;
    limit_ns_ = limit_ns;
    max_orders_ = max_orders;
    num_orders_ = 0;
    add_ops(ops);
    add_transfers();
    if (!extend(std::vector<int64_t>(steps_.size())) || gave_up()) return std::nullopt;
    return std::move(found_);
}

void LinkOrders::add_ops(std::span<const int32_t> ops) {
    steps_.clear();
    duration_.clear();
    arcs_.clear();
    for (int32_t op = 0; op < problem_.num_ops; ++op) {
        steps_.push_back(Step::op(op));
        duration_.push_back(problem_.op_time(op, device_of_[size_t(op)]));
        for (int32_t before : problem_.predecessors[op]) {
            const int32_t from = device_of_[size_t(before)], to = device_of_[size_t(op)];
            arcs_.push_back(
                {before, op, from == to ? 0 : problem_.latency_ns[size_t(from) * problem_.num_devices + to]});
        }
    }
    std::vector<int32_t> last(size_t(problem_.num_devices), -1);
    for (int32_t op : ops) {
        const int32_t before = std::exchange(last[size_t(device_of_[size_t(op)])], op);
        if (before >= 0) arcs_.push_back({before, op, 0});
    }
}

void LinkOrders::add_transfers() {
    std::vector<int32_t> transfer(size_t(problem_.num_devices));
    for (int32_t tensor = 0; tensor < problem_.num_tensors; ++tensor) {
        const int32_t maker = problem_.producer[tensor], home = device_of_[size_t(maker)];
        std::ranges::fill(transfer, -1);
        transfer[size_t(home)] = maker;
        for (int32_t reader : problem_.consumers[tensor]) {
            int32_t& from = transfer[size_t(device_of_[size_t(reader)])];
            if (from < 0) {
                from = static_cast<int32_t>(steps_.size());
                steps_.push_back({tensor, device_of_[size_t(reader)]});
                duration_.push_back(problem_.transfer_time(tensor, home, device_of_[size_t(reader)]));
                arcs_.push_back({maker, from, 0});
            }
            arcs_.push_back({from, reader, 0});
        }
    }
}

bool LinkOrders::is_same_link(int32_t one, int32_t other) const {
    const auto source = [&](int32_t step) { return device_of_[size_t(problem_.producer[steps_[size_t(step)].id])]; };
    return steps_[size_t(one)].destination == steps_[size_t(other)].destination && source(one) == source(other);
}

// Branches on two transfers that one link would serve at the same time: either may come first.
bool LinkOrders::extend(std::vector<int64_t> start) {
    if (++num_orders_ > max_orders_ || !find_starts(start)) return false;
    const auto end = [&](int32_t step) { return start[size_t(step)] + duration_[size_t(step)]; };
    for (auto one = problem_.num_ops; one < static_cast<int32_t>(steps_.size()); ++one)
        for (auto other = problem_.num_ops; other < one; ++other) {
            if (!is_same_link(one, other) || end(one) <= start[size_t(other)] || end(other) <= start[size_t(one)])
                continue;
            auto [first, second] =
                std::minmax(one, other, [&](int32_t a, int32_t b) { return start[size_t(a)] < start[size_t(b)]; });
            for (const Arc& arc : {Arc{first, second, 0}, Arc{second, first, 0}}) {
                arcs_.push_back(arc);
                const bool is_found = extend(start);
                arcs_.pop_back();
                if (is_found) return true;
            }
            return false;
        }
    return in_order(start);
}

// Computes longest paths from starts that are no later; false if a step ends after the limit.
bool LinkOrders::find_starts(std::vector<int64_t>& start) const {
    for (size_t step = 0; step < steps_.size(); ++step)
        if (start[step] + duration_[step] > limit_ns_) return false;
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (const Arc& arc : arcs_) {
            const int64_t earliest = start[size_t(arc.from)] + duration_[size_t(arc.from)] + arc.wait_ns;
            if (earliest <= start[size_t(arc.to)]) continue;
            start[size_t(arc.to)] = earliest;
            has_changed = true;
            if (earliest + duration_[size_t(arc.to)] > limit_ns_) return false;
        }
    }
    return true;
}

// Writes the steps by start, each after all it waits for; at the same time the shortest comes first. False if steps
// without duration wait for one another.
bool LinkOrders::in_order(const std::vector<int64_t>& start) {
    std::vector<int32_t> missing(steps_.size());
    for (const Arc& arc : arcs_) ++missing[size_t(arc.to)];
    std::vector<std::tuple<int64_t, int64_t, int32_t>> ready;
    const auto add = [&](int32_t step) { ready.emplace_back(start[size_t(step)], duration_[size_t(step)], step); };
    for (size_t step = 0; step < steps_.size(); ++step)
        if (missing[step] == 0) add(static_cast<int32_t>(step));
    found_.device_of.assign(device_of_.begin(), device_of_.end());
    found_.order.clear();
    while (!ready.empty()) {
        const auto least = std::ranges::min_element(ready);
        const int32_t step = std::get<2>(*least);
        ready.erase(least);
        found_.order.push_back(steps_[size_t(step)]);
        for (const Arc& arc : arcs_)
            if (arc.from == step && --missing[size_t(arc.to)] == 0) add(arc.to);
    }
    return found_.order.size() == steps_.size();
}

}  // namespace placewright
