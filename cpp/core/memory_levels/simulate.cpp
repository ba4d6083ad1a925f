#include "memory_levels/simulate.hpp"

#include <algorithm>
#include <array>

namespace placewright::memory_levels {

namespace {

using Streams = std::array<int64_t, kMaxLevels>;

// Finds the time that each level's port is busy for an op, without latencies; add_latencies adds those of levels where
// anything moves.
inline void add_streams(const LevelProblem& p, std::span<const Level> levels, int32_t op, Streams& streams) {
    const auto width = size_t(p.num_levels);
    const int64_t* fixed = p.fixed_ps.data() + size_t(op) * width;
    for (size_t level = 0; level < width; ++level) streams[level] = fixed[level];
    for (int32_t use = p.use_begin[size_t(op)]; use < p.use_begin[size_t(op) + 1]; ++use) {
        const Level level = levels[size_t(p.use_tensor[size_t(use)])];
        streams[level] += p.use_ps[size_t(use) * width + level];
    }
}

inline void add_latencies(const LevelProblem& p, Streams& streams) {
    for (size_t level = 0; level < size_t(p.num_levels); ++level)
        if (streams[level] > 0) streams[level] += p.latency_ps[level];
}

inline int64_t op_time(const LevelProblem& p, int32_t op, const Streams& streams) {
    int64_t longest = p.compute_ps[size_t(op)];
    for (size_t level = 0; level < size_t(p.num_levels); ++level) longest = std::max(longest, streams[level]);
    return p.overhead_ps[size_t(op)] + longest;
}

template <class OnTime>
int64_t plain_latency(const LevelProblem& p, std::span<const Level> levels, OnTime on_time) {
    int64_t total = 0;
    Streams streams;
    for (int32_t op = 0; op < p.num_ops; ++op) {
        add_streams(p, levels, op, streams);
        if (p.has_latency) add_latencies(p, streams);
        const int64_t time = op_time(p, op, streams);
        on_time(op, time);
        total += time;
    }
    return total;
}

// Returns the bytes of weights that an op could have read from a level while the op before ran.
int64_t early_bytes(const LevelProblem& p, std::span<const Level> levels, int32_t op, int32_t level) {
    int64_t bytes = 0;
    for (int32_t use = p.use_begin[size_t(op)]; use < p.use_begin[size_t(op) + 1]; ++use) {
        const bool is_early = p.use_is_early[size_t(use)];
        if (is_early && levels[size_t(p.use_tensor[size_t(use)])] == level) bytes += p.use_bytes[size_t(use)];
    }
    return bytes;
}

// Returns the bytes that a level delivers in a time, rounded down so that they never take longer.
int64_t bytes_within(const LevelProblem& p, int64_t time_ps, int32_t level) {
    const auto scaled = static_cast<unsigned __int128>(time_ps) << 20;
    return static_cast<int64_t>(std::min<unsigned __int128>(scaled / uint64_t(p.inverse_rate[size_t(level)]),
                                                            static_cast<unsigned __int128>(INT64_MAX)));
}

// Weights of an op in slow levels move to level 0 while the op before it leaves their port idle, as far as level 0 has
// room during both; the op then reads them from there.
class Prefetching {
  public:
    Prefetching(const LevelProblem& p, std::span<const Level> levels, const LevelScratch& scratch)
        : p_(p), levels_(levels), scratch_(scratch) {}

    template <class OnTime>
    int64_t latency(OnTime on_time) {
        int64_t total = 0;
        for (int32_t op = 0; op < p_.num_ops; ++op) {
            Streams streams;
            add_streams(p_, levels_, op, streams);
            if (op > 0) fetch(op, streams);
            if (p_.has_latency) add_latencies(p_, streams);
            const int64_t time = op_time(p_, op, streams);
            for (size_t level = 0; level < size_t(p_.num_levels); ++level) idle_[level] = time - streams[level];
            on_time(op, time);
            total += time;
        }
        return total;
    }

  private:
    void fetch(int32_t op, Streams& streams) {
        // During the op before, level 0 also holds what was fetched for that op.
        int64_t room = std::min(free_at(op - 1) - fetched_, free_at(op));
        fetched_ = 0;
        for (int32_t level = p_.last_level(); level > 0; --level) {
            if (!p_.is_prefetched[size_t(level)]) continue;
            const int64_t wanted = early_bytes(p_, levels_, op, level);
            const int64_t idle = std::max<int64_t>(0, idle_[size_t(level)] - p_.latency_ps[size_t(level)]);
            const int64_t bytes = std::max<int64_t>(0, std::min({wanted, room, bytes_within(p_, idle, level)}));
            if (bytes == 0) continue;
            streams[size_t(level)] -= std::min(streams[size_t(level)], p_.transfer_ps(bytes, level));
            streams[0] += p_.transfer_ps(bytes, 0);
            room -= bytes;
            fetched_ += bytes;
        }
    }

