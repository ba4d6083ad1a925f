#include "construct/dispatch.hpp"

#include <algorithm>
#include <queue>
#include <utility>

#include "construct/inputs_aside.hpp"
#include "problem/readiness.hpp"

namespace placewright {

namespace {

// Returns, per op, ns along its longest path to the end on these devices.
std::vector<int64_t> placed_levels(const Problem& problem, std::span<const int32_t> device_of) {
    std::vector<int64_t> level(problem.num_ops);
    for (int32_t op = problem.num_ops - 1; op >= 0; --op) {
        const int32_t own = device_of[op];
        int64_t longest = 0;
        for (int32_t tensor = problem.output_begin[op]; tensor < problem.output_begin[op + 1]; ++tensor)
            for (int32_t next : problem.consumers[tensor]) {
                const int32_t other = device_of[next];
                const int64_t moving = own == other ? 0 : problem.transfer_time(tensor, own, other);
                longest = std::max(longest, moving + level[next]);
            }
        for (int32_t next : problem.controls[op]) longest = std::max(longest, level[next]);
        level[op] = problem.op_time(op, own) + longest;
    }
    return level;
}

// The same, but inputs that another device waits for come before all work, since they delay nothing.
std::vector<int64_t> urgencies(const Problem& problem, std::span<const int32_t> device_of) {
    std::vector<int64_t> level = placed_levels(problem, device_of);
    const std::vector<uint8_t> is_remote = find_remote_inputs(problem, device_of);
    const int64_t most = std::ranges::max(level) + 1;
    for (int32_t op = 0; op < problem.num_ops; ++op)
        if (is_remote[op]) level[op] += most;
    return level;
}

// The ops that wait for one device.
class Queue {
  public:
    void push(int64_t ready, int64_t level, int32_t op) { waiting_.push({-ready, level, -op}); }
    bool empty() const { return waiting_.empty() && available_.empty(); }
    int64_t next_start() const { return available_.empty() ? std::max(clock_, -waiting_.top().ready) : clock_; }

    // Removes and returns the op to start next: one of those ready at next_start(), or when the host can have launched
    // one if that is later.
    int32_t pop(int64_t launched) {
        const int64_t now = std::max(next_start(), launched);
        for (; !waiting_.empty() && -waiting_.top().ready <= now; waiting_.pop())
            available_.emplace(waiting_.top().level, waiting_.top().op);
        const int32_t op = -available_.top().second;
        available_.pop();
        return op;
    }
    // Returns when an op that can start at `start` has finished, after all that ran before it.
    int64_t run(int64_t start, int64_t time) { return clock_ = std::max(clock_, start) + time; }

  private:
    // Fields are negated where the least comes first.
    struct Waiting {
        int64_t ready, level;
        int32_t op;
        auto operator<=>(const Waiting&) const = default;
    };
    std::priority_queue<Waiting> waiting_;
    std::priority_queue<std::pair<int64_t, int32_t>> available_;
    int64_t clock_ = 0;
};

class Dispatcher {
  public:
    Dispatcher(const Problem& problem, std::span<const int32_t> device_of, DispatchRule rule)
        : problem_(problem),
          device_of_(device_of),
          rule_(rule),
          level_(rule == DispatchRule::longest_first ? urgencies(problem, device_of) : std::vector<int64_t>()),
          is_remote_(rule == DispatchRule::first_come ? find_remote_inputs(problem, device_of)
                                                      : std::vector<uint8_t>()),
          ready_(problem.num_ops),
          link_free_(size_t(problem.num_devices) * size_t(problem.num_devices)),
          arrival_(problem.num_devices),
          host_clock_(problem.num_devices),
          queues_(problem.num_devices) {}

    std::vector<int32_t> run() {
        Readiness readiness(problem_);
        const auto push = [&](int32_t op) { queues_[device_of_[op]].push(ready_[op], urgency(op), op); };
        readiness.for_each_source(push);
        std::vector<int32_t> order;
        while (static_cast<int32_t>(order.size()) < problem_.num_ops) {
            order.push_back(start_next());
            readiness.finish(order.back(), push);
        }
        return order;
    }

