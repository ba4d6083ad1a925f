#include "rematerialize/runs.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace placewright {

void RunsJudge::count_returns(const OpRuns& runs) {
    num_returns_.assign(ops_.num_storages(), 0);
    if (ops_.host.num_weights == 0) return;
    for (size_t at = 0; at < runs.size(); ++at) {
        if (out_[at] || !ops_.is_back(runs[at].place)) continue;
        const int32_t storage = ops_.moved_storage(runs[at].place);
        if (ops_.is_weight(storage) && num_returns_[storage] < 2) ++num_returns_[storage];
    }
}

// Finds the interval in which each piece of memory is held, and its readers.
void RunsJudge::find_pieces(const OpRuns& runs) {
    pieces_.clear();
    num_readers_.clear();
    read_.clear();
    read_begin_.assign(1, 0);
    made_begin_.assign(1, 0);
    piece_of_.assign(ops_.num_storages(), -1);
    count_returns(runs);
    const auto num_runs = static_cast<int32_t>(runs.size());
    for (int32_t at = 0; at < num_runs; ++at) {
        if (!out_[at]) {
            const OpRun& run = runs[at];
            for (int32_t storage : ops_.reads[run.place]) {
                const int32_t piece = piece_of_[storage];
                pieces_[piece].last_but_one = std::exchange(pieces_[piece].end, std::max(pieces_[piece].end, at));
                ++num_readers_[piece];
                read_.push_back(piece);
            }
            uint64_t kept = run.kept;
            for (int32_t storage : ops_.makes[run.place]) {
                const bool gives = run.is_first || (kept & 1);
                kept >>= 1;
                const int32_t before = piece_of_[storage];
                if (gives) piece_of_[storage] = static_cast<int32_t>(pieces_.size());
                const bool stays = ops_.stays[storage] && gives && num_returns_[storage] == 0;
                pieces_.push_back({storage, at, stays ? num_runs - 1 : at, before, at});
                num_readers_.push_back(0);
            }
        }
        read_begin_.push_back(static_cast<int32_t>(read_.size()));
        made_begin_.push_back(static_cast<int32_t>(pieces_.size()));
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
        level_[at] = out_[at] ? 0 : in_use + ops_.scratch(runs[at].place, runs[at].is_first);
        most = std::max(most, level_[at]);
    }
    return most;
}

// Returns whether the peak stays within the limit if a later run is left out and what it gave is held from before.
// Pieces and levels must be those with the run, and within the limit.
bool RunsJudge::fits_without(const OpRuns& runs, int32_t at) {
    delta_.assign(runs.size() + 1, 0);
    int32_t begin = at, end = at;
    const auto add = [&](int32_t from, int32_t to, int64_t bytes) {
        delta_[from] += bytes;
        delta_[to] -= bytes;
        begin = std::min(begin, from);
        end = std::max(end, to);
    };
    uint64_t kept = runs[at].kept;
    for (int32_t made = made_begin_[at]; made < made_begin_[at + 1]; ++made, kept >>= 1) {
        const Piece& piece = pieces_[made];
        const bool is_first_of_weight = ops_.makes_weight(runs[pieces_[piece.before].begin].place);
        // A weight that does not come back stays all the time.
        if (is_first_of_weight && num_returns_[piece.storage] > 1) return false;
        if (is_first_of_weight) add(piece.end + 1, static_cast<int32_t>(runs.size()), ops_.bytes[piece.storage]);
        if (kept & 1) add(pieces_[piece.before].end + 1, at, ops_.bytes[piece.storage]);
    }
    for (int32_t each = read_begin_[at]; each < read_begin_[at + 1]; ++each) {
        const Piece& piece = pieces_[read_[each]];
        if (piece.end == at) add(piece.last_but_one + 1, at, -ops_.bytes[piece.storage]);
    }
    int64_t change = 0;
    for (int32_t each = begin; each < end; ++each) {
        change += delta_[each];
        if (each != at && level_[each] > 0 && level_[each] + change > ops_.limit) return false;
    }
    return true;
}

int64_t RunsJudge::look(const OpRuns& runs) {
    out_.assign(runs.size(), 0);
    find_pieces(runs);
    readers_begin_.assign(pieces_.size() + 1, 0);
    for (int32_t piece : read_) ++readers_begin_[piece + 1];
    for (size_t piece = 0; piece < pieces_.size(); ++piece) readers_begin_[piece + 1] += readers_begin_[piece];
    readers_.resize(read_.size());
    std::vector<int32_t>& next = num_readers_;  // reused here: those who need the counts compute them anew
    next.assign(readers_begin_.begin(), readers_begin_.end() - 1);
    for (size_t at = 0; at < runs.size(); ++at)
        for (int32_t each = read_begin_[at]; each < read_begin_[at + 1]; ++each)
            readers_[next[read_[each]]++] = static_cast<int32_t>(at);
    return peak(runs);
}

