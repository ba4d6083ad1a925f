// How long it takes at least from where paths part to where they join, if ops elsewhere wait for transfers.
#pragma once

#include <vector>

#include "bounds/ancestor_walk.hpp"
#include "bounds/durations.hpp"
#include "problem/delays.hpp"

namespace placewright {

// Ops between a fork u and a join v that are not on the device of u start later by a transfer on their way from u, and
// those not on the device of v end earlier by one on their way to v. So in L ns between the end of u and the start of v
// a device does L less these delays of work at most; or one device does all of it.
class ForkJoin {
  public:
    // budget: of dependencies that are looked at, for all joins together. References are kept.
    ForkJoin(const Delays& delays, const Durations& durations, int64_t budget);

    // A time before which op, where paths join, starts in no plan, from the heads of what comes before it. joins_left:
    // how many there are from op on.
    int64_t earliest_start(int32_t op, std::span<const int64_t> head, int64_t joins_left);

  private:
    struct Between {
        int64_t after_fork, apart_from_fork;  // from the fork's end to its start at least; and on another device
        int64_t to_join, apart_from_join;     // from its end to the join's start at least; and on another device
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
    std::vector<int32_t> num_after_;                     // [op] ops that wait for it
    std::vector<int32_t> num_open_;                      // [op] of it and those before it, for which a later one waits
    std::vector<int32_t> place_;                         // [op] its place among the ancestors, of those that are
    std::vector<int32_t> ancestors_;                     // from the last to the first
    std::vector<size_t> num_open_beside_;                // [place] ancestors before it that a later one waits for
    std::vector<int64_t> after_fork_, apart_from_fork_;  // [place] -1 where it does not come after the fork
    std::vector<Between> between_;
    std::vector<int64_t> ends_;
};

}  // namespace placewright
