// The fastest schedule of few ops on several devices, by branch and bound: ops are placed one after another by the time
// at which they start, as if every transfer had a link of its own; links are looked at where all ops are placed.
#pragma once

#include <memory>
#include <vector>

#include "improve/link_orders.hpp"
#include "improve/op_windows.hpp"
#include "improve/refuted_states.hpp"
#include "problem/problem.hpp"
#include "simulate/simulate.hpp"

namespace placewright {

class ExactSchedule {
  public:
    // Whether it can say anything: transfers overlap, nothing is launched, dependencies delay in any order, and ops and
    // devices are few and do not take years.
    static bool applies_to(const Problem& problem);

    // start: within the memory limits. divisor_ns: of all times that a schedule adds up. Throws std::invalid_argument
    // where the problem or the start is not what it must be.
    ExactSchedule(std::shared_ptr<const Problem> problem, Solution start, int64_t divisor_ns);

    // As `Search`; an evaluation is an op placed, or two transfers put in order. The last may be some hundred of these.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    Fitness best_fitness() const { return {0, best_ns_, 0}; }
    Solution best() const { return best_; }
    // Whether the search has come to its end, and whether that proves the best to be optimal: where memory is limited
    // a schedule may be fast enough only in an order that exceeds a limit.
    bool is_exhausted() const { return evaluations_ > 0 && depth_ == 0; }
    bool is_proven() const { return is_exhausted() && !has_open_ends_; }

  private:
    struct Choice {
        int64_t start, end, rest;  // rest: from its end to that of the step
        int32_t op, device;
    };
    // A state from which the search goes on, and how it came there.
    struct Frame {
        Choice made;  // all but the first
        int64_t now_before, clock_before;
        uint64_t allowed_before;
        std::vector<Choice> choices;
        size_t tried;
        std::vector<uint64_t> asleep;  // [device] ops that need not be next there
        std::vector<int64_t> state;
        bool is_refuted;
    };

    void step();
    void place(const Choice& choice, Frame& frame);
    void take_back(const Frame& frame);
    bool enter(Frame& frame, const Frame* parent);
    void find_choices(Frame& frame);
    void find_state(Frame& frame) const;
    void leave(bool is_refuted);
    bool look_at_links();

    std::shared_ptr<const Problem> problem_;
    int64_t divisor_ns_;
    DevicePairDelays delays_;
    OpWindows windows_;
    RefutedStates refuted_;
    LinkOrders link_orders_;
    SimulationScratch scratch_;
    ScheduledOps scheduled_;
    std::vector<int32_t> missing_;  // [op] of those it waits for
    std::vector<int32_t> placed_;   // ops by the time they start
    std::vector<Frame> frames_;     // the first `depth_` are in use
    size_t depth_ = 0;
    int64_t evaluations_ = 0;
    Solution best_;
    int64_t best_ns_, limit_ns_;
    bool has_open_ends_ = false;
};

}  // namespace placewright
