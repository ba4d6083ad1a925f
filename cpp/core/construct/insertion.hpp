// Insertion-based list scheduling (Topcuoglu, Hariri and Wu 2002): ops are placed one after another, each in the first
// idle time of a device that is long enough.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "construct/placements.hpp"
#include "problem/problem.hpp"

namespace placewright {

enum class PlannedLinks {
    free,     // carry any number of tensors at once, as the classic methods assume
    queueing  // carry one after another, each in the first idle time that is long enough (Sinnen and Sousa 2005)
};

struct InsertionRule {
    PlannedLinks links = PlannedLinks::free;
    // [op] the device its group must use, -1 if it may choose. Empty: none is fixed.
    std::span<const int32_t> fixed;
    // [op][device] ns added to the finish when devices are compared. Empty: nothing is added.
    std::span<const int64_t> outlook;
};

struct InsertionSchedule {
    PlacementAndOrder placed;  // ops by start
    int64_t step_time_ns = 0;
};

// Schedules ops one after another. `sequence` holds every op once, after all it depends on. Transfers are planned as if
// devices computed meanwhile, also where they block. Ties go to the first device; memory limits are ignored.
InsertionSchedule insertion_schedule(const Problem& problem, std::span<const int32_t> sequence,
                                     const InsertionRule& rule = {});

// Returns optimistic costs (Arabnejad and Barbosa 2014, PEFT): [op][device] ns that the longest path takes at least
// after the op on that device, if each successor is on the device best for it; transfers take their mean time.
std::vector<int64_t> optimistic_costs(const Problem& problem);

// Returns a valid order: always the op of highest mean optimistic cost among those that can come next.
std::vector<int32_t> optimistic_order(const Problem& problem, std::span<const int64_t> costs);

// The arguments that CPOP gives to insertion_schedule (Topcuoglu, Hariri and Wu 2002, section 4.3).
struct CriticalPathFirst {
    std::vector<int32_t> sequence;  // always, of the ops that can come next, the one on the longest path by mean times
    // [op] the device that may run most ops of the critical path, and of those the one that runs it fastest, for the
    // ops of the path that may go there; else -1.
    std::vector<int32_t> fixed;
};
CriticalPathFirst critical_path_first(const Problem& problem);

}  // namespace placewright
