// Local search on runs: takes some later runs out, and puts in others until the limit is kept again.
#pragma once

#include <vector>

#include "rematerialize/runs.hpp"
#include "support/random.hpp"

namespace placewright {

class RunsRepair {
  public:
    explicit RunsRepair(const OrderedOps& ops) : ops_(ops), judge_(ops) {}

    // Takes out some later runs that stand near each other, or moves one to an earlier place.
    void ruin(OpRuns& runs, const RandomStream& stream);
    // Puts in later runs until the peak is within the limit: at its place, whatever frees most of what is too much,
    // there and elsewhere, for the least time. noise: of the choice. Returns false where nothing helps, or it takes
    // longest_ns or more.
    bool repair(OpRuns& runs, const RandomStream& stream, double noise, int64_t longest_ns);

  private:
    struct Drop {
        double score = 0;
        int32_t storage = -1, reader = -1;  // the run before which it is made again
        int32_t at = -1;                    // the run while which it is not needed
    };

    void look(const OpRuns& runs);
    Drop best_drop(int32_t at, const RandomStream& stream, uint64_t draw, double noise);
    int32_t held_from(int32_t storage, int32_t at, int32_t until) const;
    bool move_ahead(OpRuns& runs, int32_t at);
    bool find_chain(int32_t storage, int32_t before);
    bool add_to_chain(int32_t storage, int32_t before);
    int64_t too_much_between(int32_t from, int32_t to, int64_t bytes) const;
    bool is_held(int32_t storage, int32_t at) const;
    bool would_fit(int32_t storage, int32_t before) const;

    const OrderedOps& ops_;
    RunsJudge judge_;
    std::vector<int32_t> over_;        // runs at which there is too much
    std::vector<int64_t> over_sum_;    // [place in over_] bytes too much, up to it
    std::vector<int32_t> next_first_;  // [run] the place of the next first run
    std::vector<int32_t> chain_;       // places of the ops to run again, in order
    int64_t chain_ns_ = 0;
    int32_t chain_depth_ = 0;
};

}  // namespace placewright
