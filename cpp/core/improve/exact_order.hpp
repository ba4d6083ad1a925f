// An exact search for the order of ops on one device that has the least peak.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "problem/problem.hpp"
#include "problem/storage_uses.hpp"

namespace placewright {

// Searches depth first over sets of finished ops, for an order whose peak is below that of the best so far. Memory in
// use depends on the set alone, so a set from which no such order leads on need not be entered again. Two kinds of ops
// leave nothing to decide: an op that fits and frees at least what it makes runs at once, and an op that may as well
// wait for a reader runs with it. docs/algorithms.md has the argument.
class ExactOrder {
  public:
    // `start` is the best order so far, for a problem with one device. Storages of fewer than `least_bytes` count as 0
    // in the search, so there are fewer sets to distinguish; what is then proven is still a bound.
    ExactOrder(std::shared_ptr<const Problem> problem, std::vector<int32_t> start, int64_t least_bytes);

    // Enters sets until `evaluations` have been entered in all, at most `at_most` in this call.
    void advance(int64_t evaluations, int64_t at_most = INT64_MAX);

    int64_t evaluations() const { return evaluations_; }
    // The objective is the peak; times are ignored.
    Fitness best_fitness() const {
        return {std::max<int64_t>(0, best_peak_ - problem_->memory_limit[0]), best_peak_, 0};
    }
    Solution best() const;
    // Returns whether the search has ended: no order has a peak below bound_bytes().
    bool is_exhausted() const { return evaluations_ > 0 && frames_.empty(); }
    int64_t bound_bytes() const { return below_; }

  private:
    using Key = std::array<uint64_t, 2>;

    // A set of finished ops from which the search continues.
    struct Frame {
        size_t path_begin;  // length of the path before the ops that led here from the frame below
        int32_t op;         // the op that was chosen there, or -1
        int32_t tried;      // rank of the op tried last from here
    };
    struct Ran {
        int32_t op;
        int32_t place;  // its place in ready_, or -1
        int64_t peak;   // of the path up to and including it
    };

    void find_what_waits();
    bool may_wait(int32_t op, const Csr& before, const Csr& after) const;
    void enter(int32_t op);
    void enter_anew();
    void leave();
    int32_t next_candidate() const;
    void complete();
    void run_what_is_free();
    bool is_free(int32_t op);
    bool run(int32_t op);
    void run_alone(int32_t op);
    void take_back(size_t length);
    int64_t level_of(int32_t op) const;
    int64_t freed_by(int32_t op) const;
    void add_ready(int32_t op);
    int64_t peak_of(std::span<const int32_t> ops, std::span<const int64_t> bytes);
    bool is_dead_end() const;
    void remember_dead_end();

    std::shared_ptr<const Problem> problem_;
    StorageUses uses_;
    std::vector<int64_t> bytes_;       // [storage] bytes as the search counts them
    std::vector<int64_t> made_;        // [op] bytes of its outputs, counted the same way
    std::vector<uint8_t> waits_;       // [op] 1: it runs with the first op that reads it
    Csr waiting_;                      // [op that does not wait] ops that run with it, in a valid order
    Csr needed_by_;                    // [op] ops that need it, also through ops that wait; neither side waits
    std::vector<int32_t> num_needed_;  // [op]
    std::vector<int32_t> rank_;        // [op] its place in the start
    std::vector<Key> key_of_;          // [op]
    int64_t resident_bytes_ = 0;

    std::vector<int32_t> best_;
    int64_t best_peak_ = INT64_MAX;
    int64_t below_ = INT64_MAX;  // peaks must be below this, counted as in the search
    int64_t evaluations_ = 0;

    // The set of finished ops.
    std::vector<uint8_t> finished_;
    std::vector<int32_t> missing_;  // [op] how many of the ops it needs have not finished
    std::vector<int32_t> ready_, place_in_ready_;
    std::vector<int32_t> users_left_;  // [storage]
    int64_t in_use_ = 0;
    Key key_{1, 1};  // {0, 0} marks an empty entry

    std::vector<Ran> path_;  // the ops that have run, in order
    std::vector<Frame> frames_;
    std::vector<Key> dead_ends_;
    std::vector<int32_t> found_, left_to_run_;  // of complete(): the order; [storage] users
};

}  // namespace placewright
