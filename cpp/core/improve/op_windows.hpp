// The earliest start and end of each op on each device, and the least time after it, once some ops have been scheduled.
#pragma once

#include <array>

#include "problem/delays.hpp"
#include "problem/problem.hpp"

namespace placewright {

// Ops that have been scheduled, each starting no earlier than the one before it, as if every transfer had a link of its
// own.
struct ScheduledOps {
    static constexpr int32_t kMaxOps = 64, kMaxDevices = 8;

    explicit ScheduledOps(const Problem& problem);

    bool has(int32_t op) const { return done >> op & 1; }

    uint64_t done = 0;                            // mask of ops
    int64_t now = 0;                              // start of the last one; no later one starts earlier
    std::array<int64_t, kMaxDevices> clock_ns{};  // [device] end of the last op there
    std::vector<int64_t> finish_ns;               // [op] if it is done
    std::vector<int32_t> device_of;               // [op] if it is done
    std::vector<uint64_t> allowed;                // [op] devices it may use, given where its group has begun
};

// The dependencies of each op, data and signals, with the delays between any two devices.
struct DevicePairDelays {
    explicit DevicePairDelays(const Problem& problem);

    // Returns the delay of the dependency at that place in before.values from one device to another; 0 on the same.
    int64_t apart_ns(int32_t place, int32_t source, int32_t destination) const {
        return between_ns[(size_t(place) * num_devices + source) * num_devices + destination];
    }

    size_t num_devices;
    Csr before;  // op -> ops it waits for, each once
    Csr after;   // op -> ops that wait for it
    Csr places;  // op -> places of these dependencies in before.values, in the order of `after`
    std::vector<int64_t> between_ns;
};

class OpWindows {
  public:
    static constexpr int64_t kNever = Delays::kNever;

    OpWindows(const Problem& problem, const DevicePairDelays& delays);

    // Finds the windows of all ops that are not done, in schedules that end by limit_ns; false if there is none.
    bool find(const ScheduledOps& scheduled, int64_t limit_ns);

    // kNever if the op cannot run on the device.
    int64_t start_ns(int32_t op, int32_t device) const { return start_[at(op, device)]; }
    int64_t end_ns(int32_t op, int32_t device) const { return end_[at(op, device)]; }
    // From the op's end there to the end of the step.
    int64_t rest_ns(int32_t op, int32_t device) const { return rest_[at(op, device)]; }

  private:
    size_t at(int32_t op, int32_t device) const { return size_t(op) * problem_.num_devices + device; }
    int64_t earliest_start(const ScheduledOps& scheduled, int32_t op, int32_t device) const;
    int64_t least_rest(int32_t op, int32_t device) const;
    bool find_starts(const ScheduledOps& scheduled, int64_t limit_ns);
    bool find_rests(const ScheduledOps& scheduled, int64_t limit_ns);
    bool have_room(const ScheduledOps& scheduled, int64_t limit_ns) const;

    const Problem& problem_;
    const DevicePairDelays& delays_;
    std::vector<int64_t> head_, tail_;         // [op] before anything is scheduled
    std::vector<int64_t> start_, end_, rest_;  // [op][device]
};

}  // namespace placewright
