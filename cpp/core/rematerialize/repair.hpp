// Local search on runs and moves: takes some later runs and moves out, and puts in others until the limit is kept
// again.
#pragma once

#include <vector>

#include "rematerialize/runs.hpp"
#include "support/random.hpp"

namespace placewright {

class RunsRepair {
  public:
    explicit RunsRepair(const OrderedOps& ops) : ops_(ops), judge_(ops) {}

    // Takes out some later runs that stand near each other, or puts one at another place.
    void ruin(OpRuns& runs, const RandomStream& stream);
    // Puts in later runs and moves until the peak is within the limit: at its place, whatever frees most of what is too
    // much, there and elsewhere, for the least time. noise: of the choice. may_wait: ops may wait for moves; otherwise
    // they do only where nothing else helps. moves_first: reruns only where no move helps. Returns false where nothing
    // helps, or it takes longest_ns or more.
    bool repair(OpRuns& runs, const RandomStream& stream, double noise, int64_t longest_ns, bool may_wait = false,
                bool moves_first = false);

  private:
    struct Drop {
        double score = 0;
        int32_t storage = -1, reader = -1;  // the run before which it is made again
        int32_t at = -1;                    // the run while which it is not needed
        // Where it is moved instead: the run before which it has left, -1 if it has been moved before, and the run
        // before which it begins to come back. Of a weight that has been on the device all the time: before which it
        // comes first, and, where that is not all, again.
        bool is_move = false;
        int32_t leave = -1, back = -1;
        double cost_ns = 0;
        bool waits = false;  // some op would wait for it
    };

    void look(const OpRuns& runs, bool waits = true);
    Drop best_drop(int32_t at, const RandomStream& stream, uint64_t draw, double noise, bool may_wait,
                   bool moves_first);
    Drop move_of(int32_t piece, int32_t from, int32_t at, int32_t to) const;
    // The same for a weight that is on the device all the time; to: -1 where no run reads it after `at`.
    Drop streaming_of(int32_t piece, int32_t at, int32_t to) const;
    // The run before which something has to begin to come back to be there for the run `to`, at `at` or later, and what
    // waiting for it takes.
    std::pair<int32_t, int64_t> return_for(int32_t storage, int32_t at, int32_t to) const;
    bool has_left(int32_t storage, int32_t before) const;
    void put_in_move(OpRuns& runs, const Drop& drop) const;
    // Puts every move where it is when nothing waits for it by the times at hand: memory leaves when it has arrived,
    // and comes back as late as it can.
    void retime(OpRuns& runs);
    void put_elsewhere(OpRuns& runs, int32_t at, const RandomStream& stream) const;
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
    std::vector<int32_t> fetched_;     // storages that come back for them
    int64_t chain_ns_ = 0;
    int32_t chain_depth_ = 0;
};

}  // namespace placewright
