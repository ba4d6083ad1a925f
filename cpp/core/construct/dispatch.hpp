// The order of ops on devices that are already chosen, by dispatching.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// The op that a device starts, of those that it could start.
enum class DispatchRule {
    longest_first,  // the one of highest bottom level, which counts a transfer only where the placement needs one
    first_come,     // the one that has been ready longest
};

// Returns a valid order by start time in which no device is idle while an op could start there. Tensors are sent as
// soon as they are made and queue at the links; blocking transfers are planned as if devices computed meanwhile. Inputs
// that another device waits for come first.
std::vector<int32_t> dispatch_order(const Problem& problem, std::span<const int32_t> device_of,
                                    DispatchRule rule = DispatchRule::longest_first);

}  // namespace placewright
