// Biased random-key genetic algorithm (Goncalves & Resende, J. Heuristics 2011) with a Beta distribution per key from
// which the first population and the mutants are drawn (REGAL, section 3.2).
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
#include "support/worker_pool.hpp"

namespace placewright {

struct BrkgaConfig {
    int32_t population = 100;
    int32_t elites = 20;
    int32_t mutants = 15;
    double elite_bias = 0.7;
    int32_t populations = 1;
    int32_t exchange_interval = 100;  // generations between exchanges of the best among populations
    int32_t exchanged = 2;            // number of each population's best that the others receive
    DecoderKind decoder = DecoderKind::paper;
};

// The mean decisions of a set of chromosomes.
struct MeanDecisions {
    std::vector<float> share;     // [op * device] share of chromosomes that place the op there
    std::vector<float> position;  // [op] position in the order of ops, from 0 to 1
};

class Brkga {
  public:
    // `seeds` are chromosomes put into the first population, dealt to the populations in turn. Throws
    // std::invalid_argument if the configuration or proposal is invalid.
    Brkga(std::shared_ptr<const Problem> problem, const BrkgaConfig& config, std::optional<KeyProposal> proposal,
          std::vector<std::vector<Key>> seeds, uint64_t seed, int32_t threads);

    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);
    // Advances by that many generations; the first is the rest of the current one.
    void evolve(int64_t generations);

    int64_t evaluations() const { return evaluations_; }
    int64_t generation() const { return generation_; }
    const Fitness& best_fitness() const { return best_individual().fitness; }
    std::span<const Key> best_keys() const { return best_individual().keys; }
    Solution best() const { return decoded(*scratch_.front().decoder, best_keys()); }
    // Averages over the individuals of the last complete generation (REGAL, A.2); std::logic_error if there is none.
    MeanDecisions mean_decisions();

  private:
    struct Individual {
        std::vector<Key> keys;
        Fitness fitness;
        int64_t born = 0;  // number of its evaluation
    };
    struct Population {
        std::vector<std::unique_ptr<Individual>> members;  // after a generation: best first
        std::vector<std::unique_ptr<Individual>> spare;    // buffers for the next generation
    };
    struct Scratch {
        Scratch(const Problem& problem, DecoderKind kind) : decoder(make_decoder(problem, kind)), simulation(problem) {}
        std::unique_ptr<Decoder> decoder;
        SimulationScratch simulation;
    };

    const Individual& best_individual() const;
    int32_t num_newcomers() const;
    Individual& newcomer(int32_t number) const;
    void turn_generation();
    void add_newcomer(int32_t item, Scratch& scratch);
    void breed(int32_t population, int32_t member, Individual& child) const;
    void draw_mutant(const RandomStream& stream, std::vector<Key>& keys) const;
    void cross(const RandomStream& stream, const Population& parents, std::vector<Key>& child) const;
    void evaluate(Individual& individual, Scratch& scratch) const;
    void exchange_best();
    static void sort_by_fitness(Population& population);

    std::shared_ptr<const Problem> problem_;
    BrkgaConfig config_;
    std::optional<KeyProposal> proposal_;
    std::vector<std::vector<Key>> seeds_;
    uint64_t seed_;
    size_t num_keys_;
    WorkerPool pool_;
    std::vector<Scratch> scratch_;  // one per thread
    std::vector<Population> populations_;
    int64_t evaluations_ = 0;
    int64_t generation_ = 0;
    int32_t bred_ = 0;  // newcomers of this generation so far
};

}  // namespace placewright
