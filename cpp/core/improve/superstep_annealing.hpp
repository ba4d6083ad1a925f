// Annealing (Kirkpatrick, Gelatt & Vecchi, Science 1983) over supersteps. A move takes one op to another segment or
// device, or exchanges two; its cost is at most the degree of these ops.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "construct/segment_fill.hpp"
#include "improve/superstep_state.hpp"
#include "problem/problem.hpp"
#include "simulate/simulate.hpp"
#include "support/random.hpp"

namespace placewright {

// The places of least value that a walk has met. They are stored as the changes that led there, so that an improvement
// costs no copy; only if the walk has gone far without one, the next one is copied.
class BestPlaces {
  public:
    explicit BestPlaces(const Problem& problem);

    // Starts anew: the walk is at the places of the state, whatever their value.
    void restart(const Supersteps& state);
    // Records that one op has moved.
    void record(int32_t op, Place to);
    // Notes that the places have changed in another way.
    void lose_track() { tracked_ = false; }
    // Compares a state of the walk with the best, and keeps it if it is better.
    void compare(const Supersteps& state);

    int64_t value() const { return value_; }
    const std::vector<Place>& places();

  private:
    struct Change {
        int32_t op;
        Place to;
    };

    std::vector<Place> places_;    // the best once the first num_leading_ changes are made
    std::vector<Change> changes_;  // from places_ to where the walk is, while it is tracked
    size_t num_leading_ = 0;
    bool tracked_ = false;
    int64_t value_ = INT64_MAX;
};

// Rounds of annealing, each from the best so far and about as long as all before it together, so that the search can
// end at any time. The first starts from segment_fill, whose two timings are the first two evaluations. A move is one
// evaluation.
class SuperstepAnnealing {
  public:
    // The last round that begins before `evaluations` ends there. Throws std::invalid_argument if evaluations is not
    // positive or the problem has no free barriers.
    SuperstepAnnealing(std::shared_ptr<const Problem> problem, int64_t evaluations, uint64_t seed);

    // Searches until `evaluations` in all are spent, at most `at_most` in this call. Pauses do not change the result.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    // Simulated. It and the solution lag some moves behind the walk; they are up to date when the evaluations given to
    // the constructor are spent.
    const Fitness& best_fitness() const { return best_fitness_; }
    Solution best() const { return best_; }

  private:
    static constexpr size_t kThresholds = 1024;

    void start();
    void begin_round();
    void repack();
    void try_move();
    bool try_draw(uint64_t bits, uint64_t more_bits);
    bool try_relocation(int32_t op, Place to, double threshold);
    bool try_exchange(int32_t op, Place to, double threshold);
    bool may_come(int32_t op, Place to) const;
    bool try_group(int32_t op, int32_t device, bool exchange, double threshold);
    bool move_group(int32_t first_op, int32_t device);
    bool is_alone(int32_t op) const { return groups_[problem_->group[op]].size() == 1; }
    bool is_kept(int64_t change, double threshold) const { return double(change) <= threshold; }
    void move(int32_t op, Place to);
    void keep_if_better(Solution&& found);
    void consolidate();

    std::shared_ptr<const Problem> problem_;
    int64_t planned_evaluations_;
    uint64_t seed_;
    RandomStream stream_;
    std::array<double, kThresholds> thresholds_;  // quantiles of the exponential distribution
    Csr groups_;                                  // [first op] the ops of its group

    std::unique_ptr<Supersteps> state_;
    BestPlaces least_;
    double mean_time_ns_ = 0;  // of an op
    double temperature_ = 0, cooling_ = 1;
    int64_t round_end_ = 0, next_repack_ = 0;
    uint64_t draws_ = 0;
    int64_t evaluations_ = 0;
    std::vector<std::pair<int32_t, Place>> moved_;  // ops of the groups that move, and where they were

    Solution best_;
    Fitness best_fitness_;
    int64_t consolidated_value_ = INT64_MAX;
    SimulationScratch simulation_;
};

}  // namespace placewright
