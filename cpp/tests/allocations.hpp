// Counts calls of operator new.
#pragma once

#include <cstdint>

namespace placewright::testing {

// Returns how often any thread has called operator new so far; always 0 with the address sanitizer.
int64_t allocations();

}  // namespace placewright::testing
