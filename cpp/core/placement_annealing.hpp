// Simulated annealing over placements alone: each is given the order in which its ops would be dispatched.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dispatch.hpp"
#include "op_cluster.hpp"
#include "problem.hpp"
#include "random.hpp"
#include "simulate.hpp"
#include "transfers.hpp"

namespace placewright {

struct PlacementAnnealingConfig {
    double first_temperature = 0.02;  // relative to the objective
    double last_temperature = 0.0005;
};

class PlacementAnnealing {
  public:
    // Starts from the best of `starts`, of which there is at least one, each valid.
    PlacementAnnealing(std::shared_ptr<const Problem> problem, const PlacementAnnealingConfig& config,
                       std::vector<std::vector<int32_t>> starts, uint64_t seed);

    // Searches until `evaluations` in all are spent, over which the temperature falls, at most `at_most` in this call.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    const Fitness& best_fitness() const { return best_fitness_; }
    std::span<const int32_t> best_device_of() const { return best_; }

  private:
    struct Change {
        int32_t op, before;
    };

    void try_start(const std::vector<int32_t>& start);
    void try_move(double temperature);
    void draw_move(const RandomStream& stream);
    void draw_cluster(const RandomStream& stream, int32_t op);
    void draw_run(const RandomStream& stream, int32_t op);
    void draw_exchange(const RandomStream& stream, int32_t op);
    int32_t draw_device(const RandomStream& stream, int32_t op) const;
    void place_group(int32_t op, int32_t device);
    bool accepts(const Fitness& fitness, double temperature, uint64_t bits) const;
    Fitness evaluate_current();

    std::shared_ptr<const Problem> problem_;
    PlacementAnnealingConfig config_;
    std::vector<std::vector<int32_t>> starts_;
    uint64_t seed_;
    std::vector<int32_t> device_of_, best_;
    Fitness fitness_, best_fitness_;
    std::vector<Change> changes_;  // by the move at hand
    OpCluster cluster_;
    Dispatcher dispatcher_;
    TransferPlacer transfers_;
    SimulationScratch simulation_;
    int64_t evaluations_ = 0;
};

}  // namespace placewright
