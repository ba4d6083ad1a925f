// A chromosome with affinities: op x device affinities, op priorities, tensor x device priorities (REGAL, A.5).
#pragma once

#include <cstdint>

#include "problem/problem.hpp"

namespace placewright {

struct AffinityKeys {
    explicit AffinityKeys(const Problem& problem)
        : num_ops(problem.num_ops), num_tensors(problem.num_tensors), num_devices(problem.num_devices) {}

    int64_t size() const { return num_ops * (num_devices + 1) + num_tensors * num_devices; }
    int64_t affinity(int32_t op, int32_t device) const { return op * num_devices + device; }
    int64_t op_priority(int32_t op) const { return num_ops * num_devices + op; }
    int64_t transfer_priority(int32_t tensor, int32_t device) const {
        return num_ops * (num_devices + 1) + tensor * num_devices + device;
    }

    int64_t num_ops, num_tensors, num_devices;
};

}  // namespace placewright
