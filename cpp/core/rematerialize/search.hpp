// Search for the runs that keep a memory limit in the least time.
#pragma once

#include <memory>
#include <vector>

#include "problem/problem.hpp"
#include "rematerialize/eviction_decoder.hpp"
#include "rematerialize/repair.hpp"

namespace placewright {

// Starts with what several greedy rules give; then some reruns are taken out again and again and the rest repaired,
// which is accepted as in annealing (large neighbourhood search).
class RematerializationSearch {
  public:
    // order, again_before, may_move, host: as OrderedOps takes them. The order is kept for first runs.
    RematerializationSearch(std::shared_ptr<const Problem> problem, std::span<const int32_t> order,
                            std::span<const int32_t> again_before, uint64_t seed,
                            std::span<const uint8_t> may_move = {}, const HostMemory& host = {});

    // Searches until `evaluations` in all are spent, at most `at_most` in this call. Where a search pauses does not
    // change where it leads.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    // Times are sums of the runs'; a launch by a host takes none.
    const Fitness& best_fitness() const { return best_fitness_; }
    const OpRuns& best() const { return best_; }
    const OrderedOps& ops() const { return ops_; }

  private:
    bool start(size_t number);
    bool change();
    void settle(double temperature);

    std::shared_ptr<const Problem> problem_;
    OrderedOps ops_;
    EvictionDecoder decoder_;
    RunsJudge judge_;
    RunsRepair repair_;
    uint64_t seed_;
    int64_t evaluations_ = 0;
    int64_t once_ns_ = 0;  // what all ops take that run once
    OpRuns current_, tried_, best_;
    Fitness current_fitness_, best_fitness_;
};

}  // namespace placewright
