#include "offsets/stacking.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

namespace placewright {

namespace {

constexpr int32_t kFailures = 400;  // after which the search starts again
constexpr int64_t kToCome = -1;     // the offset of such an item
constexpr int32_t kNone = -1;

// Begins that an end follows.
std::vector<int32_t> moments_of(std::span<const TimedBuffer> buffers) {
    std::vector<std::pair<int32_t, bool>> events;  // of one time, ends first
    for (const TimedBuffer& b : buffers) {
        events.emplace_back(b.begin, true);
        events.emplace_back(b.end, false);
    }
    std::ranges::sort(events);
    std::vector<int32_t> moments;
    for (size_t i = 0; i + 1 < events.size(); ++i) {
        if (events[i].second && !events[i + 1].second) moments.push_back(events[i].first);
    }
    return moments;
}

}  // namespace

Stacking::Stacking(std::span<const TimedBuffer> buffers) {
    const std::vector<int32_t> times = moments_of(buffers);
    const auto moment_at = [&](int32_t event) {
        return int32_t(std::ranges::lower_bound(times, event) - times.begin());
    };
    moments_.resize(times.size());
    for (size_t b = 0; b < buffers.size(); ++b) {
        const int32_t first = moment_at(buffers[b].begin), last = moment_at(buffers[b].end);
        items_.push_back({buffers[b].size, 0, kToCome, 0, first, last, int32_t(b)});
        for (int32_t m = first; m < last; ++m) moments_[size_t(m)].left += buffers[b].size;
        for (int32_t m = first; m + 1 < last; ++m) ++moments_[size_t(m)].passing;
    }
    // At first in the order of MiniMalloc: those of full moments, then long ones, then large ones.
    std::vector<std::tuple<int64_t, int32_t, int64_t, int32_t>> keys;
    for (const Item& item : items_) {
        int64_t fullest = 0;
        for (int32_t m = item.first; m < item.last; ++m) fullest = std::max(fullest, moments_[size_t(m)].left);
        keys.emplace_back(-fullest, item.first - item.last, -item.size, item.buffer);
    }
    std::ranges::sort(items_, {}, [&](const Item& item) { return keys[size_t(item.buffer)]; });
}

Answer Stacking::search(int64_t capacity, int64_t& effort) {
    capacity_ = capacity;
    effort_ = effort;
    Answer answer = Answer::unknown;
    while (answer == Answer::unknown && effort_ > 0) {
        undo(0);
        std::ranges::stable_sort(items_, std::greater(), &Item::failures);
        answer = descend();
    }
    effort = effort_;
    return answer;
}

std::vector<int64_t> Stacking::offsets() const {
    std::vector<int64_t> offsets(items_.size());
    for (const Item& item : items_) offsets[size_t(item.buffer)] = item.offset;
    return offsets;
}

Answer Stacking::descend() {
    choices_.clear();
    parts_.clear();
    int32_t part = split({0, int32_t(moments_.size()), 0, 0, kNone, kNone});
    for (int32_t failures = 0; part != kNone;) {
        choices_.push_back(
            {part, changes_.size(), parts_.size(), parts_[size_t(part)].level, parts_[size_t(part)].from});
        while (true) {
            if (failures > kFailures || effort_ < 0) return Answer::unknown;
            if (choices_.empty()) return Answer::fits_not;
            Choice& choice = choices_.back();
            undo(choice.num_changes);
            parts_.resize(choice.num_parts);
            Part here = parts_[size_t(choice.part)];
            const int32_t item = next_item(here, choice);
            if (item == kNone) {
                choices_.resize(size_t(here.maker + 1));
                ++failures;
                continue;
            }
            here.level = choice.level = items_[size_t(item)].lowest;
            here.from = choice.from = item + 1;
            if (place(items_[size_t(item)], here)) {
                here.maker = int32_t(choices_.size()) - 1;
                part = split(here);
                break;
            }
            ++failures;
        }
    }
    return Answer::fits;
}

// The lowest item that can come next, and of several the first. What would lie above the top of another left a gap for
// that; then there is a solution with the other one below.
int32_t Stacking::next_item(const Part& part, const Choice& choice) {
    effort_ -= 2 * std::ssize(items_);
    const auto is_in = [&](const Item& item) {
        return item.offset == kToCome && part.begin <= item.first && item.last <= part.end;
    };
    int64_t below = std::numeric_limits<int64_t>::max();
    for (const Item& item : items_) {
        if (is_in(item)) below = std::min(below, item.lowest + item.size);
    }
    int32_t found = kNone;
    for (int32_t i = 0; i < int32_t(items_.size()); ++i) {
        const Item& item = items_[size_t(i)];
        if (item.lowest >= below || item.lowest < choice.level || !is_in(item)) continue;
        if (item.lowest == choice.level && i < choice.from) continue;
        found = i;
        below = item.lowest;
    }
    return found;
}

// The first of what the part falls into, then what follows the part; kNone if nothing is to come.
int32_t Stacking::split(const Part& part) {
    int32_t next = part.next;
    for (int32_t end = part.end, begin = end; end > part.begin; end = begin) {
        do --begin;
        while (begin > part.begin && moments_[size_t(begin) - 1].passing > 0);
        if (begin + 1 == end && moments_[size_t(begin)].left == 0) continue;
        parts_.push_back({begin, end, part.level, part.from, next, part.maker});
        next = int32_t(parts_.size()) - 1;
    }
    return next;
}

// Whether all that is to come may still fit after the item.
bool Stacking::place(Item& item, const Part& part) {
    const int64_t top = item.lowest + item.size;
    set(item.offset, item.lowest);
    for (int32_t m = item.first; m < item.last; ++m) {
        Moment& moment = moments_[size_t(m)];
        set(moment.floor, top);
        set(moment.left, moment.left - item.size);
        if (m + 1 < item.last) set(moment.passing, moment.passing - 1);
    }
    for (Item& other : items_) {
        if (other.offset == kToCome && item.first < other.last && other.first < item.last && other.lowest < top)
            set(other.lowest, top);
    }
    effort_ -= std::ssize(items_) + 2 * (part.end - part.begin) + 3 * (item.last - item.first);
    for (int32_t m = part.begin; m < part.end; ++m) {
        const Moment& moment = moments_[size_t(m)];
        if (std::max(moment.floor, part.level) + moment.left <= capacity_ && (moment.left == 0 || has_start(m)))
            continue;
        blame(m);
        return false;
    }
    return true;
}

// Whether some item that is to come lies low enough for all that are: mostly the one that did before.
bool Stacking::has_start(int32_t moment) {
    Moment& here = moments_[size_t(moment)];
    const auto is_start = [&](const Item& item) {
        return item.offset == kToCome && item.first <= moment && moment < item.last &&
               item.lowest + here.left <= capacity_;
    };
    if (is_start(items_[here.start])) return true;
    const auto found = std::ranges::find_if(items_, is_start);
    effort_ -= found - items_.begin();
    if (found == items_.end()) return false;
    here.start = size_t(found - items_.begin());
    return true;
}

void Stacking::blame(int32_t moment) {
    for (Item& item : items_) item.failures += item.offset == kToCome && item.first <= moment && moment < item.last;
}

void Stacking::set(int64_t& value, int64_t to) {
    changes_.push_back({&value, value});
    value = to;
}

void Stacking::undo(size_t num_changes) {
    for (; changes_.size() > num_changes; changes_.pop_back()) *changes_.back().where = changes_.back().before;
}

}  // namespace placewright
