// Greedy local search over placements and orders of ops (REGAL, section 5.2 and A.10);
// placewright.lab.peers.local_search says how the paper is interpreted.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "problem/problem.hpp"
#include "simulate/simulate.hpp"
#include "support/random.hpp"

namespace placewright {

struct LocalSearchConfig {
    int64_t evaluations_per_start = 1000;
    double device_share = 0.5;  // share of moves that change a device; the others change the order
    int32_t reach = 1;          // the most places that an op moves
    bool accept_equal = false;
};

class LocalSearch {
  public:
    // Throws std::invalid_argument if the configuration is invalid.
    LocalSearch(std::shared_ptr<const Problem> problem, const LocalSearchConfig& config, uint64_t seed);

    // Searches until `evaluations` in all are spent, at most `at_most` in this call. Pauses do not change the result.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    const Fitness& best_fitness() const { return best_.fitness; }
    Solution best() const;  // each tensor is sent right after its producer

  private:
    struct State {
        std::vector<int32_t> device_of;  // [op]
        std::vector<int32_t> ops;        // an order of all ops, without transfers
        Fitness fitness;
    };
    // Moves an op and its group from one device to another, or an op from one place to another. If the op cannot move,
    // from == to.
    struct Move {
        bool of_device;
        int32_t op, from, to;

        Move reversed() const { return {of_device, op, to, from}; }
    };

    void start(uint64_t number);
    void try_move(const RandomStream& stream);
    Move draw_device(const RandomStream& stream) const;
    Move draw_place(const RandomStream& stream) const;
    void apply(const Move& move);
    Fitness evaluate_current();
    void spend(const Fitness& fitness);

    std::shared_ptr<const Problem> problem_;
    LocalSearchConfig config_;
    uint64_t seed_;
    State current_, best_;
    std::vector<int32_t> place_of_;       // [op] in current_.ops
    std::vector<uint64_t> destinations_;  // [tensor] mask of the devices that read it
    std::vector<Step> order_;             // current_ with its transfers
    SimulationScratch scratch_;
    int64_t evaluations_ = 0;
};

}  // namespace placewright
