// An order in which ops run, some of them more than once, and memory moves to the host and back; and its cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rematerialize/ordered_ops.hpp"

namespace placewright {

// One run of an op. A first run gives all that its op makes. A later run gives what is kept of it, which replaces what
// an earlier run gave; the rest is freed when it ends. At the places after the ops of OrderedOps a run is a moment:
// memory has left the device, its move having begun when it was made; or memory begins to come back once the run before
// has ended, and is given anew.
struct OpRun {
    static constexpr uint64_t kAll = ~uint64_t{0};  // an op that runs again may make at most 64 pieces of memory

    int32_t place;  // of the op in the given order, or after the ops
    bool is_first;
    uint64_t kept;  // bit i: the i-th of what the op makes
};

using OpRuns = std::vector<OpRun>;

struct RunsCost {
    int64_t time_ns = 0;
    int64_t peak_bytes = 0;
    int64_t host_bytes = 0;  // all bytes moved, plus the most that are on their way back at once
};

// The times at which a link carries something, in order.
struct LinkTimes {
    std::vector<int64_t> begin, end, busy{0};  // busy: [k] how long it works for the first k

    void clear();
    void add(int64_t from, int64_t to);
    int64_t free_at() const { return end.empty() ? 0 : end.back(); }
    // Returns how long it is idle between two moments; 0 if the second is no later.
    int64_t idle(int64_t from, int64_t to) const;

  private:
    int64_t busy_until(int64_t moment) const;
};

// Memory that holds an op's result, or what is kept of a later run, from one run to another.
struct Piece {
    int32_t storage, begin, end;
    int32_t before;        // the piece that an earlier run gave, or -1
    int32_t last_but_one;  // the second to last run that reads it; its begin if it has one reader
};

// Computes the cost of runs and removes those that are not needed. Keeps its buffers between calls.
class RunsJudge {
  public:
    explicit RunsJudge(const OrderedOps& ops) : ops_(ops) {}

    RunsCost cost(const OpRuns& runs);
    // Removes later runs of which nothing is read, and impossible moves: memory leaves once, as its first run made it,
    // and comes back after that. Between two ops, memory leaves before other memory comes.
    void take_out_unread(OpRuns& runs);
    // Removes later runs without which the peak stays within the limit if what an earlier run gave is kept instead.
    // Tries the longest first.
    void keep_what_fits(OpRuns& runs);

    // Finds pieces and levels for the functions below, and returns the peak.
    int64_t look(const OpRuns& runs);
    std::span<const Piece> pieces() const { return pieces_; }
    std::span<const int64_t> level() const { return level_; }  // [run] bytes in use while it runs
    int32_t latest_piece(int32_t storage) const { return piece_of_[storage]; }
    // Returns the first run after `at` that reads a piece; -1 for none.
    int32_t reader_after(int32_t piece, int32_t at) const;
    // Returns the last run before `at` that reads a piece, or the begin of the piece.
    int32_t reader_before(int32_t piece, int32_t at) const;
    // Finds when runs begin and end and when the links carry something; returns when the last run has ended. waits:
    // runs wait for moves; without, they follow each other as if all moves were in time.
    int64_t time(const OpRuns& runs, bool waits = true);
    std::span<const int64_t> begins() const { return begins_; }  // [run]
    std::span<const int64_t> ends() const { return ends_; }      // [run]
    const LinkTimes& there() const { return there_; }
    const LinkTimes& back() const { return back_; }
    int64_t arrival(int32_t storage) const { return at_host_[storage]; }  // in the host's memory
    // The run at which it has left, that of its maker for a weight that comes back; -1 if it does not leave.
    int32_t leaves_at(int32_t storage) const { return leaves_at_[storage]; }
    // Returns the bytes that the host holds at most if this many more are moved there.
    int64_t host_bytes_with(int64_t bytes) const { return host_bytes_ + bytes + std::max(most_on_way_, bytes); }

  private:
    void find_pieces(const OpRuns& runs);
    void count_returns(const OpRuns& runs);
    int64_t peak(const OpRuns& runs);
    bool fits_without(const OpRuns& runs, int32_t at);
    bool mark_unread(const OpRuns& runs);
    void take_out_marked(OpRuns& runs);
    void take_out_impossible_moves(OpRuns& runs);

    const OrderedOps& ops_;
    std::vector<uint8_t> out_;  // [run] 1: it is ignored
    std::vector<Piece> pieces_;
    std::vector<int32_t> piece_of_;  // [storage] its latest piece
    std::vector<int32_t> read_;      // pieces that are read, run by run
    std::vector<int32_t> read_begin_;
    std::vector<int32_t> num_readers_;              // [piece]
    std::vector<int32_t> made_begin_;               // [run] begin of its pieces
    std::vector<int32_t> readers_begin_, readers_;  // runs, piece by piece
    std::vector<int64_t> delta_;
    std::vector<int64_t> level_;  // [run] bytes in use while it runs

    // Used if memory may be moved.
    std::vector<int64_t> begins_, ends_;  // [run]
    LinkTimes there_, back_;
    std::vector<int64_t> at_host_, is_back_;           // [storage] end of a move
    std::vector<int32_t> leaves_at_;                   // [storage] run
    std::vector<uint8_t> state_;                       // [storage]
    std::vector<uint8_t> num_returns_;                 // [storage] returns of weights, counted up to 2
    std::vector<std::pair<int64_t, int64_t>> on_way_;  // returns on their way: end, and bytes
    int64_t host_bytes_ = 0, most_on_way_ = 0;
};

}  // namespace placewright
