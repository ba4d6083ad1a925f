// The order of ops on devices that are already chosen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// Which of the ops that a device could start it starts.
enum class DispatchRule {
    longest_first,  // the one of highest bottom level, which counts a transfer only where the placement needs one
    first_come,     // the one that has been ready longest
};

// No device stands idle while an op could start there. Tensors leave as soon as they are made and queue at the links;
// blocking transfers are planned as if devices computed meanwhile. Inputs that another device waits for come first. A
// valid order, by start time.
std::vector<int32_t> dispatch_order(const Problem& problem, std::span<const int32_t> device_of,
                                    DispatchRule rule = DispatchRule::longest_first);

}  // namespace placewright
