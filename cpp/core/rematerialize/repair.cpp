#include "rematerialize/repair.hpp"

#include <algorithm>
#include <cmath>

namespace placewright {

namespace {

constexpr int32_t kMostTakenOut = 12;  // later runs, at once
constexpr int32_t kLongestChain = 64;  // ops that run again for one
constexpr int32_t kMostPutIn = 400;    // chains, in one repair

}  // namespace

void RunsRepair::look(const OpRuns& runs) {
    judge_.look(runs);
    const auto level = judge_.level();
    over_.clear();
    over_sum_.assign(1, 0);
    next_first_.resize(runs.size());
    int32_t next = ops_.num_ops();
    for (size_t back = runs.size(); back-- > 0;) {
        if (runs[back].is_first) next = runs[back].place;
        next_first_[back] = next;
    }
    for (size_t at = 0; at < runs.size(); ++at) {
        if (level[at] <= ops_.limit) continue;
        over_.push_back(static_cast<int32_t>(at));
        over_sum_.push_back(over_sum_.back() + level[at] - ops_.limit);
    }
}

void RunsRepair::ruin(OpRuns& runs, const RandomStream& stream) {
    std::vector<int32_t> later;
    for (size_t at = 0; at < runs.size(); ++at)
        if (!runs[at].is_first) later.push_back(static_cast<int32_t>(at));
    if (later.empty()) return;
    const auto chosen = static_cast<int32_t>(stream.below(0, static_cast<uint32_t>(later.size())));
    if (stream.below(1, 6) == 0) {
        const int32_t at = later[chosen], maker = runs[at].place;
        int32_t least = at;
        while (least > 0 && runs[least - 1].place != maker && at - least < 40) --least;
        const auto to = least + static_cast<int32_t>(stream.below(2, static_cast<uint32_t>(at - least + 1)));
        std::rotate(runs.begin() + to, runs.begin() + at, runs.begin() + at + 1);
        return;
    }
    // Neighbours in time, with gaps.
    const auto count = 1 + static_cast<int32_t>(stream.below(3, kMostTakenOut));
    std::vector<uint8_t> out(runs.size(), 0);
    const uint32_t every = 1 + stream.below(4, 3);
    for (int32_t each = 0, place = chosen; each < count && place < static_cast<int32_t>(later.size()); ++place)
        if (stream.below(uint64_t(8 + place - chosen), every) == 0) out[later[place]] = 1, ++each;
    size_t at = 0;
    std::erase_if(runs, [&](const OpRun&) { return out[at++] != 0; });
    judge_.take_out_unread(runs);
}

bool RunsRepair::repair(OpRuns& runs, const RandomStream& stream, double noise, int64_t longest_ns) {
    int64_t time_ns = 0;
    for (const OpRun& run : runs) time_ns += ops_.time_ns[run.place];
    for (int32_t round = 0;; ++round) {
        look(runs);
        if (over_.empty()) return true;
        if (round == kMostPutIn) return false;
        const auto level = judge_.level();
        const int32_t worst = *std::ranges::max_element(over_, {}, [&](int32_t at) { return level[at]; });
        const Drop drop = best_drop(worst, stream, uint64_t(round + 1) << 20, noise);
        if (drop.storage < 0) {
            if (!move_ahead(runs, worst)) return false;
            continue;
        }
        if (!find_chain(drop.storage, drop.reader)) return false;
        time_ns += chain_ns_;
        if (time_ns >= longest_ns) return false;
        OpRuns added;
        for (int32_t place : chain_) {
            // What the chain is for, and what it needs itself; other results only where they are missing.
            OpRun run{place, false, 0};
            uint64_t bit = 1;
            for (int32_t storage : ops_.makes[place]) {
                const bool goes_too =
                    place == ops_.maker[drop.storage] && held_from(storage, drop.at, drop.reader) >= 0;
                if (!is_held(storage, drop.reader) || storage == drop.storage || goes_too) run.kept |= bit;
                bit <<= 1;
            }
            added.push_back(run);
        }
        runs.insert(runs.begin() + drop.reader, added.begin(), added.end());
        judge_.take_out_unread(runs);
    }
}

// Of what is held while a run runs that does not need it, the one whose dropping until its next reader frees the most,
// counted where there is too much, for the time that it takes.
RunsRepair::Drop RunsRepair::best_drop(int32_t at, const RandomStream& stream, uint64_t draw, double noise) {
    Drop best;
    const auto pieces = judge_.pieces();
    for (size_t number = 0; number < pieces.size(); ++number) {
        const Piece& piece = pieces[number];
        if (piece.begin >= at) break;
        if (piece.end <= at || !ops_.may_go[piece.storage] || ops_.bytes[piece.storage] == 0) continue;
        const auto index = static_cast<int32_t>(number);
        const int32_t from = judge_.reader_before(index, at + 1), to = judge_.reader_after(index, at);
        if (from == at || to < 0 || !find_chain(piece.storage, to)) continue;
        auto freed = double(too_much_between(from + 1, to, ops_.bytes[piece.storage]));
        // What the same op makes can go too, at no cost.
        for (int32_t other : ops_.makes[ops_.maker[piece.storage]]) {
            const int32_t held = other == piece.storage ? -1 : held_from(other, at, to);
            if (held >= 0) freed += double(too_much_between(held + 1, to, ops_.bytes[other]));
        }
        double score = freed / double(chain_ns_ + 1);
        if (noise > 0) score *= std::exp(noise * (2 * uniform(stream.bits(draw + number)) - 1));
        if (score > best.score) best = {score, piece.storage, to, at};
    }
    return best;
}

// The last run that needs something before `at`, where nobody needs it from then until a later run; -1 where it is not
// held, or may not go.
int32_t RunsRepair::held_from(int32_t storage, int32_t at, int32_t until) const {
    if (!ops_.may_go[storage] || ops_.bytes[storage] == 0) return -1;
    int32_t piece = judge_.latest_piece(storage);
    while (piece >= 0 && judge_.pieces()[piece].begin >= at) piece = judge_.pieces()[piece].before;
    if (piece < 0 || judge_.pieces()[piece].end < until) return -1;
    const int32_t from = judge_.reader_before(piece, at + 1), next = judge_.reader_after(piece, at);
    return from == at || next < until ? -1 : from;
}

// Moves the later runs around one of them to before something was made that is held meanwhile, where that leaves less
// too much. Their own results are then held for longer.
bool RunsRepair::move_ahead(OpRuns& runs, int32_t at) {
    if (runs[at].is_first) return false;
    int32_t begin = at, end = at + 1;
    while (begin > 0 && !runs[begin - 1].is_first) --begin;
    while (end < static_cast<int32_t>(runs.size()) && !runs[end].is_first) ++end;
    // Not before another run of one of these ops.
    int32_t least = 0;
    for (int32_t other = 0; other < begin; ++other)
        for (int32_t own = begin; own < end; ++own)
            if (runs[other].place == runs[own].place) least = other + 1;
    std::vector<int32_t> places;
    for (const Piece& piece : judge_.pieces())
        if (piece.begin >= least && piece.begin < begin && piece.end > at) places.push_back(piece.begin);
    const auto too_much = over_sum_.back();
    for (size_t back = places.size(); back-- > 0;) {
        OpRuns moved = runs;
        std::rotate(moved.begin() + places[back], moved.begin() + begin, moved.begin() + end);
        look(moved);
        if (over_sum_.back() >= too_much) continue;
        runs = std::move(moved);
        return true;
    }
    return false;
}

// The ops that make something again before a run, in order; what they read and is no longer there is made again, or
// held where that fits.
bool RunsRepair::find_chain(int32_t storage, int32_t before) {
    chain_.clear();
    chain_ns_ = 0;
    chain_depth_ = 0;
    return add_to_chain(storage, before);
}

bool RunsRepair::add_to_chain(int32_t storage, int32_t before) {
    const int32_t place = ops_.maker[storage];
    if (std::ranges::find(chain_, place) != chain_.end()) return true;
    if (!ops_.may_run_again(place, next_first_[before])) return false;
    if (++chain_depth_ + static_cast<int32_t>(chain_.size()) > kLongestChain) return false;
    for (int32_t read : ops_.reads[place]) {
        if (ops_.stays[read] || is_held(read, before)) continue;
        const bool can_go = ops_.may_go[read] && ops_.may_run_again(ops_.maker[read], next_first_[before]);
        if (can_go && !would_fit(read, before) && !add_to_chain(read, before)) return false;
    }
    --chain_depth_;
    chain_.push_back(place);
    chain_ns_ += ops_.time_ns[place];
    return true;
}

int64_t RunsRepair::too_much_between(int32_t from, int32_t to, int64_t bytes) const {
    const auto first = std::ranges::lower_bound(over_, from) - over_.begin();
    const auto last = std::ranges::lower_bound(over_, to) - over_.begin();
    return std::min(over_sum_[last] - over_sum_[first], bytes * int64_t(last - first));
}

// Whether the piece that a run at that place would read is held until then anyway.
bool RunsRepair::is_held(int32_t storage, int32_t at) const {
    int32_t piece = judge_.latest_piece(storage);
    while (piece >= 0 && judge_.pieces()[piece].begin >= at) piece = judge_.pieces()[piece].before;
    return piece >= 0 && judge_.pieces()[piece].end >= at;
}

// Whether it can be held until then.
bool RunsRepair::would_fit(int32_t storage, int32_t before) const {
    int32_t piece = judge_.latest_piece(storage);
    while (judge_.pieces()[piece].begin >= before) piece = judge_.pieces()[piece].before;
    const auto level = judge_.level();
    for (int32_t at = judge_.pieces()[piece].end + 1; at < before; ++at)
        if (level[at] + ops_.bytes[storage] > ops_.limit) return false;
    return true;
}

}  // namespace placewright
