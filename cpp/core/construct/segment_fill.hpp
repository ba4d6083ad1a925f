// Segment-fill list scheduling: between two barriers every device runs only ops that need nothing from the others, and
// all transfers of one barrier are sent together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "construct/partial_placement.hpp"
#include "problem/problem.hpp"
#include "problem/readiness.hpp"
#include "support/ready_set.hpp"

namespace placewright {

enum class BarrierTiming {
    when_one_starves,  // as soon as the least loaded device has nothing to run and a barrier would give it something
    when_all_starve,   // only when no device has anything to run: fewer transfers
};

// Repeatedly takes the least loaded device and runs its ready op of highest priority that needs nothing made elsewhere
// since the last barrier. An op that is bound to no device goes where it finishes first, which differs from the least
// loaded device if speeds differ. A barrier releases everything that waits; a transfer goes to the barrier before the
// segment that first needs it. Loads are estimates: a transfer at a barrier delays its two devices only. A device whose
// memory limit an op would exceed is skipped while another is left.
class SegmentFill {
  public:
    explicit SegmentFill(const Problem& problem);

    // `sequence` holds all ops, highest priority first. Allocates nothing.
    void run(std::span<const int32_t> sequence, BarrierTiming timing);

    // The result of the last run.
    std::span<const int32_t> device_of() const { return placement_.devices(); }
    std::span<const Step> order() const { return order_; }

  private:
    // Ops by their places in the sequence, least first.
    class Queue {
      public:
        explicit Queue(size_t bound) : buffers_(bound), bound_(bound), ranks_(buffers_, bound) {}
        Queue(Queue&&) = default;  // moved vectors keep their memory, to which ranks_ points

        void clear() { ranks_ = ReadySet<false>(buffers_, bound_); }
        bool empty() const { return ranks_.empty(); }
        int32_t top() const { return static_cast<int32_t>(ranks_.least()); }
        void push(int32_t rank) { ranks_.insert_if(static_cast<uint32_t>(rank), 1); }
        void pop() { ranks_.take_least(); }

      private:
        ReadySetBuffers buffers_;
        size_t bound_;
        ReadySet<false> ranks_;
    };

    bool is_placed(int32_t op) const { return placement_.device_of(op) >= 0; }
    int64_t clock(int32_t device) const { return base_[device] + load_[device]; }
    size_t at(int32_t row, int32_t device) const { return size_t(row) * size_t(problem_.num_devices) + size_t(device); }

    void reset(std::span<const int32_t> sequence, BarrierTiming timing);
    void file(int32_t op);
    void release(int32_t op);
    void wait(int32_t op);
    void barrier();
    int64_t bytes_over_limit(int32_t op, int32_t device) const;
    bool stays_bound(int32_t op, int32_t device) const;
    int32_t usable_top(Queue& queue, int32_t device);
    Queue* best_queue(int32_t device);
    void sort_devices();
    bool run_next();
    int32_t earliest_finish_device(int32_t op) const;
    int64_t finish_estimate(int32_t op, int32_t device) const;
    void place(int32_t op, int32_t device);
    void send(int32_t tensor, int32_t source, int32_t device);

    const Problem& problem_;
    BarrierTiming timing_{};
    std::span<const int32_t> sequence_;  // [rank] ops, highest priority first
    std::vector<int32_t> rank_;          // [op]
    Readiness readiness_;

    PartialPlacement placement_;

    int32_t segment_ = 0;
    std::vector<int32_t> segment_of_;  // [op] -1 until placed
    std::vector<int64_t> base_;        // [device] its clock at the last barrier
    std::vector<int64_t> load_;        // [device] time of what it has run since
    std::vector<int64_t> link_free_;   // [source][destination], overlapped model
    std::vector<int64_t> arrival_;     // [tensor][device], overlapped model
    std::vector<int64_t> finish_;      // [op] as estimated

    Queue common_;                  // released, free to go anywhere
    std::vector<Queue> fixed_;      // [device] released, allowed on some devices only
    std::vector<Queue> bound_;      // [device] needs what this device made since the barrier
    std::vector<int32_t> waiting_;  // needs a barrier
    std::vector<int64_t> gains_;    // [device] ops that a barrier would make usable there
    std::vector<int32_t> devices_;  // least loaded first

    std::vector<Step> transfers_;  // of the barrier before this segment
    std::vector<Step> ops_;        // of this segment
    std::vector<Step> order_;      // all segments before
};

// Runs SegmentFill once, with bottom levels as priorities.
Solution segment_fill(const Problem& problem, BarrierTiming timing);

}  // namespace placewright
