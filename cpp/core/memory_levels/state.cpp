#include "memory_levels/state.hpp"

#include <algorithm>

namespace placewright::memory_levels {

LevelState::LevelState(const LevelProblem& problem, std::span<const Level> levels, bool sees_prefetching)
    : problem_(problem),
      sees_prefetching_(sees_prefetching && problem.has_prefetch),
      levels_(levels.begin(), levels.end()),
      scratch_(problem),
      peak_is_known_(size_t(problem.num_levels), 1),
      members_(size_t(problem.num_levels)),
      place_(size_t(problem.num_tensors)),
      streams_(problem.fixed_ps),
      time_ps_(size_t(problem.num_ops)) {
    rectify(problem_, levels_, scratch_);
    for (auto& members : members_) members.reserve(size_t(problem_.num_tensors));
    for (int32_t tensor = 0; tensor < problem_.num_tensors; ++tensor) {
        const Level level = levels_[size_t(tensor)];
        place_[size_t(tensor)] = int32_t(members_[level].size());
        members_[level].push_back(tensor);
        for (const int32_t use : problem_.uses_of(tensor)) {
            const size_t stream = size_t(problem_.op_of_use[size_t(use)]) * size_t(problem_.num_levels) + level;
            streams_[stream] += problem_.use_ps[size_t(use) * size_t(problem_.num_levels) + level];
        }
    }
    for (int32_t op = 0; op < problem_.num_ops; ++op) latency_ps_ += time_ps_[size_t(op)] = time_of(op);
    if (sees_prefetching_) latency_ps_ = latency_of(problem_, levels_, scratch_);
}

int64_t LevelState::time_of(int32_t op) const {
    int64_t longest = problem_.compute_ps[size_t(op)];
    for (int32_t level = 0; level < problem_.num_levels; ++level) {
        const int64_t busy = streams_[size_t(op) * size_t(problem_.num_levels) + size_t(level)];
        if (busy > 0) longest = std::max(longest, busy + problem_.latency_ps[size_t(level)]);
    }
    return problem_.overhead_ps[size_t(op)] + longest;
}

// Returns the time of the op of a use if the tensor were at another level.
int64_t LevelState::changed_time(int32_t use, int32_t from, int32_t to) const {
    const auto width = size_t(problem_.num_levels), op = size_t(problem_.op_of_use[size_t(use)]);
    const int64_t* use_ps = problem_.use_ps.data() + size_t(use) * width;
    int64_t longest = problem_.compute_ps[op];
    for (int32_t level = 0; level < problem_.num_levels; ++level) {
        int64_t busy = streams_[op * width + size_t(level)];
        if (level == from) busy -= use_ps[from];
        if (level == to) busy += use_ps[to];
        if (busy > 0) longest = std::max(longest, busy + problem_.latency_ps[size_t(level)]);
    }
    return problem_.overhead_ps[op] + longest;
}

int64_t LevelState::peak(int32_t level) {
    if (!peak_is_known_[size_t(level)]) {
        const auto begin = scratch_.in_use.begin() + ptrdiff_t(level) * problem_.num_ops;
        scratch_.peaks[size_t(level)] = *std::max_element(begin, begin + problem_.num_ops);
        peak_is_known_[size_t(level)] = 1;
    }
    return scratch_.peaks[size_t(level)];
}

bool LevelState::fits(int32_t tensor, int32_t level) {
    if (level == problem_.last_level()) return true;
    const int64_t room =
        problem_.capacity[size_t(level)] - scratch_.weights[size_t(level)] - problem_.size[size_t(tensor)];
    if (room < 0) return false;
    if (problem_.is_weight[size_t(tensor)]) return peak(level) <= room;
    const int64_t* in_use = scratch_.in_use.data() + size_t(level) * size_t(problem_.num_ops);
    for (int32_t op = problem_.first[size_t(tensor)]; op <= problem_.last[size_t(tensor)]; ++op)
        if (in_use[op] > room) return false;
    return true;
}

int32_t LevelState::fullest_op(int32_t tensor, int32_t level) const {
    const auto begin = scratch_.in_use.begin() + ptrdiff_t(level) * problem_.num_ops;
    const auto from = begin + problem_.first[size_t(tensor)], to = begin + problem_.last[size_t(tensor)] + 1;
    return int32_t(std::max_element(from, to) - begin);
}

int64_t LevelState::change_ps(int32_t tensor, int32_t level) {
    const int32_t from = level_of(tensor);
    if (!sees_prefetching_) {
        int64_t change = 0;
        for (const int32_t use : problem_.uses_of(tensor))
            change += changed_time(use, from, level) - time_ps_[size_t(problem_.op_of_use[size_t(use)])];
        return change;
    }
    const int64_t before = latency_ps_;
    move(tensor, level);
    const int64_t change = latency_ps_ - before;
    move(tensor, from);
    return change;
}

void LevelState::count(int32_t tensor, int32_t level, int64_t sign) {
    if (level == problem_.last_level()) return;
    const int64_t bytes = sign * problem_.size[size_t(tensor)];
    if (problem_.is_weight[size_t(tensor)]) {
        scratch_.weights[size_t(level)] += bytes;
        return;
    }
    int64_t* in_use = scratch_.in_use.data() + size_t(level) * size_t(problem_.num_ops);
    for (int32_t op = problem_.first[size_t(tensor)]; op <= problem_.last[size_t(tensor)]; ++op) in_use[op] += bytes;
    peak_is_known_[size_t(level)] = 0;
}

void LevelState::move(int32_t tensor, int32_t level) {
    const int32_t from = level_of(tensor);
    if (from == level) return;
    count(tensor, from, -1);
    count(tensor, level, +1);
    auto& left = members_[size_t(from)];
    const int32_t place = place_[size_t(tensor)];
    left[size_t(place)] = left.back();
    place_[size_t(left.back())] = place;
    left.pop_back();
    place_[size_t(tensor)] = int32_t(members_[size_t(level)].size());
    members_[size_t(level)].push_back(tensor);
    levels_[size_t(tensor)] = Level(level);
    const auto width = size_t(problem_.num_levels);
    for (const int32_t use : problem_.uses_of(tensor)) {
        const auto op = size_t(problem_.op_of_use[size_t(use)]);
        streams_[op * width + size_t(from)] -= problem_.use_ps[size_t(use) * width + size_t(from)];
        streams_[op * width + size_t(level)] += problem_.use_ps[size_t(use) * width + size_t(level)];
        const int64_t time = time_of(int32_t(op));
        latency_ps_ += time - time_ps_[op];
        time_ps_[op] = time;
    }
    if (sees_prefetching_) latency_ps_ = latency_of(problem_, levels_, scratch_);
}

}  // namespace placewright::memory_levels
