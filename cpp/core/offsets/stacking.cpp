#include "offsets/stacking.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace placewright {

namespace {

constexpr int32_t kFailures = 400;  // after which the search restarts
constexpr int32_t kStarts = 50;     // after which it forgets where it failed
constexpr int64_t kToCome = -1;     // the offset of an item that remains
constexpr int32_t kNone = -1;

// Returns the begins that an end follows.
std::vector<int32_t> moments_of(std::span<const TimedBuffer> buffers) {
    std::vector<std::pair<int32_t, bool>> events;  // at one time, ends come first
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
    // The first order is that of MiniMalloc: items of full moments, then long ones, then large ones.
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
    for (int32_t start = 1; answer == Answer::unknown && effort_ > 0; ++start) {
        undo(0);
        std::ranges::stable_sort(items_, std::greater(), &Item::failures);
        if (start % kStarts == 0) {
            for (Item& item : items_) item.failures = 0;
        }
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
    members_.resize(items_.size());
    std::iota(members_.begin(), members_.end(), 0);
    int32_t part = split({0, int32_t(moments_.size()), 0, 0, kNone, kNone, 0, items_.size(), items_.size()});
    for (int32_t failures = 0; part != kNone;) {
        choices_.push_back({part, changes_.size(), parts_.size(), members_.size(), parts_[size_t(part)].level,
                            parts_[size_t(part)].from});
        while (true) {
            if (failures > kFailures || effort_ < 0) return Answer::unknown;
            if (choices_.empty()) return Answer::fits_not;
            Choice& choice = choices_.back();
            undo(choice.num_changes);
            parts_.resize(choice.num_parts);
            members_.resize(choice.num_members);
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
                --here.num_to_come;
                part = split(here);
                break;
            }
            ++failures;
        }
    }
    return Answer::fits;
}

// Returns the lowest item that can come next, and of several the first. An item above the top of another leaves a gap
// for that one; then there is a solution with the other one below.
int32_t Stacking::next_item(const Part& part, const Choice& choice) {
    effort_ -= 2 * int64_t(part.num_members);
    int64_t below = std::numeric_limits<int64_t>::max();
    for (const int32_t i : members(part)) {
        const Item& item = items_[size_t(i)];
        if (item.offset == kToCome) below = std::min(below, item.lowest + item.size);
    }
    int32_t found = kNone;
    for (const int32_t i : members(part)) {
        const Item& item = items_[size_t(i)];
        if (item.lowest >= below || item.lowest < choice.level || item.offset != kToCome) continue;
        if (item.lowest == choice.level && i < choice.from) continue;
        found = i;
        below = item.lowest;
    }
    return found;
}

// Splits a part into those that no remaining item connects. Returns the first of them, after which the others and then
// what follows the part come; kNone if nothing remains.
int32_t Stacking::split(const Part& part) {
    const size_t num_parts = parts_.size();
    int32_t next = part.next;
    for (int32_t end = part.end, begin = end; end > part.begin; end = begin) {
        do --begin;
        while (begin > part.begin && moments_[size_t(begin) - 1].passing > 0);
        if (begin + 1 == end && moments_[size_t(begin)].left == 0) continue;
        parts_.push_back(part);
        parts_.back().begin = begin;
        parts_.back().end = end;
        parts_.back().next = next;
        next = int32_t(parts_.size()) - 1;
    }
    const bool is_one = parts_.size() == num_parts + 1;
    for (size_t p = num_parts; p < parts_.size(); ++p) {
        if (!is_one || 2 * part.num_to_come < part.num_members) sift(parts_[p]);
    }
    return next;
}

// Keeps as members only the items that remain and are in the part.
void Stacking::sift(Part& part) {
    const size_t first = members_.size();
    effort_ -= int64_t(part.num_members);
    for (size_t m = part.first_member; m < part.first_member + part.num_members; ++m) {
        const Item& item = items_[size_t(members_[m])];
        if (item.offset == kToCome && part.begin <= item.first && item.last <= part.end)
            members_.push_back(members_[m]);
    }
    part.first_member = first;
    part.num_members = part.num_to_come = members_.size() - first;
}

std::span<const int32_t> Stacking::members(const Part& part) const {
    return std::span(members_).subspan(part.first_member, part.num_members);
}

// Places an item; returns whether all that remain may still fit.
bool Stacking::place(Item& item, const Part& part) {
    const int64_t top = item.lowest + item.size;
    set(item.offset, item.lowest);
    for (int32_t m = item.first; m < item.last; ++m) {
        Moment& moment = moments_[size_t(m)];
        set(moment.floor, top);
        set(moment.left, moment.left - item.size);
        if (m + 1 < item.last) set(moment.passing, moment.passing - 1);
    }
    for (const int32_t i : members(part)) {
        Item& other = items_[size_t(i)];
        if (other.offset == kToCome && item.first < other.last && other.first < item.last && other.lowest < top)
            set(other.lowest, top);
    }
    effort_ -= int64_t(part.num_members) + 2 * (part.end - part.begin) + 3 * (item.last - item.first);
    for (int32_t m = part.begin; m < part.end; ++m) {
        const Moment& moment = moments_[size_t(m)];
        if (std::max(moment.floor, part.level) + moment.left <= capacity_ && (moment.left == 0 || has_start(part, m)))
            continue;
        blame(part, m);
        return false;
    }
    return true;
}

// Returns whether some remaining item is low enough for all that remain at the moment; usually it is the one found
// before.
bool Stacking::has_start(const Part& part, int32_t moment) {
    Moment& here = moments_[size_t(moment)];
    const auto is_start = [&](int32_t i) {
        const Item& item = items_[size_t(i)];
        return item.offset == kToCome && item.first <= moment && moment < item.last &&
               item.lowest + here.left <= capacity_;
    };
    if (is_start(here.start)) return true;
    const auto among = members(part);
    const auto found = std::ranges::find_if(among, is_start);
    effort_ -= found - among.begin();
    if (found == among.end()) return false;
    here.start = *found;
    return true;
}

void Stacking::blame(const Part& part, int32_t moment) {
    for (const int32_t i : members(part)) {
        Item& item = items_[size_t(i)];
        item.failures += item.offset == kToCome && item.first <= moment && moment < item.last;
    }
}

void Stacking::set(int64_t& value, int64_t to) {
    changes_.push_back({&value, value});
    value = to;
}

void Stacking::undo(size_t num_changes) {
    for (; changes_.size() > num_changes; changes_.pop_back()) *changes_.back().where = changes_.back().before;
}

}  // namespace placewright
