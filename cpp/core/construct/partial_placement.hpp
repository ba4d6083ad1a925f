// The devices of ops and tensors while ops are placed one after another, and the memory in use.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "problem/problem.hpp"
#include "problem/storage_uses.hpp"

namespace placewright {

// Memory is an upper bound for the order in which ops are appended, each with its missing inputs sent right before it:
// a tensor counts on every device that holds it until all its readers are appended, on any device.
class PartialPlacement {
  public:
    // Without memory it gives no peaks or limits, and is faster.
    explicit PartialPlacement(const Problem& problem, bool with_memory = true);

    // Returns to the state in which no op is placed; allocates nothing.
    void reset();

    // Returns the devices the op may still use: its group's, or the one where its group already is.
    uint64_t allowed(int32_t op) const {
        const int32_t device = group_device_[problem_.group[op]];
        return device < 0 ? problem_.allowed[op] & problem_.everywhere() : uint64_t{1} << device;
    }

    // Returns -1 while the op is not placed.
    int32_t device_of(int32_t op) const { return device_of_[op]; }
    int32_t home(int32_t tensor) const { return device_of_[problem_.producer[tensor]]; }
    bool is_on(int32_t tensor, int32_t device) const { return present_[tensor] >> device & 1; }

    // Returns when the op may start there: at `start`, or later if a predecessor's signal, by its finish, comes later.
    int64_t after_signals(int32_t op, int32_t device, int64_t start, const std::vector<int64_t>& finish) const;

    // Returns the peak of the device if the op were appended there now, with the residents of its whole group.
    int64_t resulting_peak(int32_t op, int32_t device) const;

    // Returns the bytes of resulting_peak above the memory limit; 0 if it fits.
    int64_t bytes_over_limit(int32_t op, int32_t device) const;

    // Places the op, and its inputs that are missing there.
    void append(int32_t op, int32_t device);

    std::span<const int32_t> devices() const { return device_of_; }
    std::vector<int32_t> take_devices() && { return std::move(device_of_); }

  private:
    int64_t missing_bytes(int32_t op, int32_t device) const;
    int64_t missing_resident_bytes(int32_t op, int32_t device) const;
    void hold(int32_t op, int32_t device);
    void hold_residents(int32_t op, int32_t device);
    void free_copies(int32_t tensor);
    void free_what_was_last_used_by(int32_t op);

    const Problem& problem_;
    const bool with_memory_;
    std::vector<int32_t> device_of_;     // [op]
    std::vector<uint64_t> present_;      // [tensor] mask of devices that were sent it, or made it
    std::vector<int32_t> group_device_;  // [first op of the group], -1 while none of it is placed
    StorageUses uses_;
    Csr group_residents_;                // [first op of the group] residents of all its ops
    std::vector<int32_t> users_left_;    // [storage] ops not appended
    std::vector<int32_t> readers_left_;  // [tensor] ops not appended
    std::vector<int64_t> in_use_;        // [device] without residents
    std::vector<int64_t> peak_;          // [device] without residents
    std::vector<int64_t> resident_;      // [device] bytes
    std::vector<uint64_t> resident_on_;  // [resident] mask of devices
};

}  // namespace placewright
