#include "dispatch.hpp"

namespace placewright {

int32_t Dispatcher::Queue::pop() {
    clock_ = next_start();
    for (; !waiting_.empty() && -waiting_.top().ready <= clock_; waiting_.pop())
        available_.emplace(waiting_.top().level, waiting_.top().op);
    const int32_t op = -available_.top().second;
    available_.pop();
    return op;
}

Dispatcher::Dispatcher(const Problem& problem)
    : problem_(problem),
      readiness_(problem),
      level_(problem.num_ops),
      ready_(problem.num_ops),
      link_free_(size_t(problem.num_devices) * size_t(problem.num_devices)),
      arrival_(problem.num_devices),
      queues_(problem.num_devices) {
    order_.reserve(problem.num_ops);
}

std::span<const int32_t> Dispatcher::order(std::span<const int32_t> device_of) {
    device_of_ = device_of;
    find_levels();
    std::ranges::fill(ready_, 0);
    std::ranges::fill(link_free_, 0);
    readiness_.reset();
    for (Queue& queue : queues_) queue.reset();
    order_.clear();
    const auto push = [&](int32_t op) { queues_[device_of_[op]].push(ready_[op], level_[op], op); };
    readiness_.for_each_source(push);
    while (static_cast<int32_t>(order_.size()) < problem_.num_ops) {
        order_.push_back(start_next());
        readiness_.finish(order_.back(), push);
    }
    return order_;
}

void Dispatcher::find_levels() {
    for (int32_t op = problem_.num_ops - 1; op >= 0; --op) {
        const int32_t own = device_of_[op];
        int64_t longest = 0;
        for (int32_t tensor = problem_.output_begin[op]; tensor < problem_.output_begin[op + 1]; ++tensor)
            for (int32_t next : problem_.consumers[tensor]) {
                const int32_t other = device_of_[next];
                const int64_t moving = own == other ? 0 : problem_.transfer_time(tensor, own, other);
                longest = std::max(longest, moving + level_[next]);
            }
        for (int32_t next : problem_.controls[op]) longest = std::max(longest, level_[next]);
        level_[op] = problem_.op_time(op, own) + longest;
    }
}

int32_t Dispatcher::start_next() {
    Queue* next = nullptr;
    for (Queue& queue : queues_)
        if (!queue.empty() && (next == nullptr || queue.next_start() < next->next_start())) next = &queue;
    const int32_t op = next->pop();
    const int64_t finish = next->run(problem_.op_time(op, device_of_[op]));
    for (int32_t tensor = problem_.output_begin[op]; tensor < problem_.output_begin[op + 1]; ++tensor)
        send(tensor, device_of_[op], finish);
    for (int32_t follower : problem_.controls[op])
        ready_[follower] = std::max(ready_[follower], signal(op, follower, finish));
    return op;
}

void Dispatcher::send(int32_t tensor, int32_t source, int64_t finish) {
    uint64_t sent = 0;
    for (int32_t reader : problem_.consumers[tensor]) {
        const int32_t device = device_of_[reader];
        if (device != source && !(sent >> device & 1)) {
            int64_t& link = link_free_[size_t(source) * size_t(problem_.num_devices) + size_t(device)];
            link = arrival_[device] = std::max(link, finish) + problem_.transfer_time(tensor, source, device);
            sent |= uint64_t{1} << device;
        }
        ready_[reader] = std::max(ready_[reader], device == source ? finish : arrival_[device]);
    }
}

int64_t Dispatcher::signal(int32_t op, int32_t follower, int64_t finish) const {
    const int32_t source = device_of_[op], device = device_of_[follower];
    if (source == device) return finish;
    return problem_.signals
               ? finish + problem_.latency_ns[size_t(source) * size_t(problem_.num_devices) + size_t(device)]
               : 0;
}

}  // namespace placewright
