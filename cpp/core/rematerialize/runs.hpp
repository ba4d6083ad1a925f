// An order in which ops run, some of them more than once, and what it costs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rematerialize/ordered_ops.hpp"

namespace placewright {

// One run of an op. A first run gives all that its op makes; a later one gives what is kept of it, instead of what an
// earlier run gave, and the rest is freed when it ends.
struct OpRun {
    static constexpr uint64_t kAll = ~uint64_t{0};  // so many pieces of memory an op may make that runs again

    int32_t place;  // of the op in the given order
    bool is_first;
    uint64_t kept;  // bit i: the i-th of what the op makes
};

using OpRuns = std::vector<OpRun>;

struct RunsCost {
    int64_t time_ns = 0;
    int64_t peak_bytes = 0;
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
    // Takes out later runs of which nothing is read.
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

  private:
    void find_pieces(const OpRuns& runs);
    int64_t peak(const OpRuns& runs);
    bool fits_without(const OpRuns& runs, int32_t at);
    bool mark_unread(const OpRuns& runs);
    void take_out_marked(OpRuns& runs);

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
};

}  // namespace placewright
