#include "decode/packed_keys.hpp"

#include <algorithm>
#include <utility>

namespace placewright {

// Radix sort on the keys' top digits, then an insertion pass for the few that agree in them. If keys are skewed, these
// may be many; then std::sort takes over.
void PackedKeys::sort(size_t count) {
    const int bits = count < 4096 ? 8 : 11;
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    const int low_shift = 64 - 2 * bits, high_shift = 64 - bits;
    uint32_t* low = digit_counts.data();
    uint32_t* high = low + mask + 1;
    std::fill_n(low, 2 * (mask + 1), 0u);
    for (size_t i = 0; i < count; ++i) {
        ++low[packed[i] >> low_shift & mask];
        ++high[packed[i] >> high_shift];
    }
    uint32_t low_sum = 0, high_sum = 0;
    for (size_t digit = 0; digit <= mask; ++digit) {
        low_sum += std::exchange(low[digit], low_sum);
        high_sum += std::exchange(high[digit], high_sum);
    }
    for (size_t i = 0; i < count; ++i) buffer[low[packed[i] >> low_shift & mask]++] = packed[i];
    for (size_t i = 0; i < count; ++i) packed[high[buffer[i] >> high_shift]++] = buffer[i];
    size_t moves = 0;
    for (size_t i = 1; i < count && moves <= 4 * count; ++i) {
        const uint64_t item = packed[i];
        size_t at = i;
        for (; at > 0 && packed[at - 1] > item; --at, ++moves) packed[at] = packed[at - 1];
        packed[at] = item;
    }
    if (moves > 4 * count) std::sort(packed.begin(), packed.begin() + ptrdiff_t(count));
}

}  // namespace placewright
