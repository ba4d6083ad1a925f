// The order of ops on devices that are already chosen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "problem.hpp"
#include "readiness.hpp"

namespace placewright {

// No device stands idle while an op could start there; of those that could the one of highest bottom level starts,
// which counts a transfer only where the placement needs one. Tensors leave as soon as they are made and queue at the
// links; blocking transfers are planned as if devices computed meanwhile. One placement is dispatched after another
// without allocating.
class Dispatcher {
  public:
    explicit Dispatcher(const Problem& problem);

    // A valid order, by start time. It stands until the next call.
    std::span<const int32_t> order(std::span<const int32_t> device_of);

  private:
    // What waits for one device.
    class Queue {
      public:
        void reset() { clock_ = 0; }
        void push(int64_t ready, int64_t level, int32_t op) { waiting_.push({-ready, level, -op}); }
        bool empty() const { return waiting_.empty() && available_.empty(); }
        int64_t next_start() const { return available_.empty() ? std::max(clock_, -waiting_.top().ready) : clock_; }
        int32_t pop();  // the op to start at next_start()
        int64_t run(int64_t time) { return clock_ += time; }

      private:
        // Negated where the least comes first.
        struct Waiting {
            int64_t ready, level;
            int32_t op;
            auto operator<=>(const Waiting&) const = default;
        };
        std::priority_queue<Waiting> waiting_;
        std::priority_queue<std::pair<int64_t, int32_t>> available_;
        int64_t clock_ = 0;
    };

    void find_levels();
    int32_t start_next();
    void send(int32_t tensor, int32_t source, int64_t finish);
    int64_t signal(int32_t op, int32_t follower, int64_t finish) const;

    const Problem& problem_;
    std::span<const int32_t> device_of_;
    Readiness readiness_;
    std::vector<int64_t> level_;      // [op] ns along its longest path to the end on these devices
    std::vector<int64_t> ready_;      // [op]
    std::vector<int64_t> link_free_;  // [source][destination]
    std::vector<int64_t> arrival_;    // [device] of the tensor being sent
    std::vector<Queue> queues_;
    std::vector<int32_t> order_;
};

inline std::vector<int32_t> dispatch_order(const Problem& problem, std::span<const int32_t> device_of) {
    Dispatcher dispatcher(problem);
    const auto order = dispatcher.order(device_of);
    return {order.begin(), order.end()};
}

}  // namespace placewright
