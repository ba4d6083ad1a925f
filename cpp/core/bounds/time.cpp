#include "bounds/time.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "bounds/heads.hpp"

namespace placewright {

namespace {

constexpr size_t kMaxAncestorSets = 1 << 14;  // as many sets of as many bits take 32 MiB

using Wide = __int128;  // work of all ops times scale, and heads times scale, may pass 2^63

// Values by rank, with addition to a prefix of ranks and the maximum of all.
class PrefixMaximum {
  public:
    explicit PrefixMaximum(std::span<const Wide> values)
        : size_(std::bit_ceil(values.size())), most_(2 * size_, values[0]), added_(2 * size_) {
        std::ranges::copy(values, most_.begin() + int64_t(size_));
        for (size_t node = size_ - 1; node > 0; --node) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
    }
    // Adds `value` to all ranks up to and including `last`, and `once` more to `last`.
    void add(size_t last, Wide value, Wide once) {
        size_t node = size_ + last;
        most_[node] += value + once;
        for (; node > 1; node /= 2) {
            if (node % 2 == 1) {
                most_[node - 1] += value;
                added_[node - 1] += value;
            }
            most_[node / 2] = std::max(most_[node], most_[node ^ 1]) + added_[node / 2];
        }
    }
    Wide most() const { return most_[1]; }

