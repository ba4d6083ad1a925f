// List scheduling: ops are placed one after another and stay where they are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "construct/placements.hpp"
#include "problem/problem.hpp"

namespace placewright {

// The estimate for the time of an op or a transfer while nothing is placed: its mean over devices or links (mean), the
// least, which is 0 for a transfer (best), or the largest (worst; Zhao and Sakellariou 2003); or the mean, for a
// transfer over all pairs of devices, where a device with itself needs none (pairs).
enum class Outlook { mean, best, worst, pairs };

// A link that represents all links of the machine.
struct StandIn {
    int64_t latency_ns = 0;
    int64_t inverse_bandwidth = 0;

    StandIn(const Problem& problem, Outlook outlook);
    int64_t transfer_time(int64_t bytes) const {
        const auto scaled = static_cast<unsigned __int128>(bytes) * static_cast<uint64_t>(inverse_bandwidth);
        return latency_ns + static_cast<int64_t>(scaled >> 32);
    }
};

// Returns the estimated time of each op.
std::vector<int64_t> stand_in_times(const Problem& problem, Outlook outlook);

// Returns, per op, ns from its start to the end of the step along its longest path of successors; with mean times this
// is HEFT's upward rank (Topcuoglu, Hariri and Wu 2002, section 4.1).
std::vector<int64_t> bottom_levels(const Problem& problem, Outlook outlook = Outlook::mean);

// Returns the ops by bottom level, highest first: a valid order.
std::vector<int32_t> bottom_level_order(const Problem& problem, Outlook outlook = Outlook::mean);

enum class DeviceChoice {
    earliest_finish,
    least_peak,  // of the device once the op has run there; then the earliest finish
};

// Places ops in the given order, each on the device its choice prefers; transfers are counted as in PartialSchedule
// (HEFT without insertion into gaps, which would move ops already placed). A device whose memory limit the op would
// exceed is skipped while another is left; if none is, the one least exceeded is taken.
PlacementAndOrder list_schedule(const Problem& problem, std::span<const int32_t> order, DeviceChoice choice);

class PartialSchedule;

// The same, into an empty schedule.
void list_schedule(const Problem& problem, std::span<const int32_t> order, DeviceChoice choice,
                   PartialSchedule& schedule);

// Returns the choice that suits the objective.
inline DeviceChoice choice_for(const Problem& problem) {
    return problem.minimize_memory ? DeviceChoice::least_peak : DeviceChoice::earliest_finish;
}
inline PlacementAndOrder list_schedule(const Problem& problem, std::span<const int32_t> order) {
    return list_schedule(problem, order, choice_for(problem));
}

// Earliest task first (Hwang, Chow, Anger and Lee 1989): takes the pair of a ready op and a device that can start
// first, ties by bottom level, then by earliest finish; memory limits as in list_schedule. Compares only the ready ops
// of highest bottom level, as many as make `max_pairs` pairs with the devices, but at least one: a departure from the
// paper that keeps wide graphs near-linear.
PlacementAndOrder earliest_task_first(const Problem& problem, int32_t max_pairs = 256);

}  // namespace placewright
