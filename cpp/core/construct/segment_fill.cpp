#include "construct/segment_fill.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "construct/list_schedule.hpp"

namespace placewright {

namespace {

size_t max_transfers(const Problem& problem) { return size_t(problem.num_tensors) * size_t(problem.num_devices - 1); }

}  // namespace

SegmentFill::SegmentFill(const Problem& problem)
    : problem_(problem),
      rank_(problem.num_ops),
      readiness_(problem),
      placement_(problem, problem.needs_memory),
      segment_of_(problem.num_ops),
      base_(problem.num_devices),
      load_(problem.num_devices),
      link_free_(size_t(problem.num_devices) * size_t(problem.num_devices)),
      arrival_(problem.blocking ? 0 : size_t(problem.num_tensors) * size_t(problem.num_devices)),
      finish_(problem.num_ops),
      common_(problem.num_ops),
      gains_(problem.num_devices),
      devices_(problem.num_devices) {
    for (auto* queues : {&fixed_, &bound_}) {
        queues->reserve(problem.num_devices);
        for (int32_t device = 0; device < problem.num_devices; ++device) queues->emplace_back(problem.num_ops);
    }
    std::iota(devices_.begin(), devices_.end(), 0);
    waiting_.reserve(problem.num_ops);
    ops_.reserve(problem.num_ops);
    transfers_.reserve(max_transfers(problem));
    order_.reserve(size_t(problem.num_ops) + max_transfers(problem));
}

void SegmentFill::reset(std::span<const int32_t> sequence, BarrierTiming timing) {
    sequence_ = sequence;
    timing_ = timing;
    for (int32_t rank = 0; rank < problem_.num_ops; ++rank) rank_[sequence[rank]] = rank;
    readiness_.reset();
    placement_.reset();
    segment_ = 0;
    std::ranges::fill(segment_of_, -1);
    for (auto* per_device : {&base_, &load_, &gains_, &link_free_}) std::ranges::fill(*per_device, 0);
    common_.clear();
    for (auto* queues : {&fixed_, &bound_})
        for (Queue& queue : *queues) queue.clear();
    order_.clear();
}

// Puts a ready op into the queue that its inputs of this segment allow.
void SegmentFill::file(int32_t op) {
    uint64_t made_on = 0;
    for (int32_t tensor : problem_.inputs[op]) {
        const int32_t producer = problem_.producer[tensor];
        if (segment_of_[producer] == segment_) made_on |= uint64_t{1} << placement_.home(tensor);
    }
    if (made_on == 0) return release(op);
    if (!std::has_single_bit(made_on) || !(made_on & placement_.allowed(op))) return wait(op);
    const int32_t device = std::countr_zero(made_on);
    bound_[device].push(rank_[op]);
    for (uint64_t left = placement_.allowed(op) & ~made_on; left != 0; left &= left - 1)
        ++gains_[std::countr_zero(left)];
}

void SegmentFill::release(int32_t op) {
    const uint64_t mask = placement_.allowed(op);
    if (mask == problem_.everywhere()) return common_.push(rank_[op]);
    for (uint64_t left = mask; left != 0; left &= left - 1) fixed_[std::countr_zero(left)].push(rank_[op]);
}

void SegmentFill::wait(int32_t op) {
    waiting_.push_back(op);
    for (uint64_t left = placement_.allowed(op); left != 0; left &= left - 1) ++gains_[std::countr_zero(left)];
}

void SegmentFill::barrier() {
    for (auto* steps : {&transfers_, &ops_}) {
        order_.insert(order_.end(), steps->begin(), steps->end());
        steps->clear();
    }
    ++segment_;
    for (int32_t device = 0; device < problem_.num_devices; ++device) {
        base_[device] += load_[device];
        load_[device] = gains_[device] = 0;
        for (; !bound_[device].empty(); bound_[device].pop()) waiting_.push_back(sequence_[bound_[device].top()]);
    }
    for (int32_t op : waiting_)
        if (!is_placed(op)) release(op);
    waiting_.clear();
}

int64_t SegmentFill::bytes_over_limit(int32_t op, int32_t device) const {
    return problem_.needs_memory ? placement_.bytes_over_limit(op, device) : 0;
}

// Returns whether an op whose inputs were made on the device stays there. It leaves, at the price of a barrier, only if
// memory forces it to.
bool SegmentFill::stays_bound(int32_t op, int32_t device) const {
    const uint64_t here = uint64_t{1} << device, allowed = placement_.allowed(op);
    return (allowed & here) && (allowed == here || bytes_over_limit(op, device) == 0);
}

// Returns the rank of the queue's first op that may run on the device; INT32_MAX if there is none. Ops placed meanwhile
// leave the queue, and ops that must go elsewhere go to where they belong.
int32_t SegmentFill::usable_top(Queue& queue, int32_t device) {
    for (; !queue.empty(); queue.pop()) {
        const int32_t op = sequence_[queue.top()];
        if (is_placed(op)) continue;
        if (&queue == &bound_[device]) {
            if (stays_bound(op, device)) return queue.top();
            wait(op);
        } else {
            if (placement_.allowed(op) >> device & 1) return queue.top();
            fixed_[std::countr_zero(placement_.allowed(op))].push(queue.top());
        }
    }
    return INT32_MAX;
}

// Returns the queue of the device's best op; null if it has nothing to run before the next barrier.
SegmentFill::Queue* SegmentFill::best_queue(int32_t device) {
    Queue* best = nullptr;
    int32_t best_rank = INT32_MAX;
    for (Queue* queue : {&bound_[device], &fixed_[device], &common_}) {
        const int32_t rank = usable_top(*queue, device);
        if (rank >= best_rank) continue;
        best_rank = rank;
        best = queue;
    }
    return best;
}

// Sorts devices, least loaded first. Few clocks change between two calls.
void SegmentFill::sort_devices() {
    const auto goes_before = [&](int32_t a, int32_t b) { return clock(a) != clock(b) ? clock(a) < clock(b) : a < b; };
    for (size_t i = 1; i < devices_.size(); ++i)
        for (size_t k = i; k > 0 && goes_before(devices_[k], devices_[k - 1]); --k)
            std::swap(devices_[k], devices_[k - 1]);
}

int64_t SegmentFill::finish_estimate(int32_t op, int32_t device) const {
    int64_t base = base_[device], arrival = 0;
    for (int32_t tensor : problem_.inputs[op]) {
        const int32_t source = placement_.home(tensor);
        if (placement_.is_on(tensor, device)) {
            if (!problem_.blocking && source != device) arrival = std::max(arrival, arrival_[at(tensor, device)]);
            continue;
        }
        const int64_t time = problem_.transfer_time(tensor, source, device);
        if (problem_.blocking)
            base = std::max(base, base_[source]) + time;
        else
            arrival =
                std::max({arrival, link_free_[at(source, device)] + time, finish_[problem_.producer[tensor]] + time});
    }
    const int64_t ready = std::max(base + load_[device], arrival);
    return placement_.after_signals(op, device, ready, finish_) + problem_.op_time(op, device);
}

// Returns the device on which the op finishes first; devices that hold it within their limits come first.
int32_t SegmentFill::earliest_finish_device(int32_t op) const {
    int32_t best = -1;
    std::pair<int64_t, int64_t> best_score;
    for (int32_t device : devices_) {
        if (!(placement_.allowed(op) >> device & 1)) continue;
        const std::pair score{bytes_over_limit(op, device), finish_estimate(op, device)};
        if (best >= 0 && score >= best_score) continue;
        best_score = score;
        best = device;
    }
    return best;
}

void SegmentFill::send(int32_t tensor, int32_t source, int32_t device) {
    const int64_t time = problem_.transfer_time(tensor, source, device);
    transfers_.push_back({tensor, device});
    if (problem_.blocking) {
        base_[source] = base_[device] = std::max(base_[source], base_[device]) + time;
        return;
    }
    int64_t& link = link_free_[at(source, device)];
    arrival_[at(tensor, device)] = link = std::max(link, finish_[problem_.producer[tensor]]) + time;
}

void SegmentFill::place(int32_t op, int32_t device) {
    for (int32_t tensor : problem_.inputs[op])
        if (!placement_.is_on(tensor, device)) send(tensor, placement_.home(tensor), device);
    placement_.append(op, device);
    finish_[op] = finish_estimate(op, device);
    load_[device] = finish_[op] - base_[device];
    segment_of_[op] = segment_;
    ops_.push_back(Step::op(op));
    readiness_.finish(op, [&](int32_t next) { file(next); });
}

// Places one op; false if a barrier must come first.
bool SegmentFill::run_next() {
    sort_devices();
    const int32_t least_loaded = devices_.front();
    for (int32_t device : devices_) {
        Queue* queue = best_queue(device);
        if (queue == nullptr) {
            const bool worth_it = device == least_loaded && gains_[device] > 0;
            if (worth_it && timing_ == BarrierTiming::when_one_starves) return false;
            continue;
        }
        const int32_t op = sequence_[queue->top()];
        queue->pop();
        if (queue == &bound_[device])
            for (uint64_t left = placement_.allowed(op) & ~(uint64_t{1} << device); left != 0; left &= left - 1)
                --gains_[std::countr_zero(left)];
        place(op, queue == &bound_[device] ? device : earliest_finish_device(op));
        return true;
    }
    return false;
}

void SegmentFill::run(std::span<const int32_t> sequence, BarrierTiming timing) {
    reset(sequence, timing);
    readiness_.for_each_source([&](int32_t op) { release(op); });
    for (int32_t placed = 0; placed < problem_.num_ops;) {
        if (run_next())
            ++placed;
        else
            barrier();
    }
    barrier();
}

Solution segment_fill(const Problem& problem, BarrierTiming timing) {
    SegmentFill scheduler(problem);
    scheduler.run(bottom_level_order(problem), timing);
    return {{scheduler.device_of().begin(), scheduler.device_of().end()},
            {scheduler.order().begin(), scheduler.order().end()}};
}

}  // namespace placewright
