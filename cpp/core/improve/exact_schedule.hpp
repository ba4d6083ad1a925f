// An exact search for the fastest schedule of few ops on several devices, by branch and bound. Ops are placed one after
// another in order of their starts, as if every transfer had a link of its own; links are considered once all ops are
// placed.
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
    // Returns whether the search applies: the step time is the objective, transfers overlap, no host launches, control
    // dependencies, if any, are signals, and ops, devices and times are small enough.
    static bool applies_to(const Problem& problem);

    // start: must be within the memory limits. divisor_ns: a common divisor of all times that a schedule adds up.
    // Throws std::invalid_argument if the search does not apply or the start is invalid.
    ExactSchedule(std::shared_ptr<const Problem> problem, Solution start, int64_t divisor_ns);

    // As in `Search`; an evaluation is an op placed, or two transfers put in order. The last one may add several
    // hundred.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    Fitness best_fitness() const { return {0, best_ns_, 0}; }
    Solution best() const { return best_; }
    // Returns whether the search has ended, and whether that proves the best to be optimal. It does not if a faster
    // schedule of ops was found for which the search of link orders gave up or exceeded a memory limit.
    bool is_exhausted() const { return evaluations_ > 0 && depth_ == 0; }
    bool is_proven() const { return is_exhausted() && !has_open_ends_; }

  private:
    struct Choice {
        int64_t start, end, rest;  // rest: from its end to the end of the step
        int32_t op, device;
    };
    // A state from which the search continues, and the choice that led to it.
    struct Frame {
        Choice made;  // unset in the first frame
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
