// An upper bound on memory that ignores times: everything that is ever on a device counts as if it were there at once.
#pragma once

#include <algorithm>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

class MemoryBound {
  public:
    explicit MemoryBound(const Problem& problem)
        : problem_(problem),
          workspace_(problem.num_ops == 0 ? 0 : std::ranges::max(problem.workspace_bytes)),
          bytes_(problem.num_devices),
          readers_(problem.resident_bytes.size() * size_t(problem.num_devices)) {}

    void clear() {
        std::ranges::fill(bytes_, 0);
        std::ranges::fill(readers_, 0);
    }

    void add_op(int32_t op, int32_t device) {
        bytes_[device] += problem_.output_bytes[op];
        for (int32_t resident : problem_.residents[op])
            if (readers(resident, device)++ == 0) bytes_[device] += problem_.resident_bytes[resident];
    }
    void remove_op(int32_t op, int32_t device) {
        bytes_[device] -= problem_.output_bytes[op];
        for (int32_t resident : problem_.residents[op])
            if (--readers(resident, device) == 0) bytes_[device] -= problem_.resident_bytes[resident];
    }
    void add_copy(int32_t tensor, int32_t device) { bytes_[device] += problem_.copy_bytes[tensor]; }
    void remove_copy(int32_t tensor, int32_t device) { bytes_[device] -= problem_.copy_bytes[tensor]; }

    // Returns whether no device can exceed its limit; false means that one may or may not.
    bool is_within_limits() const {
        for (int32_t device = 0; device < problem_.num_devices; ++device)
            if (bytes_[device] + workspace_ > problem_.memory_limit[device]) return false;
        return true;
    }

  private:
    int32_t& readers(int32_t resident, int32_t device) {
        return readers_[size_t(resident) * size_t(problem_.num_devices) + size_t(device)];
    }

    const Problem& problem_;
    int64_t workspace_;             // the largest of any op
    std::vector<int64_t> bytes_;    // [device]
    std::vector<int32_t> readers_;  // [resident][device] number of ops that read it there
};

}  // namespace placewright
