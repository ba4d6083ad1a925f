// Search for the runs that keep a memory limit in the least time.
#pragma once

#include <memory>
#include <vector>

#include "problem/problem.hpp"
#include "rematerialize/eviction_decoder.hpp"
#include "rematerialize/repair.hpp"

namespace placewright {

// Starts with the results of several greedy rules; then it repeatedly removes some reruns and repairs the rest, and
// accepts the result as in annealing (large neighbourhood search).
class RematerializationSearch {
  public:
    // order, again_before, may_move, host: as in OrderedOps. The first runs keep the order.
    RematerializationSearch(std::shared_ptr<const Problem> problem, std::span<const int32_t> order,
                            std::span<const int32_t> again_before, uint64_t seed,
                            std::span<const uint8_t> may_move = {}, const HostMemory& host = {});

    // Searches until `evaluations` in all are spent, at most `at_most` in this call. Pauses do not change the result.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    // Times are those of RunsJudge; a launch by a host takes none.
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
    int64_t once_ns_ = 0;  // time of all ops if each runs once
    OpRuns current_, tried_, best_;
    Fitness current_fitness_, best_fitness_;
};

}  // namespace placewright
