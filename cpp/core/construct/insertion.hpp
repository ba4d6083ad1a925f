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
    // [op] the device its group must stand on, -1 where it may choose. None where empty.
    std::span<const int32_t> fixed;
    // [op][device] ns added to the finish when devices are compared. None where empty.
    std::span<const int64_t> outlook;
};

struct InsertionSchedule {
    PlacementAndOrder placed;  // ops by start
    int64_t step_time_ns = 0;
};

// `sequence` holds every op once, after all it depends on. Transfers are planned as if devices computed meanwhile, also
// where they block. Of equal devices the first; memory limits are unknown to the method.
InsertionSchedule insertion_schedule(const Problem& problem, std::span<const int32_t> sequence,
                                     const InsertionRule& rule = {});

// Optimistic costs (Arabnejad and Barbosa 2014, PEFT): [op][device] ns that the longest path takes at least after the
// op on that device, each successor on the device best for it; transfers take their mean time.
std::vector<int64_t> optimistic_costs(const Problem& problem);

// A valid order: of the ops that can come next always the one of highest mean optimistic cost.
std::vector<int32_t> optimistic_order(const Problem& problem, std::span<const int64_t> costs);

// What CPOP gives to insertion_schedule (Topcuoglu, Hariri and Wu 2002, section 4.3).
struct CriticalPathFirst {
    std::vector<int32_t> sequence;  // of the ops that can come next always the one on the longest path, over mean times
    // [op] the device that runs most of the critical path, and of those the one that runs it fastest, for the ops of
    // the path that may go there; else -1.
    std::vector<int32_t> fixed;
};
CriticalPathFirst critical_path_first(const Problem& problem);

}  // namespace placewright
