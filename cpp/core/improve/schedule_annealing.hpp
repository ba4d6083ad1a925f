// Simulated annealing over placement, order of ops and the times at which tensors are sent, on a disjunctive graph.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "construct/placements.hpp"
#include "improve/disjunctive_graph.hpp"
#include "improve/op_cluster.hpp"
#include "problem/problem.hpp"
#include "simulate/simulate.hpp"
#include "support/random.hpp"

namespace placewright {

struct ScheduleAnnealingConfig {
    double first_temperature = 2.0;  // in units of the mean time of an op
    double last_temperature = 0.02;
    bool ignores_limits = false;  // ignores memory limits
    // Relative frequency of moves that change devices, the order on a device, when a tensor is sent, and that exchange
    // two ops; not all 0.
    std::array<uint32_t, 4> move_weights{45, 40, 8, 7};
};

class ScheduleAnnealing {
  public:
    // Starts from the best of `starts` (at least one), with all tensors sent early or all late.
    ScheduleAnnealing(std::shared_ptr<const Problem> problem, const ScheduleAnnealingConfig& config,
                      std::span<const PlacementAndOrder> starts, uint64_t seed);

    // Searches until `evaluations` in all are spent, over which the temperature falls, at most `at_most` in this call.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    const Fitness& best_fitness() const { return best_fitness_; }
    Solution best() const;
    int64_t accepted() const { return accepted_; }
    // The cost of the evaluations, counted as in DisjunctiveGraph: the same on every machine.
    int64_t work() const { return graph_.work() + simulated_; }

  private:
    struct Start {
        PlacementAndOrder placed;
        uint8_t early;
    };

    // The arguments of DisjunctiveGraph::load.
    struct State {
        std::vector<int32_t> device_of, ops;
        std::vector<uint8_t> early;
    };

    void evaluate_start();
    void try_move(double temperature);
    bool keeps_limits();
    bool improves_memory(double temperature, double most);
    bool agrees_with_simulation();
    void draw_move(const RandomStream& stream);
    int32_t draw_op(const RandomStream& stream);
    void draw_device_move(const RandomStream& stream, int32_t op);
    void draw_order_move(const RandomStream& stream, int32_t op);
    void draw_sending_move(const RandomStream& stream, int32_t op);
    void draw_swap(const RandomStream& stream, int32_t op);
    void move_cluster(int32_t device);
    int32_t first_place(int32_t op) const;
    int32_t last_place(int32_t op) const;
    double energy() const;
    Fitness simulated_fitness();
    void leave_best();
    void keep_best();
    void copy_to(State& state) const;
    void load(const State& state);
    void find_critical();

    std::shared_ptr<const Problem> problem_;
    ScheduleAnnealingConfig config_;
    uint64_t seed_;
    bool heeds_memory_;
    double mean_time_;
    std::vector<Start> starts_;
    DisjunctiveGraph graph_;
    SimulationScratch simulation_;
    std::vector<Step> order_;
    Fitness fitness_, best_fitness_;
    bool at_best_ = false;  // the graph holds the best, which has not been copied yet
    State best_;
    // Simulating memory costs more than a move, so several moves are accepted by time before the limits are checked; if
    // they are exceeded, the search goes back.
    State within_limits_;       // the last state simulated that kept them
    bool can_go_back_ = false;  // to that state, since when this many moves were accepted:
    int32_t unchecked_ = 0;
    int32_t max_unchecked_ = 1;
    std::vector<int32_t> critical_;  // ops, as found last
    int64_t critical_until_ = 0;     // evaluation at which to find them again
    std::vector<Edit> edits_;
    OpCluster cluster_;
    int64_t evaluations_ = 0;
    int64_t accepted_ = 0;
    int64_t simulated_ = 0;  // steps simulated
};

}  // namespace placewright