  private:
    size_t size_;
    std::vector<Wide> most_;   // [node] maximum of the ranks below it, without additions at nodes above it
    std::vector<Wide> added_;  // [node] added to all ranks below it
};

int64_t longest_path(const Delays& delays, std::span<const int64_t> time_ns) {
    std::vector<int64_t> finish(time_ns.size());
    for (size_t op = 0; op < finish.size(); ++op) {
        for (int32_t other : delays.before[int32_t(op)]) finish[op] = std::max(finish[op], finish[size_t(other)]);
        finish[op] += time_ns[op];
    }
    return std::ranges::max(finish);
}

int64_t longest_through(std::span<const int64_t> head, const Durations& durations, std::span<const int64_t> tail) {
    int64_t longest = 0;
    for (size_t op = 0; op < head.size(); ++op)
        longest = std::max(longest, head[op] + durations.time_ns[op] + tail[op]);
    return longest;
}

// For every R and Q, the ops with heads of at least R and tails of at least Q do all their work between R and Q before
// the end. R descends. For every Q that is the tail of an op taken so far, the tree holds Q plus the work of the ops
// taken with tails of at least Q.
int64_t fullest_window(std::span<const int64_t> head, const Durations& durations, std::span<const int64_t> tail) {
    constexpr Wide kNotYet = Wide{1} << 124;
    std::vector<int32_t> by_head(head.size()), rank(head.size());
    std::iota(by_head.begin(), by_head.end(), 0);
    std::vector<int32_t> by_tail = by_head;
    std::ranges::stable_sort(by_head, std::greater{}, [&](int32_t op) { return head[size_t(op)]; });
    std::ranges::stable_sort(by_tail, std::less{}, [&](int32_t op) { return tail[size_t(op)]; });
    std::vector<Wide> ends(head.size());
    for (size_t i = 0; i < head.size(); ++i) {
        ends[i] = Wide(tail[size_t(by_tail[i])]) * durations.scale - kNotYet;
        rank[size_t(by_tail[i])] = static_cast<int32_t>(i);
    }
    PrefixMaximum tree(ends);
    Wide fullest = 0;
    for (int32_t op : by_head) {
        tree.add(size_t(rank[size_t(op)]), durations.work[size_t(op)], kNotYet);
        fullest = std::max(fullest, Wide(head[size_t(op)]) * durations.scale + tree.most());
    }
    return static_cast<int64_t>((fullest + durations.scale - 1) / durations.scale);
}

std::vector<int64_t> fastest_times(const Problem& p) {
    std::vector<int64_t> fastest(size_t(p.num_ops), INT64_MAX);
    for (int32_t op = 0; op < p.num_ops; ++op)
        for (int32_t device = 0; device < p.num_devices; ++device)
            if (p.allowed[op] >> device & 1) fastest[op] = std::min(fastest[op], p.op_time(op, device));
    return fastest;
}

// Returns, per op, the least time that its launch keeps a host busy; 0 if it may run without a launch.
std::vector<int64_t> least_launches(const Problem& p) {
    std::vector<int64_t> least(p.has_hosts ? size_t(p.num_ops) : 0, INT64_MAX);
    for (size_t op = 0; op < least.size(); ++op)
        for (int32_t device = 0; device < p.num_devices; ++device)
            if (p.allowed[op] >> device & 1)
                least[op] = std::min(least[op], p.launch(static_cast<int32_t>(op), device).host_ns);
    return least;
}

int64_t count_hosts(const Problem& p) {
    uint64_t hosts = 0;
    for (int32_t host : p.host_of)
        if (host >= 0) hosts |= uint64_t{1} << host;
    return std::popcount(hosts);
}

int64_t divided(int64_t time, int64_t hosts) { return (time + hosts - 1) / hosts; }

// Returns heads from launches: hosts have launched an op and all its ancestors before it starts. Ancestors are bit
// sets; each of them counts as the shortest launch of any op.
std::vector<int64_t> launched_heads(const Delays& delays, std::span<const int64_t> launch, int64_t num_hosts) {
    std::vector<int64_t> head;
    for (int64_t time : launch) head.push_back(divided(time, num_hosts));
    if (head.size() > kMaxAncestorSets) return head;
    int64_t least = INT64_MAX;
    for (int64_t time : launch) least = time > 0 ? std::min(least, time) : least;
    const size_t words = (head.size() + 63) / 64;
    std::vector<uint64_t> up_to(words * head.size());  // [op] itself and its ancestors, those that are launched
    for (size_t op = 0; op < head.size(); ++op) {
        uint64_t* own = &up_to[op * words];
        for (int32_t before : delays.before[static_cast<int32_t>(op)])
            for (size_t word = 0; word <= size_t(before) / 64; ++word)
                own[word] |= up_to[size_t(before) * words + word];
        int64_t count = 0;
        for (size_t word = 0; word <= op / 64; ++word) count += std::popcount(own[word]);
        head[op] = std::max(head[op], divided(count * least + launch[op], num_hosts));
        if (launch[op] == 0) head[op] = 0;
        if (launch[op] > 0) own[op / 64] |= uint64_t{1} << op % 64;
    }
    return head;
}

// Bounds the step time by launches: of any set of ops, the one launched last waits for the launches of all of them, and
// its time and tail follow.
int64_t launches_and_rest(std::span<const int64_t> launch, int64_t num_hosts, const Durations& durations,
                          std::span<const int64_t> tail) {
    std::vector<std::pair<int64_t, int64_t>> rests;  // what follows a launch, and the launch
    for (size_t op = 0; op < launch.size(); ++op)
        if (launch[op] > 0) rests.emplace_back(durations.time_ns[op] + tail[op], launch[op]);
    std::ranges::sort(rests, std::greater{});
    int64_t launches = 0, longest = 0;
    for (const auto& [rest, own] : rests) {
        launches += own;
        longest = std::max(longest, divided(launches, num_hosts) + rest);
    }
    return longest;
}

// Returns the longest chain of ops, each after its own launch if it runs on a device for which a host launches.
int64_t launched_path(const Problem& p, const Delays& delays, std::span<const int64_t> tail) {
    std::vector<int64_t> finish(size_t(p.num_ops), INT64_MAX);
    int64_t longest = 0;
    for (int32_t op = 0; op < p.num_ops; ++op) {
        int64_t ready = 0;
        for (int32_t other : delays.before[op]) ready = std::max(ready, finish[size_t(other)]);
        for (int32_t device = 0; device < p.num_devices; ++device) {
            if (!(p.allowed[op] >> device & 1)) continue;
            const int64_t start = std::max(ready, p.launch(op, device).lead_ns);
            finish[size_t(op)] = std::min(finish[size_t(op)], start + p.op_time(op, device));
        }
        longest = std::max(longest, finish[size_t(op)] + tail[size_t(op)]);
    }
    return longest;
}

template <class T>
std::vector<T> turned(std::span<const T> values) {
    return {values.rbegin(), values.rend()};
}

}  // namespace

TimeBounds time_bounds(const Problem& problem, std::span<const int64_t> work, int64_t scale, int64_t heaviest,
                       int64_t budget) {
    const std::vector<int64_t> fastest = fastest_times(problem);
    const Durations durations{fastest, work, scale, heaviest};
    const Delays delays(problem);
    const std::vector<int64_t> launch = least_launches(problem);
    const int64_t num_hosts = count_hosts(problem);
    const std::vector<int64_t> head = heads(delays, durations, budget, launched_heads(delays, launch, num_hosts));
    const std::vector<int64_t> fastest_turned = turned<int64_t>(fastest), work_turned = turned<int64_t>(work);
    const std::vector<int64_t> tail_turned =
        heads(delays.reversed(), {fastest_turned, work_turned, scale, heaviest}, budget);
    const std::vector<int64_t> tail = turned<int64_t>(tail_turned);
    int64_t launches = launches_and_rest(launch, num_hosts, durations, tail);
    if (problem.has_hosts) launches = std::max(launches, launched_path(problem, delays, tail));
    return {longest_path(delays, fastest), longest_through(head, durations, tail),
            fullest_window(head, durations, tail), launches};
}

}  // namespace placewright
