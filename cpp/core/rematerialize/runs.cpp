#include "rematerialize/runs.hpp"

#include <algorithm>
#include <functional>

namespace placewright {

// From when to when memory is held, and who reads it.
void RunsJudge::find_pieces(const OpRuns& runs) {
    pieces_.clear();
    num_readers_.clear();
    read_.clear();
    read_begin_.assign(1, 0);
    piece_of_.assign(ops_.num_storages(), -1);
    const auto num_runs = static_cast<int32_t>(runs.size());
    for (int32_t at = 0; at < num_runs; ++at) {
        if (!out_[at]) {
            const OpRun& run = runs[at];
            for (int32_t storage : ops_.reads[run.place]) {
                const int32_t piece = piece_of_[storage];
                pieces_[piece].end = std::max(pieces_[piece].end, at);
                ++num_readers_[piece];
                read_.push_back(piece);
            }
            uint64_t kept = run.kept;
            for (int32_t storage : ops_.makes[run.place]) {
                const bool gives = run.is_first || (kept & 1);
                kept >>= 1;
                if (gives) piece_of_[storage] = static_cast<int32_t>(pieces_.size());
                pieces_.push_back({storage, at, ops_.stays[storage] && gives ? num_runs - 1 : at});
                num_readers_.push_back(0);
            }
        }
        read_begin_.push_back(static_cast<int32_t>(read_.size()));
    }
}

int64_t RunsJudge::peak(const OpRuns& runs) {
    level_.assign(runs.size() + 1, 0);
    for (const Piece& piece : pieces_) {
        level_[piece.begin] += ops_.bytes[piece.storage];
        level_[piece.end + 1] -= ops_.bytes[piece.storage];
    }
    int64_t in_use = ops_.resident_bytes, most = in_use;
    for (size_t at = 0; at < runs.size(); ++at) {
        in_use += level_[at];
        if (!out_[at]) most = std::max(most, in_use + ops_.scratch(runs[at].place, runs[at].is_first));
    }
    return most;
}

RunsCost RunsJudge::cost(const OpRuns& runs) {
    out_.assign(runs.size(), 0);
    find_pieces(runs);
    RunsCost cost{0, peak(runs)};
    for (const OpRun& run : runs) cost.time_ns += ops_.time_ns[run.place];
    return cost;
}

// Pieces are those of the runs that are not out. Returns whether some run became so.
bool RunsJudge::mark_unread(const OpRuns& runs) {
    bool found = false;
    auto piece = static_cast<int32_t>(pieces_.size());
    for (auto at = static_cast<int32_t>(runs.size()) - 1; at >= 0; --at) {
        bool is_read = false;
        for (; piece > 0 && pieces_[piece - 1].begin == at; --piece) is_read |= num_readers_[piece - 1] > 0;
        if (out_[at] || runs[at].is_first || is_read) continue;
        out_[at] = found = true;
        for (int32_t each = read_begin_[at]; each < read_begin_[at + 1]; ++each) --num_readers_[read_[each]];
    }
    return found;
}

void RunsJudge::take_out_marked(OpRuns& runs) {
    size_t at = 0;
    std::erase_if(runs, [&](const OpRun&) { return out_[at++] != 0; });
}

void RunsJudge::take_out_unread(OpRuns& runs) {
    out_.assign(runs.size(), 0);
    find_pieces(runs);
    if (mark_unread(runs)) take_out_marked(runs);
}

void RunsJudge::keep_what_fits(OpRuns& runs) {
    out_.assign(runs.size(), 0);
    std::vector<int32_t> later;
    for (size_t at = 0; at < runs.size(); ++at)
        if (!runs[at].is_first) later.push_back(static_cast<int32_t>(at));
    std::ranges::stable_sort(later, std::greater{}, [&](int32_t at) { return ops_.time_ns[runs[at].place]; });
    bool found = false;
    for (int32_t at : later) {
        if (out_[at]) continue;
        out_[at] = 1;
        find_pieces(runs);
        const bool fits = peak(runs) <= ops_.limit;
        if (fits) mark_unread(runs);
        out_[at] = fits;
        found |= fits;
    }
    if (found) take_out_marked(runs);
}

}  // namespace placewright
