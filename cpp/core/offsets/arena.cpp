#include "offsets/arena.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "offsets/best_fit.hpp"
#include "offsets/stacking.hpp"

namespace placewright {

namespace {

int64_t peak_of(std::span<const TimedBuffer> buffers) {
    int32_t last = 0;
    for (const TimedBuffer& b : buffers) last = std::max(last, b.end);
    std::vector<int64_t> in_use(size_t(last) + 1);
    for (const TimedBuffer& b : buffers) {
        in_use[size_t(b.begin)] += b.size;
        in_use[size_t(b.end)] -= b.size;
    }
    std::inclusive_scan(in_use.begin(), in_use.end(), in_use.begin());
    return *std::ranges::max_element(in_use);
}

}  // namespace

Arena smallest_arena(std::span<const TimedBuffer> buffers, int64_t effort) {
    Arena best{best_fit_in_turn(buffers), 0, peak_of(buffers)};
    best.size = size_of(buffers, best.offset);
    const auto keep = [&](std::vector<int64_t>&& offset) {
        const int64_t size = size_of(buffers, offset);
        if (size >= best.size) return;
        best.offset = std::move(offset);
        best.size = size;
    };
    const auto num_buffers = std::ssize(buffers);
    if (best.size == best.bound || num_buffers * num_buffers > effort) return best;
    keep(best_fit_by_size(buffers));
    // First the bound itself; then half the way to what is too small, or was not found.
    Stacking stacking(buffers);
    for (int64_t capacity = best.bound, too_small = capacity - 1; too_small + 1 < best.size && effort > 0;
         capacity = too_small + (best.size - too_small) / 2) {
        int64_t share = effort / 2 + 1;
        effort -= share;
        const Answer answer = stacking.search(capacity, share);
        effort += share;
        if (answer == Answer::fits)
            keep(stacking.offsets());
        else
            too_small = capacity;
        if (answer == Answer::fits_not) best.bound = capacity + 1;
    }
    return best;
}

}  // namespace placewright
