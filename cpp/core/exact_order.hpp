// The order of ops on one device that has the least peak, proven.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "problem.hpp"
#include "storage_uses.hpp"

namespace placewright {

// Depth first over sets of finished ops, for an order whose peak is below that of the best so far. What is in use
// depends on the set alone, so a set from which no such order leads on need not be entered again. An op that fits and
// frees at least what it makes runs at once: moved before others it takes no byte from them, at any time.
class ExactOrder {
  public:
    // `start` is the best so far, of a problem with one device.
    ExactOrder(std::shared_ptr<const Problem> problem, std::vector<int32_t> start);

    // Enters sets until `evaluations` in all have been, at most `at_most` in this call.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    const std::vector<int32_t>& best_ops() const { return best_; }
    int64_t best_peak_bytes() const { return best_peak_; }
    int64_t best_bytes_over_limit() const { return std::max<int64_t>(0, best_peak_ - problem_->memory_limit[0]); }
    // Whether no order has a lower peak than the best.
    bool is_optimal() const { return evaluations_ > 0 && frames_.empty(); }

  private:
    using Key = std::array<uint64_t, 2>;

    // A set of finished ops from which the search goes on.
    struct Frame {
        size_t path_begin;  // how many ops had finished before those that led here from the frame below
        int32_t tried;      // rank of the op that was tried last to go on from here
    };
    struct Ran {
        int32_t op, place;  // where it stood in ready_
        int64_t peak;       // up to and with it
    };

    void enter(int32_t op);
    int32_t next_candidate(int32_t tried) const;
    void enter_anew();
    void leave();
    void run(int32_t op);
    void take_back();
    void run_what_is_free();
    int64_t level_of(int32_t op) const;
    int64_t freed_by(int32_t op) const;
    void add_ready(int32_t op);
    bool is_dead_end() const;
    void remember_dead_end();

    std::shared_ptr<const Problem> problem_;
    StorageUses uses_;
    std::vector<int32_t> missing_;  // [op] inputs and control predecessors that have not finished
    std::vector<int32_t> best_;
    int64_t best_peak_ = INT64_MAX;
    int64_t evaluations_ = 0;

    std::vector<int32_t> ready_, place_in_ready_;
    std::vector<int32_t> users_left_;  // [storage]
    std::vector<int32_t> rank_;        // [op] its place in the start
    std::vector<Ran> path_;
    std::vector<Frame> frames_;
    int64_t in_use_ = 0;
    Key key_{1, 1};            // of the finished ops; {0, 0} is no entry
    std::vector<Key> key_of_;  // [op]
    std::vector<Key> dead_ends_;
};

}  // namespace placewright
