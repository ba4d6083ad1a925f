// Search for the runs that keep a memory limit in the least time: annealing over the weights of an eviction decoder.
#pragma once

#include <memory>
#include <vector>

#include "problem/problem.hpp"
#include "rematerialize/eviction_decoder.hpp"
#include "support/random.hpp"

namespace placewright {

class RematerializationSearch {
  public:
    // order, again_before: as OrderedOps takes them. The order is kept for first runs.
    RematerializationSearch(std::shared_ptr<const Problem> problem, std::span<const int32_t> order,
                            std::span<const int32_t> again_before, uint64_t seed);

    // Searches until `evaluations` in all are spent, at most `at_most` in this call. Where a search pauses does not
    // change where it leads.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    // Times are sums of the runs'; a launch by a host takes none.
    const Fitness& best_fitness() const { return best_fitness_; }
    const OpRuns& best() const { return best_; }
    const OrderedOps& ops() const { return ops_; }

  private:
    struct State {
        std::vector<double> weights;
        EvictionExponents exponents;
        std::vector<int32_t> dropped, kept;  // storages that could go
        Fitness fitness;
    };

    void try_start(size_t number);
    void try_move(double temperature);
    bool evaluate(State& state);

    std::shared_ptr<const Problem> problem_;
    OrderedOps ops_;
    EvictionDecoder decoder_;
    RunsJudge judge_;
    uint64_t seed_;
    int64_t evaluations_ = 0;
    State current_, tried_;
    OpRuns runs_, best_;
    Fitness best_fitness_;
};

}  // namespace placewright
