#include "bounds/fork_join.hpp"

#include <algorithm>
#include <functional>

namespace placewright {

namespace {

constexpr int64_t kNever = Delays::kNever;
// Joins and forks with few other open paths prove most: those with no more than any of the kBeside ops before and
// after.
constexpr size_t kBeside = 6;
constexpr size_t kMostAncestors = 64, kMostOfNarrow = 320;
constexpr int kNearForks = 4;        // the nearest forks, tried however many paths are open
constexpr int64_t kNarrowShare = 8;  // a narrow join may spend this many times as much as others
constexpr size_t kMostEnds = 6;      // thresholds tried for the delay before the join

// A set of ops between a fork and a join, with the least of each of their delays.
struct Together {
    int64_t after = kNever, apart_after = kNever, before = kNever, apart_before = kNever;
    int64_t time = 0, work = 0;

    // On one device the ops run one after another. On several, each device loses `far` of the time, except that the
    // devices of the fork and the join together lose `far - near` less. In under `far` ns only those two do any work.
    int64_t least_time(int64_t scale, int64_t heaviest) const {
        using Wide = __int128;
        const Wide near = Wide(after) + before, far = Wide(apart_after) + apart_before;
        Wide spread = ((Wide(work) + heaviest - 1) / heaviest + near + far + 1) / 2;
        if (spread >= far) spread = far + std::max<Wide>(0, (Wide(work) - heaviest * (far - near) + scale - 1) / scale);
        return static_cast<int64_t>(std::min(near + time, spread));
    }
};

}  // namespace

ForkJoin::ForkJoin(const Delays& delays, const Durations& durations, int64_t budget)
    : delays_(delays),
      durations_(durations),
      budget_(budget),
      to_join_(delays),
      num_after_(delays.before.num_rows()),
      num_open_(delays.before.num_rows()),
      place_(delays.before.num_rows()) {
    for (int32_t op = delays.before.num_rows() - 1; op >= 0; --op)
        for (int32_t other : delays.before[op])
            if (num_after_[size_t(other)]++ == 0) {  // op is the last that waits for it
                ++num_open_[size_t(other)];
                --num_open_[size_t(op)];
            }
    for (size_t op = 1; op < num_open_.size(); ++op) num_open_[op] += num_open_[op - 1];
}

int64_t ForkJoin::earliest_start(int32_t op, std::span<const int64_t> head, int64_t joins_left) {
    const bool narrow = is_narrow(op);
    const int64_t end_of_budget = budget_ - budget_ / joins_left * (narrow ? std::min(kNarrowShare, joins_left) : 1);
    if (end_of_budget == budget_) return head[size_t(op)];
    find_ancestors(op, narrow ? kMostOfNarrow : kMostAncestors);
    int64_t earliest = head[size_t(op)], time = 0;
    int forks = 0;
    for (size_t place = 0; place < ancestors_.size() && budget_ > end_of_budget; ++place) {
        const auto fork = size_t(ancestors_[place]);
        const int64_t end = head[fork] + durations_.time_ns[fork];
        if (num_after_[fork] > 1 && end + time > earliest && (forks < kNearForks || is_waist(place))) {
            ++forks;
            find_between(place);
            earliest = std::max(earliest, end + least_time());
        }
        time += durations_.time_ns[fork];
    }
    return earliest;
}

bool ForkJoin::is_narrow(int32_t op) const {
    const size_t first = size_t(op) - std::min(size_t(op), kBeside);
    const size_t end = std::min(num_open_.size(), size_t(op) + kBeside + 1);
    const auto open = num_open_.begin();
    return num_open_[size_t(op)] <= *std::min_element(open + int64_t(first), open + int64_t(end));
}

bool ForkJoin::is_waist(size_t place) const {
    const size_t first = place - std::min(place, kBeside);
    const size_t end = std::min(num_open_beside_.size(), place + kBeside + 1);
    const auto open = num_open_beside_.begin();
    return num_open_beside_[place] <= *std::min_element(open + int64_t(first), open + int64_t(end));
}

void ForkJoin::find_ancestors(int32_t op, size_t most) {
    ancestors_.clear();
    num_open_beside_.clear();
    to_join_.begin(op);
    budget_ -= static_cast<int64_t>(delays_.before[op].size());
    while (!to_join_.is_over() && ancestors_.size() < most) {
        const int32_t other = to_join_.take();
        place_[size_t(other)] = static_cast<int32_t>(ancestors_.size());
        ancestors_.push_back(other);
        num_open_beside_.push_back(to_join_.num_open());
        to_join_.pass(other, durations_.time_ns[size_t(other)]);
        budget_ -= static_cast<int64_t>(delays_.before[other].size());
    }
}

// Collects the ancestors that come after the fork.
void ForkJoin::find_between(size_t fork) {
    between_.clear();
    after_fork_.assign(fork + 1, -1);
    apart_from_fork_.assign(fork + 1, 0);
    after_fork_[fork] = 0;
    for (size_t place = fork; place-- > 0;) {
        const int32_t op = ancestors_[place];
        budget_ -= static_cast<int64_t>(delays_.before[op].size());
        for (int32_t i = delays_.before.begin[op]; i < delays_.before.begin[op + 1]; ++i) {
            const int32_t other = delays_.before.values[i];
            const auto there = size_t(place_[size_t(other)]);
            // Entries in place_ from earlier joins are not cleared, so they are checked here.
            if (there > fork || ancestors_[there] != other || after_fork_[there] < 0) continue;
            const bool is_fork = there == fork;
            const int64_t after = is_fork ? 0 : after_fork_[there] + durations_.time_ns[other];
            const int64_t apart = is_fork ? kNever : apart_from_fork_[there] + durations_.time_ns[other];
            after_fork_[place] = std::max(after_fork_[place], after);
            apart_from_fork_[place] =
                std::max(apart_from_fork_[place], std::min({after + delays_.between_ns[i], apart, kNever}));
        }
        if (after_fork_[place] >= 0)
            between_.push_back({after_fork_[place], apart_from_fork_[place], to_join_.rest(op), to_join_.apart(op),
                                durations_.time_ns[size_t(op)], durations_.work[size_t(op)]});
    }
}

// Returns the longest time that any set of ops needs, among the sets of all ops whose two delays reach given
// thresholds.
int64_t ForkJoin::least_time() {
    std::ranges::sort(between_, std::greater{}, &Between::apart_from_fork);
    ends_.clear();
    for (const Between& op : between_) ends_.push_back(op.apart_from_join);
    std::ranges::sort(ends_);
    const auto repeated = std::ranges::unique(ends_);
    ends_.erase(repeated.begin(), repeated.end());
    const size_t num_ends = std::min(ends_.size(), kMostEnds);
    int64_t least = 0;
    for (size_t i = 0; i < num_ends; ++i) {
        const int64_t end = ends_[i * ends_.size() / num_ends];
        Together taken;
        for (const Between& op : between_) {
            if (op.apart_from_join < end) continue;
            taken.after = std::min(taken.after, op.after_fork);
            taken.apart_after = op.apart_from_fork;
            taken.before = std::min(taken.before, op.to_join);
            taken.apart_before = std::min(taken.apart_before, op.apart_from_join);
            taken.time += op.time;
            taken.work += op.work;
            least = std::max(least, taken.least_time(durations_.scale, durations_.heaviest));
        }
    }
    return least;
}

}  // namespace placewright
