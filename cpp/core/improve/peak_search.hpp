// Annealing for the least peak memory over devices and an order of ops, for which eviction inserts the transfers;
// placewright.search.metaheuristics.peak_search says how and why.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "construct/eviction.hpp"
#include "construct/placements.hpp"
#include "improve/memory_profile.hpp"
#include "improve/op_order.hpp"
#include "problem/problem.hpp"
#include "simulate/simulate.hpp"
#include "support/max_tree.hpp"
#include "support/random.hpp"

namespace placewright {

struct PeakSearchConfig {
    int64_t evaluations = 5000;       // in all; the search has cooled down when they are spent
    double first_temperature = 0.05;  // relative to the peak
    double last_temperature = 0.001;
};

class PeakSearch {
  public:
    // starts: at least one; the search begins at the best of them. Throws std::invalid_argument if the configuration is
    // invalid.
    PeakSearch(std::shared_ptr<const Problem> problem, const PeakSearchConfig& config,
               std::vector<PlacementAndOrder> starts, uint64_t seed);

    // Searches until `evaluations` in all are spent, at most `at_most` in this call. Pauses do not change the result.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    const Fitness& best_fitness() const { return best_fitness_; }
    Solution best() const { return {best_.device_of, best_order_}; }

  private:
    struct Scored {
        Fitness fitness;
        double energy;  // the value that is annealed
    };

    void evaluate_start();
    void begin_round();
    double temperature() const;

    void try_move();
    bool draw_move(const RandomStream& stream);
    bool draw_targeted(const RandomStream& stream);
    bool draw_any(const RandomStream& stream);
    bool draws_device(const RandomStream& stream) const;
    bool move_op(int32_t op, int32_t to);
    bool move_devices(int32_t op, const RandomStream& stream);
    void move_group(int32_t op, int32_t to);
    void undo_move();

    Scored score(double max_energy);
    Fitness fitness_one_device();
    std::span<const Step> order_one_device();
    Fitness fitness_evicted();
    bool agrees_with_simulation(const Fitness& fitness);
    double energy(const Fitness& fitness) const;
    int64_t excess() const;

    void load(const PlacementAndOrder& placed);
    void settle(const Scored& scored);
    void keep_as_best(const Fitness& fitness);
    void aim_below_best();

    std::shared_ptr<const Problem> problem_;
    PeakSearchConfig config_;
    std::vector<PlacementAndOrder> starts_;
    uint64_t seed_;
    double reach_;  // most places beyond the peak or from where an op was; near ones are drawn more often
    OpOrder order_;
    std::vector<int32_t> device_of_;
    OpOrder::Window window_;      // of the current move
    std::vector<int32_t> moved_;  // ops whose groups the current move put on another device
    int32_t moved_from_ = 0;
    Eviction eviction_;
    SimulationScratch simulation_;
    std::optional<MemoryProfile> profile_;  // of a single device, instead of eviction and simulation
    std::vector<Step> steps_;               // of a single device
    int64_t one_device_time_ns_ = 0;
    MaxTree level_;  // of the current solution, by place

    std::vector<int64_t> target_;     // [device] bytes at which eviction aims
    std::vector<int64_t> threshold_;  // [device] bytes above it are excess
    double scale_ = 1;                // the value that is an energy of 1
    double current_energy_ = 0;
    PlacementAndOrder best_;
    Fitness best_fitness_;
    std::vector<Step> best_order_;
    int64_t evaluations_ = 0;
    int64_t round_begin_ = 0, round_length_ = 0;
};

}  // namespace placewright
