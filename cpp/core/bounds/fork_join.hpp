// The least time between a fork of paths and their join, where ops on other devices wait for transfers.
#pragma once

#include <vector>

#include "bounds/ancestor_walk.hpp"
#include "bounds/durations.hpp"
#include "problem/delays.hpp"

namespace placewright {

// Bounds how early joins of paths can start. Ops between a fork u and a join v that are not on the device of u start
// later by a transfer on their way from u, and those not on the device of v end earlier by a transfer on their way to
// v. So in the L ns between the end of u and the start of v, either one device does all the work, or each device works
// at most L less these delays.
class ForkJoin {
  public:
    // budget: dependencies that may be looked at, for all joins together. Keeps the references.
    ForkJoin(const Delays& delays, const Durations& durations, int64_t budget);

    // Returns a time before which no plan starts op, a join of paths, from the heads of its ancestors. joins_left: the
    // number of joins from op on, itself included.
    int64_t earliest_start(int32_t op, std::span<const int64_t> head, int64_t joins_left);

  private:
    struct Between {
        int64_t after_fork, apart_from_fork;  // least time from the fork's end to its start; if on another device
        int64_t to_join, apart_from_join;     // least time from its end to the join's start; if on another device
        int64_t time, work;
    };

    bool is_narrow(int32_t op) const;
    bool is_waist(size_t place) const;
    void find_ancestors(int32_t op, size_t most);
    void find_between(size_t fork);
    int64_t least_time();

    const Delays& delays_;
    const Durations& durations_;
    int64_t budget_;
    AncestorWalk to_join_;
    std::vector<int32_t> num_after_;                     // [op] number of ops that wait for it
    std::vector<int32_t> num_open_;                      // [op] number of ops up to it for which a later op waits
    std::vector<int32_t> place_;                         // [op] its place among the ancestors, if it is one
    std::vector<int32_t> ancestors_;                     // from the highest number to the lowest
    std::vector<size_t> num_open_beside_;                // [place] lower ancestors for which a later op waits
    std::vector<int64_t> after_fork_, apart_from_fork_;  // [place] -1 if it does not come after the fork
    std::vector<Between> between_;
    std::vector<int64_t> ends_;
};

}  // namespace placewright
