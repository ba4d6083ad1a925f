// Local search over runs and moves: removes some later runs and moves, and inserts others until the limit is kept
// again.
#pragma once

#include <vector>

#include "rematerialize/runs.hpp"
#include "support/random.hpp"

namespace placewright {

class RunsRepair {
  public:
    explicit RunsRepair(const OrderedOps& ops) : ops_(ops), judge_(ops) {}

    // Removes some later runs that are near each other, puts one at another place, or retimes the moves.
    void ruin(OpRuns& runs, const RandomStream& stream);
    // Inserts later runs and moves until the peak is within the limit: at the peak, those that free the most excess
    // bytes, there and elsewhere, for the time they cost. noise: of this choice. may_wait: ops may wait for moves;
    // otherwise they do only if nothing else helps. moves_first: reruns only if no move helps. Returns false if nothing
    // helps, if too many rounds do not suffice, or if the runs take longest_ns or more.
    bool repair(OpRuns& runs, const RandomStream& stream, double noise, int64_t longest_ns, bool may_wait = false,
                bool moves_first = false);

  private:
    struct Drop {
        double score = 0;
        int32_t storage = -1, reader = -1;  // the run before which it is made again
        int32_t at = -1;                    // the run during which it is not needed
        // If it is moved instead: the run before which it has left, -1 if it was moved before, and the run before which
        // it begins to come back. For a weight that was on the device all the time, `back` is the run before which it
        // comes; if it comes twice, `leave` is the run before which it comes first.
        bool is_move = false;
        int32_t leave = -1, back = -1;
        double cost_ns = 0;
        bool waits = false;  // some op would wait for it
    };

    void look(const OpRuns& runs, bool waits = true);
    Drop best_drop(int32_t at, const RandomStream& stream, uint64_t draw, double noise, bool may_wait,
                   bool moves_first);
    Drop move_of(int32_t piece, int32_t from, int32_t at, int32_t to) const;
    // The same for a weight that is on the device all the time; to: -1 if no run reads it after `at`.
    Drop streaming_of(int32_t piece, int32_t at, int32_t to) const;
    // Returns the run after `at` before which something must begin to come back to be there for the run `to`, and how
    // long that run waits for it.
    std::pair<int32_t, int64_t> return_for(int32_t storage, int32_t at, int32_t to) const;
    bool has_left(int32_t storage, int32_t before) const;
    void put_in_move(OpRuns& runs, const Drop& drop) const;
    // Puts every move where it belongs by times without waits: memory leaves when it has arrived at the host, and comes
    // back as late as possible.
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
    std::vector<int32_t> over_;        // runs at which memory exceeds the limit
    std::vector<int64_t> over_sum_;    // [k] excess bytes, summed over the first k of over_
    std::vector<int32_t> next_first_;  // [run] the place of the next first run
    std::vector<int32_t> chain_;       // places of the ops to run again, in order
    std::vector<int32_t> fetched_;     // storages that must come back for them
    int64_t chain_ns_ = 0;
    int32_t chain_depth_ = 0;
};

}  // namespace placewright