int32_t RunsJudge::reader_after(int32_t piece, int32_t at) const {
    const auto end = readers_.begin() + readers_begin_[piece + 1];
    const auto found = std::upper_bound(readers_.begin() + readers_begin_[piece], end, at);
    return found == end ? -1 : *found;
}

int32_t RunsJudge::reader_before(int32_t piece, int32_t at) const {
    const auto begin = readers_.begin() + readers_begin_[piece];
    const auto found = std::lower_bound(begin, readers_.begin() + readers_begin_[piece + 1], at);
    return found == begin ? pieces_[piece].begin : *(found - 1);
}

RunsCost RunsJudge::cost(const OpRuns& runs) {
    out_.assign(runs.size(), 0);
    find_pieces(runs);
    RunsCost cost{0, peak(runs)};
    cost.time_ns = time(runs);
    cost.host_bytes = host_bytes_ + most_on_way_;
    return cost;
}

// Agrees with the simulation of the plan (simulate/simulate.cpp): the host is a device that processes, in order, what
// has arrived and what begins to come back. It learns of the device, and the device of it, a latency later.
int64_t RunsJudge::time(const OpRuns& runs, bool waits) {
    int64_t clock = 0;
    if (!ops_.has_host()) {
        for (const OpRun& run : runs) clock += ops_.time_ns[run.place];
        return clock;
    }
    leaves_at_.assign(ops_.num_storages(), -1);
    host_bytes_ = most_on_way_ = 0;
    for (size_t at = 0; at < runs.size(); ++at) {
        if (ops_.makes_weight(runs[at].place) && num_returns_[ops_.makes[runs[at].place][0]] > 0) {
            leaves_at_[ops_.makes[runs[at].place][0]] = static_cast<int32_t>(at);
            host_bytes_ += ops_.bytes[ops_.makes[runs[at].place][0]];
        }
        if (!ops_.is_leave(runs[at].place)) continue;
        const int32_t storage = ops_.moved_storage(runs[at].place);
        leaves_at_[storage] = static_cast<int32_t>(at);
        host_bytes_ += ops_.bytes[storage];
    }
    begins_.resize(runs.size());
    ends_.resize(runs.size());
    at_host_.assign(ops_.num_storages(), 0);
    is_back_.assign(ops_.num_storages(), 0);
    there_.clear();
    back_.clear();
    on_way_.clear();
    int64_t host_clock = 0, on_way = 0;
    size_t arrived = 0;
    bool has_run = false;  // an op has run; what begins to come back earlier need not wait for news of one
    for (size_t at = 0; at < runs.size(); ++at) {
        const OpRun& run = runs[at];
        begins_[at] = clock;
        if (ops_.is_leave(run.place)) {
            const int32_t storage = ops_.moved_storage(run.place);
            host_clock = std::max(host_clock, at_host_[storage]);
            if (waits) clock = std::max(clock, host_clock + ops_.host.latency_back_ns);
        } else if (ops_.is_back(run.place)) {
            const int32_t storage = ops_.moved_storage(run.place);
            host_clock = std::max({host_clock, at_host_[storage], has_run ? clock + ops_.host.latency_there_ns : 0});
            const int64_t begin = std::max(back_.free_at(), host_clock);
            back_.add(begin, is_back_[storage] = begin + ops_.back_ns[storage]);
            for (; arrived < on_way_.size() && on_way_[arrived].first <= host_clock; ++arrived)
                on_way -= on_way_[arrived].second;
            on_way_.emplace_back(is_back_[storage], ops_.bytes[storage]);
            on_way += ops_.bytes[storage];
            most_on_way_ = std::max(most_on_way_, on_way);
        } else {
            for (int32_t storage : ops_.reads[run.place])
                if (waits) clock = std::max(clock, is_back_[storage]);
            begins_[at] = clock;
            if (ops_.makes_weight(run.place)) {
                ends_[at] = clock;
                continue;
            }
            has_run = true;
            clock += ops_.time_ns[run.place];
            uint64_t kept = run.kept;
            for (int32_t storage : ops_.makes[run.place]) {
                if (run.is_first || (kept & 1)) is_back_[storage] = 0;
                kept >>= 1;
                if (!run.is_first || leaves_at_[storage] < 0) continue;
                const int64_t begin = std::max(there_.free_at(), clock);
                there_.add(begin, at_host_[storage] = begin + ops_.there_ns[storage]);
            }
        }
        ends_[at] = clock;
    }
    return clock;
}

void LinkTimes::clear() {
    begin.clear();
    end.clear();
    busy.assign(1, 0);
}

