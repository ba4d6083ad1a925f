// A schedule under construction. Ops are appended one after another, each with the transfers it still needs: right
// before it (overlapped model), or at the last barrier of the two devices that its tensors can still catch (blocking).
// Times are those of the simulation with late transfers (overlapped), or with batched ones (blocking; exact if
// transfers are free and nothing is launched).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "construct/partial_placement.hpp"
#include "construct/placements.hpp"
#include "problem/problem.hpp"

namespace placewright {

class PartialSchedule {
  public:
    // Without memory it places ops by time only.
    explicit PartialSchedule(const Problem& problem, bool with_memory = true);

    // Returns to the state in which no op is appended; allocates nothing.
    void reset();

    const PartialPlacement& placement() const { return placement_; }
    int64_t clock(int32_t device) const { return clock_[device]; }

    // Returns when the op could start on the device if it were appended now.
    int64_t earliest_start(int32_t op, int32_t device) const;

    // Appends the op and what it needs; its predecessors must have been appended.
    void append(int32_t op, int32_t device);

    PlacementAndOrder take() && { return {std::move(placement_).take_devices(), std::move(ops_)}; }

  private:
    // Clocks (blocking) or links into one device (overlapped) as they would be after some transfers; one entry per
    // device, copied from the schedule when first used.
    struct Trial {
        std::array<int64_t, 64> free_at;
        std::array<int64_t, 64> host_clock;  // [host]
        uint64_t touched = 0;
        uint64_t barriers = 0;  // devices to which a barrier was added, blocking model
    };

    int64_t launched_transfer(int32_t source, int32_t destination, int64_t time, Trial& trial) const;
    int64_t& trial_time(Trial& trial, int32_t device, int64_t otherwise) const;
    int64_t arrival_blocking(int32_t tensor, int32_t device, Trial& trial) const;
    int64_t arrival_overlapped(int32_t tensor, int32_t device, Trial& trial) const;
    template <class F>
    int64_t start_after_transfers(int32_t op, int32_t device, Trial& trial, F&& on_transfer) const;
    void keep(const Trial& trial, int32_t device);
    size_t at(int32_t row, int32_t device) const { return size_t(row) * size_t(problem_.num_devices) + size_t(device); }

    const Problem& problem_;
    PartialPlacement placement_;
    std::vector<int32_t> ops_;
    std::vector<int64_t> clock_;         // [device]
    std::vector<int64_t> host_clock_;    // [host], if there are any
    std::vector<int64_t> link_free_;     // [source][destination]
    std::vector<int64_t> finish_;        // [op]
    std::vector<int32_t> position_;      // [op] number of ops appended before it
    std::vector<int32_t> last_barrier_;  // [device][device] number of ops appended before it, blocking model
    std::vector<int64_t> arrival_;       // [tensor][device], overlapped model
};

}  // namespace placewright
