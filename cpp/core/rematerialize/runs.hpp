// An order in which ops run, some of them more than once, and memory moves to the host and back; and what it costs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rematerialize/ordered_ops.hpp"

namespace placewright {

// One run of an op. A first run gives all that its op makes; a later one gives what is kept of it, instead of what an
// earlier run gave, and the rest is freed when it ends. At the places behind the ops of OrderedOps a run is a moment:
// at which memory has left the device, its move having begun when it was made; or at which it begins to come back, once
// the run before has ended, and is given anew.
struct OpRun {
    static constexpr uint64_t kAll = ~uint64_t{0};  // so many pieces of memory an op may make that runs again

    int32_t place;  // of the op in the given order, or behind the ops
    bool is_first;
    uint64_t kept;  // bit i: the i-th of what the op makes
};

using OpRuns = std::vector<OpRun>;

struct RunsCost {
    int64_t time_ns = 0;
    int64_t peak_bytes = 0;
    int64_t host_bytes = 0;  // all that is moved, and the most that is on its way back at once
};

// When a link carries something, in the order in which it does.
struct LinkTimes {
    std::vector<int64_t> begin, end, busy{0};  // busy: [k] how long it works for the first k

    void clear();
    void add(int64_t from, int64_t to);
    int64_t free_at() const { return end.empty() ? 0 : end.back(); }
    // How long it does nothing between two moments; 0 where the second is no later.
    int64_t idle(int64_t from, int64_t to) const;

  private:
    int64_t busy_until(int64_t moment) const;
};

// Memory held by an op's result, or what is kept of a later run, from one run to another.
struct Piece {
    int32_t storage, begin, end;
    int32_t before;        // the piece that an earlier run gave, or -1
    int32_t last_but_one;  // the run that reads it last but one; where it has one reader, its begin
};

// Judges runs, and takes out those that are not needed. Holds memory for that between calls.
class RunsJudge {
  public:
    explicit RunsJudge(const OrderedOps& ops) : ops_(ops) {}

    RunsCost cost(const OpRuns& runs);
    // Takes out later runs of which nothing is read, and moves that cannot be: memory leaves once, as its first run
    // made it, and comes back after that. Between two ops it leaves before other memory comes.
    void take_out_unread(OpRuns& runs);
    // Takes out later runs without which the peak stays below the limit, what an earlier run gave being kept instead.
    // The longest are tried first.
    void keep_what_fits(OpRuns& runs);

    // Finds pieces and levels for what follows, and returns the peak.
    int64_t look(const OpRuns& runs);
    std::span<const Piece> pieces() const { return pieces_; }
    std::span<const int64_t> level() const { return level_; }  // [run] bytes in use while it runs
    int32_t latest_piece(int32_t storage) const { return piece_of_[storage]; }
    // The first run after `at` that reads a piece; -1 for none.
    int32_t reader_after(int32_t piece, int32_t at) const;
    // The last run before `at` that reads a piece, or its begin.
    int32_t reader_before(int32_t piece, int32_t at) const;
    // Finds when runs begin and end, and the links carry something; returns when the last has ended. waits: for moves;
    // without, runs follow each other as if all were there in time.
    int64_t time(const OpRuns& runs, bool waits = true);
    std::span<const int64_t> begins() const { return begins_; }  // [run]
    std::span<const int64_t> ends() const { return ends_; }      // [run]
    const LinkTimes& there() const { return there_; }
    const LinkTimes& back() const { return back_; }
    int64_t arrival(int32_t storage) const { return at_host_[storage]; }  // in the host's memory
    // The run before which it has left, that of its maker for a weight that comes back; -1 where it does not.
    int32_t leaves_at(int32_t storage) const { return leaves_at_[storage]; }
    // What the host holds at most if so many bytes more are moved there.
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
    std::vector<uint8_t> out_;  // [run] 1: as if it were not there
    std::vector<Piece> pieces_;
    std::vector<int32_t> piece_of_;  // [storage] the latest
    std::vector<int32_t> read_;      // pieces, run by run
    std::vector<int32_t> read_begin_;
    std::vector<int32_t> num_readers_;              // [piece]
    std::vector<int32_t> made_begin_;               // [run] its pieces begin there
    std::vector<int32_t> readers_begin_, readers_;  // runs, piece by piece
    std::vector<int64_t> delta_;
    std::vector<int64_t> level_;  // [run] bytes in use while it runs

    // Where memory may be moved.
    std::vector<int64_t> begins_, ends_;  // [run]
    LinkTimes there_, back_;
    std::vector<int64_t> at_host_, is_back_;           // [storage] when a move is done
    std::vector<int32_t> leaves_at_;                   // [storage] run
    std::vector<uint8_t> state_;                       // [storage]
    std::vector<uint8_t> num_returns_;                 // [storage] of weights, up to 2
    std::vector<std::pair<int64_t, int64_t>> on_way_;  // what comes back: until when, and bytes
    int64_t host_bytes_ = 0, most_on_way_ = 0;
};

}  // namespace placewright
