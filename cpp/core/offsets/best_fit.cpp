#include "offsets/best_fit.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace placewright {

namespace {

// The free parts of an arena that grows at its upper end.
class Gaps {
  public:
    int64_t take(int64_t size) {
        const auto found = by_length_.lower_bound({size, 0});
        if (found == by_length_.end()) return grow(size);
        const auto [length, bottom] = *found;
        remove(bottom, length);
        if (length > size) add(bottom + size, length - size);
        return bottom;
    }

    void give_back(int64_t bottom, int64_t length) {
        if (const auto above = by_bottom_.find(bottom + length); above != by_bottom_.end()) {
            const int64_t more = above->second;
            remove(bottom + length, more);
            length += more;
        }
        if (const auto above = by_bottom_.lower_bound(bottom); above != by_bottom_.begin()) {
            const auto [below, more] = *std::prev(above);
            if (below + more == bottom) {
                remove(below, more);
                bottom = below;
                length += more;
            }
        }
        add(bottom, length);
    }

  private:
    // Extends the arena; a gap at its upper end becomes part of the new piece.
    int64_t grow(int64_t size) {
        int64_t bottom = top_;
        if (!by_bottom_.empty()) {
            const auto [last, length] = *by_bottom_.rbegin();
            if (last + length == top_) {
                remove(last, length);
                bottom = last;
            }
        }
        top_ = bottom + size;
        return bottom;
    }

    void add(int64_t bottom, int64_t length) {
        by_bottom_.emplace(bottom, length);
        by_length_.emplace(length, bottom);
    }

    void remove(int64_t bottom, int64_t length) {
        by_bottom_.erase(bottom);
        by_length_.erase({length, bottom});
    }

    std::map<int64_t, int64_t> by_bottom_;
    std::set<std::pair<int64_t, int64_t>> by_length_;
    int64_t top_ = 0;
};

}  // namespace

std::vector<int64_t> best_fit_in_turn(std::span<const TimedBuffer> buffers) {
    std::vector<std::tuple<int32_t, bool, int32_t>> events;  // at one time, ends come first
    for (int32_t b = 0; b < int32_t(buffers.size()); ++b) {
        events.emplace_back(buffers[size_t(b)].begin, true, b);
        events.emplace_back(buffers[size_t(b)].end, false, b);
    }
    std::ranges::sort(events);
    std::vector<int64_t> offset(buffers.size());
    Gaps gaps;
    for (const auto& [event, begins, b] : events) {
        if (begins)
            offset[size_t(b)] = gaps.take(buffers[size_t(b)].size);
        else
            gaps.give_back(offset[size_t(b)], buffers[size_t(b)].size);
    }
    return offset;
}

std::vector<int64_t> best_fit_by_size(std::span<const TimedBuffer> buffers) {
    struct Placed {
        int64_t bottom, top;
        int32_t begin, end;
    };
    std::vector<int32_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](int32_t b) { return buffers[size_t(b)].size; });
    std::vector<Placed> placed;  // from low to high
    placed.reserve(buffers.size());
    std::vector<int64_t> offset(buffers.size());
    for (const int32_t b : order) {
        const auto& [begin, end, size] = buffers[size_t(b)];
        int64_t top = 0, bottom = -1, least = std::numeric_limits<int64_t>::max();
        for (const Placed& other : placed) {
            if (other.end <= begin || end <= other.begin) continue;
            const int64_t gap = other.bottom - top;
            if (gap >= size && gap < least) {
                bottom = top;
                least = gap;
            }
            top = std::max(top, other.top);
        }
        if (bottom < 0) bottom = top;
        offset[size_t(b)] = bottom;
        placed.insert(std::ranges::upper_bound(placed, bottom, {}, &Placed::bottom),
                      {bottom, bottom + size, begin, end});
    }
    return offset;
}

int64_t size_of(std::span<const TimedBuffer> buffers, std::span<const int64_t> offset) {
    int64_t size = 0;
    for (size_t b = 0; b < buffers.size(); ++b) size = std::max(size, offset[b] + buffers[b].size);
    return size;
}

}  // namespace placewright