void LinkTimes::add(int64_t from, int64_t to) {
    begin.push_back(from);
    end.push_back(to);
    busy.push_back(busy.back() + to - from);
}

int64_t LinkTimes::busy_until(int64_t moment) const {
    const auto done = std::ranges::upper_bound(end, moment) - end.begin();
    const bool works = done < static_cast<int64_t>(begin.size()) && begin[done] < moment;
    return busy[done] + (works ? moment - begin[done] : 0);
}

int64_t LinkTimes::idle(int64_t from, int64_t to) const {
    return to <= from ? 0 : to - from - (busy_until(to) - busy_until(from));
}

// Marks runs of which nothing is read as out. Pieces must be those of the runs that are not out. Returns whether it
// marked any.
bool RunsJudge::mark_unread(const OpRuns& runs) {
    bool found = false;
    auto piece = static_cast<int32_t>(pieces_.size());
    state_.assign(ops_.num_storages(), 0);  // 1: comes back later
    for (auto at = static_cast<int32_t>(runs.size()) - 1; at >= 0; --at) {
        bool is_read = false;
        for (; piece > 0 && pieces_[piece - 1].begin == at; --piece) is_read |= num_readers_[piece - 1] > 0;
        if (out_[at] || runs[at].is_first) continue;
        if (ops_.is_leave(runs[at].place)) is_read = state_[ops_.moved_storage(runs[at].place)] != 0;
        if (is_read && ops_.is_back(runs[at].place)) state_[ops_.moved_storage(runs[at].place)] = 1;
        if (is_read) continue;
        out_[at] = found = true;
        for (int32_t each = read_begin_[at]; each < read_begin_[at + 1]; ++each) --num_readers_[read_[each]];
    }
    return found;
}

void RunsJudge::take_out_marked(OpRuns& runs) {
    size_t at = 0;
    std::erase_if(runs, [&](const OpRun&) { return out_[at++] != 0; });
}

void RunsJudge::take_out_impossible_moves(OpRuns& runs) {
    enum : uint8_t { kNotMade, kMade, kLeft, kBack, kMadeAgain };
    // A weight that is read before it comes back has been on the device all the time.
    state_.assign(ops_.num_storages(), kNotMade);
    for (size_t at = 0; at < runs.size();) {
        size_t end = at;
        while (end < runs.size() && !ops_.is_op(runs[end].place)) ++end;
        if (end - at > 1)
            std::sort(runs.begin() + at, runs.begin() + end, [&](const OpRun& one, const OpRun& other) {
                return std::pair(ops_.is_back(one.place), one.place) <
                       std::pair(ops_.is_back(other.place), other.place);
            });
        at = std::max(end, at + 1);
    }
    std::erase_if(runs, [&](const OpRun& run) {
        if (!ops_.is_op(run.place)) {
            uint8_t& state = state_[ops_.moved_storage(run.place)];
            const bool is_back = ops_.is_back(run.place);
            if (is_back ? state != kLeft && state != kBack : state != kMade) return true;
            state = is_back ? kBack : kLeft;
            return false;
        }
        for (int32_t storage : ops_.reads[run.place])
            if (ops_.is_weight(storage) && state_[storage] == kLeft) state_[storage] = kMade;
        uint64_t kept = run.kept;
        for (int32_t storage : ops_.makes[run.place]) {
            if (run.is_first) state_[storage] = ops_.is_weight(storage) ? kLeft : kMade;
            if (!run.is_first && (kept & 1) && state_[storage] == kMade) state_[storage] = kMadeAgain;
            kept >>= 1;
        }
        return false;
    });
}

void RunsJudge::take_out_unread(OpRuns& runs) {
    if (ops_.has_host()) take_out_impossible_moves(runs);
    out_.assign(runs.size(), 0);
    find_pieces(runs);
    if (mark_unread(runs)) take_out_marked(runs);
}

void RunsJudge::keep_what_fits(OpRuns& runs) {
    out_.assign(runs.size(), 0);
    std::vector<int32_t> later;
    for (size_t at = 0; at < runs.size(); ++at)
        if (!runs[at].is_first && !ops_.is_leave(runs[at].place)) later.push_back(static_cast<int32_t>(at));
    std::ranges::stable_sort(later, std::greater{}, [&](int32_t at) { return ops_.time_ns[runs[at].place]; });
    find_pieces(runs);
    peak(runs);
    bool found = false;
    for (int32_t at : later) {
        if (out_[at]) continue;
        if (!fits_without(runs, at)) continue;
        out_[at] = found = true;
        find_pieces(runs);
        mark_unread(runs);
        find_pieces(runs);
        peak(runs);
    }
    if (!found) return;
    take_out_marked(runs);
    if (ops_.has_host()) take_out_unread(runs);
}

}  // namespace placewright
