// Simulated annealing (Kirkpatrick, Gelatt & Vecchi, Science 1983) over the keys that BRKGA evolves.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/decoder.hpp"
#include "decode/key_proposal.hpp"
#include "problem/problem.hpp"
#include "simulate/simulate.hpp"
#include "support/random.hpp"

namespace placewright {

struct AnnealingConfig {
    int32_t keys_per_move = 4;        // keys drawn anew in a move
    double first_temperature = 1e-2;  // relative to the objective
    double last_temperature = 1e-4;
    DecoderKind decoder = DecoderKind::paper;
};

class Annealing {
  public:
    // Throws std::invalid_argument if the configuration or proposal is invalid.
    Annealing(std::shared_ptr<const Problem> problem, const AnnealingConfig& config,
              std::optional<KeyProposal> proposal, uint64_t seed);

    // Searches until `evaluations` in all are spent, over which the temperature falls, at most `at_most` in this call.
    // Pauses do not change the result.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    const Fitness& best_fitness() const { return best_fitness_; }
    std::span<const Key> best_keys() const { return best_keys_; }
    Solution best() const { return decoded(*decoder_, best_keys_); }

  private:
    struct Changed {
        size_t key;
        Key before;
    };

    void start();
    void try_move();
    Key draw(size_t key, uint64_t bits) const;
    bool accepts(const Fitness& fitness, uint64_t bits) const;
    double temperature() const;
    Fitness evaluate_current();
    void keep_if_best();

    std::shared_ptr<const Problem> problem_;
    AnnealingConfig config_;
    std::optional<KeyProposal> proposal_;
    uint64_t seed_;
    std::vector<Key> keys_, best_keys_;
    Fitness fitness_, best_fitness_;
    std::vector<Changed> changed_;  // by the current move
    std::unique_ptr<Decoder> decoder_;
    SimulationScratch simulation_;
    int64_t evaluations_ = 0;
    int64_t all_evaluations_ = 1;  // total at which the search ends, as far as advance() knows
};

}  // namespace placewright