  private:
    // The priority of an op on its device: the most urgent goes first, of equals the lower index.
    int64_t urgency(int32_t op) const {
        if (rule_ == DispatchRule::longest_first) return level_[op];
        return is_remote_[op] ? 1 : -ready_[op];
    }

    int32_t start_next() {
        Queue* next = nullptr;
        for (Queue& queue : queues_)
            if (!queue.empty() && (next == nullptr || queue.next_start() < next->next_start())) next = &queue;
        const auto device = static_cast<int32_t>(next - queues_.data());
        const int32_t op = next->pop(launching(device));
        const int64_t start = std::max(ready_[op], launched_op(op, device));
        const int64_t finish = next->run(start, problem_.op_time(op, device));
        for (int32_t tensor = problem_.output_begin[op]; tensor < problem_.output_begin[op + 1]; ++tensor)
            send(tensor, device_of_[op], finish);
        for (int32_t follower : problem_.controls[op])
            ready_[follower] = std::max(ready_[follower], signal(op, follower, finish));
        return op;
    }

    // Returns when an op of the device is launched if its host turns to it now.
    int64_t launching(int32_t device) const {
        const int32_t host = problem_.host_of[device];
        return host < 0 ? 0 : host_clock_[host] + problem_.launch_ns[device];
    }

    // Returns when the op has been launched; 0 if it is not launched.
    int64_t launched_op(int32_t op, int32_t device) {
        if (problem_.host_of[device] < 0 || problem_.launch(op, device).host_ns == 0) return 0;
        int64_t& clock = host_clock_[problem_.host_of[device]];
        const int64_t begin = clock;
        clock += problem_.launch(op, device).host_ns;
        return begin + problem_.launch(op, device).lead_ns;
    }

    void send(int32_t tensor, int32_t source, int64_t finish) {
        uint64_t sent = 0;
        for (int32_t reader : problem_.consumers[tensor]) {
            const int32_t device = device_of_[reader];
            if (device != source && !(sent >> device & 1)) {
                int64_t& link = link_free_[size_t(source) * size_t(problem_.num_devices) + size_t(device)];
                link = arrival_[device] = std::max({link, finish, launched(tensor, source, device)}) +
                                          problem_.transfer_time(tensor, source, device);
                sent |= uint64_t{1} << device;
            }
            ready_[reader] = std::max(ready_[reader], device == source ? finish : arrival_[device]);
        }
    }

    int64_t launched(int32_t tensor, int32_t source, int32_t destination) {
        const int32_t launcher = problem_.launcher(source, destination);
        if (launcher < 0 || problem_.transfer_time(tensor, source, destination) == 0) return 0;
        return host_clock_[problem_.host_of[launcher]] += problem_.launch_ns[launcher];
    }

    int64_t signal(int32_t op, int32_t follower, int64_t finish) const {
        const int32_t source = device_of_[op], device = device_of_[follower];
        if (source == device) return finish;
        return problem_.signals
                   ? finish + problem_.latency_ns[size_t(source) * size_t(problem_.num_devices) + size_t(device)]
                   : 0;
    }

    const Problem& problem_;
    std::span<const int32_t> device_of_;
    const DispatchRule rule_;
    const std::vector<int64_t> level_;      // [op], longest_first
    const std::vector<uint8_t> is_remote_;  // [op], first_come
    std::vector<int64_t> ready_;            // [op]
    std::vector<int64_t> link_free_;        // [source][destination]
    std::vector<int64_t> arrival_;          // [device] of the tensor being sent
    std::vector<int64_t> host_clock_;       // [host]
    std::vector<Queue> queues_;
};

}  // namespace

std::vector<int32_t> dispatch_order(const Problem& problem, std::span<const int32_t> device_of, DispatchRule rule) {
    return Dispatcher(problem, device_of, rule).run();
}

}  // namespace placewright