    int64_t free_at(int32_t op) const { return p_.capacity[0] - scratch_.weights[0] - scratch_.in_use[size_t(op)]; }

    const LevelProblem& p_;
    std::span<const Level> levels_;
    const LevelScratch& scratch_;
    Streams idle_{};
    int64_t fetched_ = 0;
};

// Returns whether a tensor fits into a level in addition to what is counted there; if so, counts it.
bool take(const LevelProblem& p, size_t tensor, size_t level, LevelScratch& scratch) {
    const int64_t size = p.size[tensor], room = p.capacity[level] - scratch.weights[level] - size;
    if (p.is_weight[tensor]) {
        if (scratch.peaks[level] > room) return false;
        scratch.weights[level] += size;
        return true;
    }
    int64_t* in_use = scratch.in_use.data() + level * size_t(p.num_ops);
    int64_t most = 0;
    for (int32_t op = p.first[tensor]; op <= p.last[tensor]; ++op) most = std::max(most, in_use[op]);
    if (most > room) return false;
    for (int32_t op = p.first[tensor]; op <= p.last[tensor]; ++op) in_use[op] += size;
    scratch.peaks[level] = std::max(scratch.peaks[level], most + size);
    return true;
}

void clear(LevelScratch& scratch) {
    std::ranges::fill(scratch.in_use, 0);
    std::ranges::fill(scratch.weights, 0);
    std::ranges::fill(scratch.peaks, 0);
}

}  // namespace

LevelScratch::LevelScratch(const LevelProblem& problem)
    : in_use(size_t(problem.last_level()) * size_t(problem.num_ops)),
      weights(size_t(problem.num_levels)),
      peaks(size_t(problem.num_levels)) {}

int64_t rectify(const LevelProblem& p, std::span<Level> levels, LevelScratch& scratch) {
    clear(scratch);
    int64_t moved = 0;
    const auto last = size_t(p.last_level());
    for (size_t tensor = 0; tensor < size_t(p.num_tensors); ++tensor) {
        size_t level = levels[tensor];
        while (level < last && !take(p, tensor, level, scratch)) ++level;
        if (level == levels[tensor]) continue;
        moved += p.size[tensor];
        levels[tensor] = Level(level);
    }
    return moved;
}

void count(const LevelProblem& p, std::span<const Level> levels, LevelScratch& scratch) {
    clear(scratch);
    for (size_t tensor = 0; tensor < size_t(p.num_tensors); ++tensor) {
        const size_t level = levels[tensor];
        if (level == size_t(p.last_level())) continue;
        if (p.is_weight[tensor]) {
            scratch.weights[level] += p.size[tensor];
            continue;
        }
        int64_t* in_use = scratch.in_use.data() + level * size_t(p.num_ops);
        for (int32_t op = p.first[tensor]; op <= p.last[tensor]; ++op)
            scratch.peaks[level] = std::max(scratch.peaks[level], in_use[op] += p.size[tensor]);
    }
}

int64_t latency_of(const LevelProblem& p, std::span<const Level> levels, const LevelScratch& scratch) {
    const auto ignore = [](int32_t, int64_t) {};
    return p.has_prefetch ? Prefetching(p, levels, scratch).latency(ignore) : plain_latency(p, levels, ignore);
}

int64_t op_times(const LevelProblem& p, std::span<const Level> levels, const LevelScratch& scratch,
                 std::span<int64_t> time_ps) {
    const auto keep = [&](int32_t op, int64_t time) { time_ps[size_t(op)] = time; };
    return p.has_prefetch ? Prefetching(p, levels, scratch).latency(keep) : plain_latency(p, levels, keep);
}

LevelOutcome evaluate(const LevelProblem& p, std::span<Level> levels, LevelScratch& scratch) {
    LevelOutcome outcome;
    outcome.moved_bytes = rectify(p, levels, scratch);
    outcome.latency_ps = latency_of(p, levels, scratch);
    return outcome;
}

}  // namespace placewright::memory_levels
