#include "improve/op_windows.hpp"

#include <algorithm>
#include <span>

#include "bounds/heads.hpp"

namespace placewright {

namespace {

constexpr int64_t kAncestors = 1 << 16;  // more than any walk can need

int64_t between(const Problem& p, int32_t before, int32_t op, int32_t source, int32_t destination) {
    if (source == destination) return 0;
    int64_t longest = 0;
    for (int32_t tensor : p.inputs[op])
        if (p.producer[tensor] == before) longest = std::max(longest, p.transfer_time(tensor, source, destination));
    if (std::ranges::find(p.predecessors[op], before) != p.predecessors[op].end())
        longest = std::max(longest, p.latency_ns[size_t(source) * p.num_devices + destination]);
    return longest;
}

std::vector<int64_t> turned(const std::vector<int64_t>& values) { return {values.rbegin(), values.rend()}; }

}  // namespace

ScheduledOps::ScheduledOps(const Problem& problem)
    : finish_ns(size_t(problem.num_ops)), device_of(size_t(problem.num_ops)), allowed(problem.allowed) {}

DevicePairDelays::DevicePairDelays(const Problem& p) : num_devices(size_t(p.num_devices)) {
    std::vector<std::vector<int32_t>> rows(size_t(p.num_ops)), readers(rows), places_of(rows);
    int32_t place = 0;
    for (int32_t op = 0; op < p.num_ops; ++op) {
        auto& row = rows[size_t(op)];
        for (int32_t tensor : p.inputs[op]) row.push_back(p.producer[tensor]);
        row.insert(row.end(), p.predecessors[op].begin(), p.predecessors[op].end());
        std::ranges::sort(row);
        row.erase(std::unique(row.begin(), row.end()), row.end());
        for (int32_t other : row) {
            readers[size_t(other)].push_back(op);
            places_of[size_t(other)].push_back(place++);
            for (int32_t source = 0; source < p.num_devices; ++source)
                for (int32_t destination = 0; destination < p.num_devices; ++destination)
                    between_ns.push_back(between(p, other, op, source, destination));
        }
    }
    before = Csr::from_rows(rows);
    after = Csr::from_rows(readers);
    places = Csr::from_rows(places_of);
}

OpWindows::OpWindows(const Problem& p, const DevicePairDelays& delays)
    : problem_(p), delays_(delays), start_(size_t(p.num_ops) * p.num_devices), end_(start_), rest_(start_) {
    std::vector<int64_t> fastest(size_t(p.num_ops), kNever);
    for (int32_t op = 0; op < p.num_ops; ++op)
        for (int32_t device = 0; device < p.num_devices; ++device)
            if (p.allowed[op] >> device & 1) fastest[size_t(op)] = std::min(fastest[size_t(op)], p.op_time(op, device));
    const Delays least(p);
    head_ = heads(least, {fastest, fastest, p.num_devices, 1}, kAncestors);
    const std::vector<int64_t> backwards = turned(fastest);
    tail_ = turned(heads(least.reversed(), {backwards, backwards, p.num_devices, 1}, kAncestors));
}

bool OpWindows::find(const ScheduledOps& scheduled, int64_t limit_ns) {
    return find_starts(scheduled, limit_ns) && find_rests(scheduled, limit_ns) && have_room(scheduled, limit_ns);
}

int64_t OpWindows::earliest_start(const ScheduledOps& scheduled, int32_t op, int32_t device) const {
    int64_t start = std::max({scheduled.clock_ns[size_t(device)], scheduled.now, head_[size_t(op)]});
    for (int32_t place = delays_.before.begin[op]; place < delays_.before.begin[op + 1]; ++place) {
        const int32_t other = delays_.before.values[place];
        int64_t arrival = kNever;
        if (scheduled.has(other))
            arrival = scheduled.finish_ns[other] + delays_.apart_ns(place, scheduled.device_of[other], device);
        else
            for (int32_t source = 0; source < problem_.num_devices; ++source)
                arrival = std::min(arrival, end_ns(other, source) + delays_.apart_ns(place, source, device));
        start = std::max(start, arrival);
    }
    return start;
}

bool OpWindows::find_starts(const ScheduledOps& scheduled, int64_t limit_ns) {
    for (int32_t op = 0; op < problem_.num_ops; ++op) {
        if (scheduled.has(op)) continue;
        bool fits = false;
        for (int32_t device = 0; device < problem_.num_devices; ++device) {
            const size_t here = at(op, device);
            start_[here] = end_[here] = kNever;
            if (!(scheduled.allowed[op] >> device & 1)) continue;
            const int64_t start = earliest_start(scheduled, op, device), end = start + problem_.op_time(op, device);
            if (end + tail_[op] > limit_ns) continue;
            start_[here] = start;
            end_[here] = end;
            fits = true;
        }
        if (!fits) return false;
    }
    return true;
}

int64_t OpWindows::least_rest(int32_t op, int32_t device) const {
    int64_t rest = tail_[size_t(op)];
    for (int32_t i = delays_.after.begin[op]; i < delays_.after.begin[op + 1]; ++i) {
        const int32_t next = delays_.after.values[i];
        int64_t least = kNever;
        for (int32_t other = 0; other < problem_.num_devices; ++other)
            if (end_ns(next, other) < kNever)
                least = std::min(least, delays_.apart_ns(delays_.places.values[i], device, other) +
                                            problem_.op_time(next, other) + rest_ns(next, other));
        rest = std::max(rest, least);
    }
    return rest;
}

bool OpWindows::find_rests(const ScheduledOps& scheduled, int64_t limit_ns) {
    for (int32_t op = problem_.num_ops - 1; op >= 0; --op) {
        if (scheduled.has(op)) continue;
        bool fits = false;
        for (int32_t device = 0; device < problem_.num_devices; ++device) {
            const size_t here = at(op, device);
            rest_[here] = end_[here] < kNever ? least_rest(op, device) : kNever;
            if (end_[here] + rest_[here] > limit_ns)
                start_[here] = end_[here] = rest_[here] = kNever;
            else
                fits = true;
        }
        if (!fits) return false;
    }
    return true;
}

// Returns whether ops fit. Those that are followed by at least a certain time must fit before it: ops that can run on
// one device only there, and all of them on all devices together. Each device is free from the earliest start there.
bool OpWindows::have_room(const ScheduledOps& scheduled, int64_t limit_ns) const {
    std::array<int64_t, ScheduledOps::kMaxDevices> from, only_here{};
    from.fill(kNever);
    std::array<std::pair<int64_t, int32_t>, ScheduledOps::kMaxOps> by_rest;
    size_t count = 0;
    for (int32_t op = 0; op < problem_.num_ops; ++op) {
        if (scheduled.has(op)) continue;
        by_rest[count] = {kNever, op};
        for (int32_t device = 0; device < problem_.num_devices; ++device) {
            from[size_t(device)] = std::min(from[size_t(device)], start_ns(op, device));
            by_rest[count].first = std::min(by_rest[count].first, rest_ns(op, device));
        }
        ++count;
    }
    std::sort(by_rest.begin(), by_rest.begin() + count, std::greater{});
    int64_t everywhere = 0;
    for (const auto& [rest, op] : std::span(by_rest).first(count)) {
        int64_t least = kNever, room = 0;
        int32_t ways = 0, last = 0;
        for (int32_t device = 0; device < problem_.num_devices; ++device) {
            if (end_ns(op, device) == kNever) continue;
            least = std::min(least, problem_.op_time(op, device));
            last = device;
            ++ways;
        }
        everywhere += least;
        if (ways == 1) only_here[size_t(last)] += least;
        for (int32_t device = 0; device < problem_.num_devices; ++device) {
            const int64_t here = std::max<int64_t>(0, limit_ns - rest - from[size_t(device)]);
            if (only_here[size_t(device)] > here) return false;
            room += here;
        }
        if (everywhere > room) return false;
    }
    return true;
}

}  // namespace placewright
