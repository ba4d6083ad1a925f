#include "offsets/arena.hpp"

#include <algorithm>
#include <utility>

#include "offsets/best_fit.hpp"
#include "offsets/stacking.hpp"

namespace placewright {

namespace {

int64_t peak_of(std::span<const TimedBuffer> buffers) {
    std::vector<std::pair<int32_t, int64_t>> changes;  // at one time, ends come first
    for (const TimedBuffer& b : buffers) {
        changes.emplace_back(b.begin, b.size);
        changes.emplace_back(b.end, -b.size);
    }
    std::ranges::sort(changes);
    int64_t in_use = 0, peak = 0;
    for (const auto& [event, bytes] : changes) peak = std::max(peak, in_use += bytes);
    return peak;
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
    // Tries the bound itself first, then capacities halfway between the best size and the largest capacity that is too
    // small or in which nothing was found.
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
