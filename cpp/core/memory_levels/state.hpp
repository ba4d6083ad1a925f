// A map that fits and is changed tensor by tensor. Unless it sees prefetching, a change is scored without timing the
// whole map anew.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory_levels/problem.hpp"
#include "memory_levels/simulate.hpp"

namespace placewright::memory_levels {

class LevelState {
  public:
    // Rectifies the map first, so that it fits. sees_prefetching: if false, latencies are those of a chip that fetches
    // nothing early, which a move changes at a few ops only.
    LevelState(const LevelProblem& problem, std::span<const Level> levels, bool sees_prefetching = true);

    int64_t latency_ps() const { return latency_ps_; }
    std::span<const Level> levels() const { return levels_; }
    Level level_of(int32_t tensor) const { return levels_[size_t(tensor)]; }
    std::span<const int32_t> members(int32_t level) const { return members_[size_t(level)]; }

    // Returns whether a tensor that is elsewhere fits into a level in addition to what is there.
    bool fits(int32_t tensor, int32_t level);
    // Returns the op during which a level has the least room, of those that hold a tensor that is elsewhere.
    int32_t fullest_op(int32_t tensor, int32_t level) const;
    // Returns what moving a tensor to another level that it fits into adds to the latency.
    int64_t change_ps(int32_t tensor, int32_t level);
    // Moves a tensor; the caller ensures that it fits in the end.
    void move(int32_t tensor, int32_t level);

  private:
    int64_t time_of(int32_t op) const;
    int64_t changed_time(int32_t use, int32_t from, int32_t to) const;
    void count(int32_t tensor, int32_t level, int64_t sign);
    int64_t peak(int32_t level);

    const LevelProblem& problem_;
    bool sees_prefetching_;
    std::vector<Level> levels_;
    LevelScratch scratch_;
    std::vector<uint8_t> peak_is_known_;         // [level] whether scratch_.peaks is up to date
    std::vector<std::vector<int32_t>> members_;  // [level] its tensors
    std::vector<int32_t> place_;                 // [tensor] in members_ of its level
    std::vector<int64_t> streams_;               // [op][level] without latencies
    std::vector<int64_t> time_ps_;               // [op]
    int64_t latency_ps_ = 0;
};

}  // namespace placewright::memory_levels
