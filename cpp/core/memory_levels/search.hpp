// Searches over maps. All are advanced some evaluations at a time; pauses do not change the results.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory_levels/problem.hpp"
#include "memory_levels/simulate.hpp"
#include "memory_levels/state.hpp"
#include "support/random.hpp"

namespace placewright::memory_levels {

// Local search: one to a few tensors of a map get another level at a time, and the rectified result is kept unless it
// is slower. The search sees only latencies.
class LevelLocalSearch {
  public:
    LevelLocalSearch(std::shared_ptr<const LevelProblem> problem, std::vector<Level> start, int32_t most_flips,
                     uint64_t seed);

    void advance(int64_t evaluations, int64_t at_most);
    int64_t evaluations() const { return evaluations_; }
    int64_t best_latency_ps() const { return latency_ps_; }
    const std::vector<Level>& best() const { return current_; }

  private:
    void try_flips();

    std::shared_ptr<const LevelProblem> problem_;
    std::vector<Level> current_, candidate_;
    LevelScratch scratch_;
    int32_t most_flips_;
    uint64_t seed_;
    int64_t latency_ps_ = INT64_MAX;
    int64_t evaluations_ = 0;
};

struct LevelAnnealingConfig {
    double first_temperature = 3e-3;  // relative to the latency that the search starts from
    double last_temperature = 1e-5;
};

// Annealing (Kirkpatrick, Gelatt & Vecchi, Science 1983) over maps that fit. A tensor moves to another level; if that
// is full, other tensors there make room. Each change that is scored counts as an evaluation.
class LevelAnnealing {
  public:
    LevelAnnealing(std::shared_ptr<const LevelProblem> problem, const std::vector<Level>& start,
                   const LevelAnnealingConfig& config, uint64_t seed);

    void advance(int64_t evaluations, int64_t at_most);
    int64_t evaluations() const { return evaluations_; }
    int64_t best_latency_ps() const { return best_latency_ps_; }
    const std::vector<Level>& best() const { return best_; }

  private:
    struct Moved {
        int32_t tensor, from;
    };

    void try_move();
    void try_exchange(int32_t tensor, int32_t level, const RandomStream& stream);
    void move_noted(int32_t tensor, int32_t level);
    int32_t held_during(int32_t op, int32_t level, uint64_t bits) const;
    void settle(int32_t tensor);
    void refill(int32_t level, const RandomStream& stream);
    bool accepts(int64_t change_ps, uint64_t bits) const;
    void keep_if_best();

    std::shared_ptr<const LevelProblem> problem_;
    LevelAnnealingConfig config_;
    uint64_t seed_;
    LevelState state_;
    std::vector<Level> best_;
    std::vector<Moved> moved_;  // by the current exchange
    int64_t start_latency_ps_, best_latency_ps_;
    int64_t evaluations_ = 0;
    int64_t all_evaluations_ = 1;
    double temperature_ps_ = 0;
};

// Returns what moving each tensor alone to each level would save, [tensor][level], whether or not it fits. Like the
// descent below it ignores prefetching, so that a move is scored by the few ops that use the tensor.
std::vector<int64_t> savings(const LevelProblem& problem, std::span<const Level> start);

// Returns the map after every tensor moved to the fastest level that has room for it and does not raise the latency, so
// that none is far away without need.
std::vector<Level> drawn_near(const LevelProblem& problem, std::span<const Level> start);

// Repeats the move of one tensor that saves the most, until none saves anything or `most_evaluations` moves are scored;
// `evaluations` counts the moves scored. per_byte: takes the move that saves the most per byte and op, of the bytes
// that it takes from the level and the ops during which it takes them.
std::vector<Level> steepest_descent(const LevelProblem& problem, std::span<const Level> start, bool per_byte,
                                    int64_t most_evaluations, int64_t& evaluations);

}  // namespace placewright::memory_levels
