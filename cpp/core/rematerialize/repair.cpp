#include "rematerialize/repair.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

namespace placewright {

namespace {

constexpr int32_t kMostTakenOut = 12;  // later runs removed at once
constexpr int32_t kLongestChain = 64;  // ops that run again to make one storage
constexpr uint32_t kRetimed = 3;       // one in this many changes retimes the moves
constexpr int32_t kFarthest = 40;      // places by which a run is moved at most
constexpr int32_t kInVain = 40;        // rounds without less excess after which a repair fails
constexpr int32_t kMostPutIn = 400;    // chains inserted in one repair
constexpr double kMoveShare = 0.01;    // share of a move's time that it costs if nothing waits for it

}  // namespace

void RunsRepair::look(const OpRuns& runs, bool waits) {
    judge_.look(runs);
    if (ops_.has_host()) judge_.time(runs, waits);
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
    auto chosen = static_cast<int32_t>(stream.below(0, static_cast<uint32_t>(later.size())));
    const bool is_move = !ops_.is_op(runs[later[chosen]].place);
    if (stream.below(1, is_move ? 2 : 6) == 0) {
        put_elsewhere(runs, later[chosen], stream);
        if (ops_.has_host()) judge_.take_out_unread(runs);
        return;
    }
    if (ops_.has_host() && stream.below(5, kRetimed) == 0) {
        retime(runs);
        if (stream.below(6, 2) == 0) return;
        later.clear();
        for (size_t at = 0; at < runs.size(); ++at)
            if (!runs[at].is_first) later.push_back(static_cast<int32_t>(at));
        if (later.empty()) return;
        chosen %= static_cast<int32_t>(later.size());
    }
    // Removes neighbours in time, with gaps.
    const auto count = 1 + static_cast<int32_t>(stream.below(3, kMostTakenOut));
    std::vector<uint8_t> out(runs.size(), 0);
    const uint32_t every = 1 + stream.below(4, 3);
    for (int32_t each = 0, place = chosen; each < count && place < static_cast<int32_t>(later.size()); ++place)
        if (stream.below(uint64_t(8 + place - chosen), every) == 0) out[later[place]] = 1, ++each;
    size_t at = 0;
    std::erase_if(runs, [&](const OpRun&) { return out[at++] != 0; });
    judge_.take_out_unread(runs);
}

void RunsRepair::retime(OpRuns& runs) {
    look(runs, false);
    const auto begins = judge_.begins(), ends = judge_.ends();
    const auto num_runs = static_cast<int32_t>(runs.size());
    const auto first_from = [&](int64_t moment) {
        return static_cast<int32_t>(std::lower_bound(begins.begin(), begins.end(), moment) - begins.begin());
    };
    std::vector<int32_t> at(num_runs);  // the run before which each is put
    for (int32_t run = 0; run < num_runs; ++run) at[run] = run;
    // Goes backwards, since what is read later comes back later.
    std::vector<std::pair<int32_t, int32_t>> returns;  // the first run that reads it, and the return
    for (size_t number = 0; number < judge_.pieces().size(); ++number) {
        const int32_t run = judge_.pieces()[number].begin;
        if (!ops_.is_back(runs[run].place)) continue;
        const int32_t reader = judge_.reader_after(static_cast<int32_t>(number), run);
        if (reader >= 0) returns.emplace_back(reader, run);
    }
    std::ranges::sort(returns, std::greater{});
    int64_t free_until = INT64_MAX;
    for (const auto& [reader, run] : returns) {
        const int32_t storage = ops_.moved_storage(runs[run].place);
        free_until = std::min(free_until, begins[reader]) - ops_.back_ns[storage];
        const auto in_time =
            std::upper_bound(ends.begin(), ends.begin() + reader, free_until - ops_.host.latency_there_ns) -
            ends.begin();
        at[run] = std::max({judge_.leaves_at(storage) + 1, ops_.host.num_weights, static_cast<int32_t>(in_time)});
    }
    for (int32_t run = 0; run < num_runs; ++run) {
        if (!ops_.is_leave(runs[run].place)) continue;
        const int32_t storage = ops_.moved_storage(runs[run].place);
        int32_t most = num_runs;
        for (const auto& each : returns)
            if (ops_.moved_storage(runs[each.second].place) == storage) most = std::min(most, at[each.second]);
        at[run] = std::min(most, first_from(judge_.arrival(storage) + ops_.host.latency_back_ns));
    }
    std::vector<int32_t> in_turn(num_runs);
    for (int32_t run = 0; run < num_runs; ++run) in_turn[run] = run;
    // A move goes before the run before which it is put.
    std::ranges::stable_sort(in_turn, {}, [&](int32_t run) {
        const bool is_op = ops_.is_op(runs[run].place);
        return std::tuple(at[run], is_op ? 2 : ops_.is_back(runs[run].place) ? 1 : 0);
    });
    OpRuns retimed;
    retimed.reserve(runs.size());
    for (int32_t run : in_turn) retimed.push_back(runs[run]);
    runs = std::move(retimed);
    judge_.take_out_unread(runs);
}

void RunsRepair::put_elsewhere(OpRuns& runs, int32_t at, const RandomStream& stream) const {
    const int32_t own = runs[at].place;
    int32_t least = at, most = at;
    while (least > 0 && runs[least - 1].place != own && at - least < kFarthest) --least;
    // A move that is put before what it needs is removed later. Only a move may go later: an op runs again for what
    // comes next.
    while (!ops_.is_op(own) && most + 1 < static_cast<int32_t>(runs.size()) && most - at < kFarthest) ++most;
    const auto to = least + static_cast<int32_t>(stream.below(2, static_cast<uint32_t>(most - least + 1)));
    if (to <= at)
        std::rotate(runs.begin() + to, runs.begin() + at, runs.begin() + at + 1);
    else
        std::rotate(runs.begin() + at, runs.begin() + at + 1, runs.begin() + to + 1);
}

bool RunsRepair::repair(OpRuns& runs, const RandomStream& stream, double noise, int64_t longest_ns, bool may_wait,
                        bool moves_first) {
    int64_t time_ns = 0, least_over = INT64_MAX;
    int32_t least_at = 0;
    for (const OpRun& run : runs) time_ns += ops_.time_ns[run.place];
    for (int32_t round = 0;; ++round) {
        look(runs, may_wait);
        if (over_.empty()) return true;
        if (round == std::max(kMostPutIn, ops_.num_ops() / 4) + ops_.host.num_weights ||
            (ops_.has_host() && judge_.ends().back() >= longest_ns))
            return false;
        if (over_sum_.back() < least_over) least_over = over_sum_.back(), least_at = round;
        if (round - least_at >= kInVain) return false;
        const auto level = judge_.level();
        const int32_t worst = *std::ranges::max_element(over_, {}, [&](int32_t at) { return level[at]; });
        Drop drop = best_drop(worst, stream, uint64_t(round + 1) << 20, noise, may_wait, moves_first);
        if (drop.storage < 0 && !may_wait && ops_.has_host()) {
            may_wait = true;
            drop = best_drop(worst, stream, uint64_t(round + 1) << 20, noise, may_wait, moves_first);
        }
        if (drop.storage < 0) {
            if (!move_ahead(runs, worst)) return false;
            continue;
        }
        if (drop.is_move) {
            put_in_move(runs, drop);
            judge_.take_out_unread(runs);
            if (!may_wait) retime(runs);
            continue;
        }
        if (!find_chain(drop.storage, drop.reader)) return false;
        time_ns += chain_ns_;
        if (time_ns >= longest_ns) return false;
        OpRuns added;
        for (int32_t place : chain_) {
            // Keeps what the chain is for and what it needs itself; other results only if they are missing, and never
            // what is overwritten in place, because a rerun does not give that state.
            OpRun run{place, false, 0};
            uint64_t bit = 1;
            for (int32_t storage : ops_.makes[place]) {
                const bool goes_too =
                    place == ops_.maker[drop.storage] && held_from(storage, drop.at, drop.reader) >= 0;
                const bool is_missing = ops_.may_go[storage] && !is_held(storage, drop.reader);
                if (is_missing || storage == drop.storage || goes_too) run.kept |= bit;
                bit <<= 1;
            }
            added.push_back(run);
        }
        std::vector<std::pair<int32_t, int32_t>> returns;
        for (int32_t storage : fetched_)
            returns.emplace_back(return_for(storage, judge_.leaves_at(storage), drop.reader).first, storage);
        std::ranges::sort(returns, std::greater{});
        runs.insert(runs.begin() + drop.reader, added.begin(), added.end());
        for (const auto& [at, storage] : returns)
            runs.insert(runs.begin() + at, OpRun{ops_.back_place(storage), false, 1});
        judge_.take_out_unread(runs);
        if (!returns.empty() && !may_wait) retime(runs);
    }
}

// Returns the best piece to drop among those held during a run that does not need them: dropped until its next reader,
// it frees the most excess bytes for the time that it costs.
RunsRepair::Drop RunsRepair::best_drop(int32_t at, const RandomStream& stream, uint64_t draw, double noise,
                                       bool may_wait, bool moves_first) {
    Drop best;
    const auto pieces = judge_.pieces();
    for (size_t number = 0; number < pieces.size(); ++number) {
        const Piece& piece = pieces[number];
        if (piece.begin >= at) break;
        const bool may_move = ops_.may_move(piece.storage);
        const bool is_resident = ops_.is_weight(piece.storage) && judge_.leaves_at(piece.storage) < 0;
        if ((piece.end <= at && !is_resident) || !(ops_.may_go[piece.storage] || may_move) ||
            ops_.bytes[piece.storage] == 0)
            continue;
        const auto index = static_cast<int32_t>(number);
        const int32_t from = judge_.reader_before(index, at + 1), to = judge_.reader_after(index, at);
        if (from == at || (to < 0 && !is_resident)) continue;
        if (may_move) {
            Drop move = is_resident ? streaming_of(index, at, to) : move_of(index, from, at, to);
            if (noise > 0) move.score *= std::exp(noise * (2 * uniform(stream.bits(~(draw + number))) - 1));
            const bool is_better = move.score > best.score || (moves_first && move.score > 0 && !best.is_move);
            if (is_better && (may_wait || !move.waits)) best = move;
        }
        if (moves_first && best.is_move) continue;
        if (!ops_.may_go[piece.storage]) continue;
        auto freed = double(too_much_between(from + 1, to, ops_.bytes[piece.storage]));
        // Other results of the same op can go too, at no cost.
        for (int32_t other : ops_.makes[ops_.maker[piece.storage]]) {
            const int32_t held = other == piece.storage ? -1 : held_from(other, at, to);
            if (held >= 0) freed += double(too_much_between(held + 1, to, ops_.bytes[other]));
        }
        const double factor = noise > 0 ? std::exp(noise * (2 * uniform(stream.bits(draw + number)) - 1)) : 1;
        // A chain takes no less than its last op.
        const double most = freed / double(ops_.time_ns[ops_.maker[piece.storage]] + 1) * factor;
        if (most <= best.score || !find_chain(piece.storage, to)) continue;
        const double score = freed / double(chain_ns_ + 1) * factor;
        if (score > best.score) best = {score, piece.storage, to, at};
    }
    return best;
}

// Plans to move a piece, read by the run `from` and not again before the run `to`, so that it is away at the run `at`.
// It leaves as soon as it is expected in the host's memory, and comes back when that is expected to be early enough.
RunsRepair::Drop RunsRepair::move_of(int32_t number, int32_t from, int32_t at, int32_t to) const {
    const Piece& piece = judge_.pieces()[number];
    const int32_t storage = piece.storage, left = judge_.leaves_at(storage);
    const auto begins = judge_.begins(), ends = judge_.ends();
    Drop drop{0, storage, to, at, true, -1, at, 0};
    int32_t away = from + 1;
    if (left < 0 || left > from) {
        // Only what the first run made is moved there.
        if (piece.before >= 0) return drop;
        if (left < 0 && judge_.host_bytes_with(ops_.bytes[storage]) > ops_.host.limit) return drop;
        const int64_t made = ends[piece.begin], takes = ops_.there_ns[storage];
        int64_t arrives = judge_.arrival(storage);
        if (left < 0) {
            const auto& queue = judge_.there();
            const auto behind = std::ranges::lower_bound(queue.begin, made) - queue.begin.begin();
            arrives = std::max(made, behind == 0 ? 0 : queue.end[behind - 1]) + takes;
            drop.cost_ns = double(std::max<int64_t>(0, takes - queue.idle(made, begins[at])));
            drop.cost_ns += kMoveShare * double(takes);
        }
        arrives += ops_.host.latency_back_ns;
        away = static_cast<int32_t>(std::lower_bound(begins.begin() + away, begins.begin() + at, arrives) -
                                    begins.begin());
        drop.cost_ns += double(std::max<int64_t>(0, arrives - begins[away]));
        drop.leave = away;
    }
    const auto [back, waits_ns] = return_for(storage, at, to);
    drop.back = back;
    drop.cost_ns += double(waits_ns) + kMoveShare * double(ops_.back_ns[storage]);
    drop.waits = drop.cost_ns >= kMoveShare * double(ops_.there_ns[storage] + ops_.back_ns[storage]) + 1;
    drop.score = double(too_much_between(away, drop.back, ops_.bytes[storage])) / (drop.cost_ns + 1);
    return drop;
}

RunsRepair::Drop RunsRepair::streaming_of(int32_t number, int32_t at, int32_t to) const {
    const Piece& piece = judge_.pieces()[number];
    const int32_t storage = piece.storage;
    const auto num_runs = static_cast<int32_t>(judge_.begins().size());
    const int32_t first = judge_.reader_after(number, piece.begin), last = judge_.reader_before(number, num_runs);
    Drop drop{0, storage, to, at, true, -1, -1, 0};
    if (first < 0 || judge_.host_bytes_with(ops_.bytes[storage]) > ops_.host.limit) return drop;
    const auto [come, waits_ns] = return_for(storage, at < first ? at : ops_.host.num_weights - 1, first);
    drop.back = come;
    drop.cost_ns = double(waits_ns) + kMoveShare * double(ops_.back_ns[storage]);
    drop.waits = waits_ns > 0;
    int64_t freed =
        too_much_between(0, come, ops_.bytes[storage]) + too_much_between(last + 1, num_runs, ops_.bytes[storage]);
    if (first < at && at < last) {
        const auto [again, waits_again_ns] = return_for(storage, at, to);
        drop.leave = std::exchange(drop.back, again);
        drop.cost_ns += double(waits_again_ns) + kMoveShare * double(ops_.back_ns[storage]);
        drop.waits |= waits_again_ns > 0;
        freed += too_much_between(judge_.reader_before(number, at) + 1, again, ops_.bytes[storage]);
    }
    drop.score = double(freed) / (drop.cost_ns + 1);
    return drop;
}

std::pair<int32_t, int64_t> RunsRepair::return_for(int32_t storage, int32_t at, int32_t to) const {
    const auto begins = judge_.begins(), ends = judge_.ends();
    const int64_t needs = ops_.back_ns[storage] + ops_.host.latency_there_ns;
    int32_t last = at, beyond = to;
    while (last + 1 < beyond) {
        const int32_t middle = (last + beyond) / 2;
        (judge_.back().idle(ends[middle], begins[to]) >= needs ? last : beyond) = middle;
    }
    return {last + 1, std::max<int64_t>(0, needs - judge_.back().idle(ends[last], begins[to]))};
}

// Returns whether it is in the host's memory, and not on the device, when a run begins.
bool RunsRepair::has_left(int32_t storage, int32_t before) const {
    return ops_.may_move(storage) && judge_.leaves_at(storage) >= 0 && judge_.leaves_at(storage) < before;
}

void RunsRepair::put_in_move(OpRuns& runs, const Drop& drop) const {
    runs.insert(runs.begin() + drop.back, OpRun{ops_.back_place(drop.storage), false, 1});
    const bool is_weight = ops_.is_weight(drop.storage);
    const int32_t place = is_weight ? ops_.back_place(drop.storage) : ops_.leave_place(drop.storage);
    if (drop.leave >= 0) runs.insert(runs.begin() + drop.leave, OpRun{place, false, is_weight});
}

// Returns the last run before `at` that needs something, if nothing needs it from then until `until`; -1 otherwise, or
// if it is not held or may not be dropped.
int32_t RunsRepair::held_from(int32_t storage, int32_t at, int32_t until) const {
    if (!ops_.may_go[storage] || ops_.bytes[storage] == 0) return -1;
    int32_t piece = judge_.latest_piece(storage);
    while (piece >= 0 && judge_.pieces()[piece].begin >= at) piece = judge_.pieces()[piece].before;
    if (piece < 0 || judge_.pieces()[piece].end < until) return -1;
    const int32_t from = judge_.reader_before(piece, at + 1), next = judge_.reader_after(piece, at);
    return from == at || next < until ? -1 : from;
}

// Moves the later runs around `at` before the run that made something held meanwhile, if that leaves less excess. Their
// own results are then held longer.
bool RunsRepair::move_ahead(OpRuns& runs, int32_t at) {
    const auto is_again = [&](int32_t run) { return !runs[run].is_first && ops_.is_op(runs[run].place); };
    if (!is_again(at)) return false;
    int32_t begin = at, end = at + 1;
    while (begin > 0 && is_again(begin - 1)) --begin;
    while (end < static_cast<int32_t>(runs.size()) && is_again(end)) ++end;
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

// Finds the ops that make something again before a run, in order. What they read and is no longer there is fetched from
// the host, made again, or held where that fits.
bool RunsRepair::find_chain(int32_t storage, int32_t before) {
    chain_.clear();
    fetched_.clear();
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
        if ((ops_.stays[read] && !has_left(read, before)) || is_held(read, before)) continue;
        if (ops_.has_host() && has_left(read, before)) {
            if (std::ranges::find(fetched_, read) != fetched_.end()) continue;
            fetched_.push_back(read);
            chain_ns_ += return_for(read, judge_.leaves_at(read), before).second +
                         int64_t(kMoveShare * double(ops_.back_ns[read]));
            continue;
        }
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

// Returns whether the piece that a run at that place would read is held until then anyway.
bool RunsRepair::is_held(int32_t storage, int32_t at) const {
    int32_t piece = judge_.latest_piece(storage);
    while (piece >= 0 && judge_.pieces()[piece].begin >= at) piece = judge_.pieces()[piece].before;
    return piece >= 0 && judge_.pieces()[piece].end >= at;
}

// Returns whether it can be held until then.
bool RunsRepair::would_fit(int32_t storage, int32_t before) const {
    int32_t piece = judge_.latest_piece(storage);
    while (judge_.pieces()[piece].begin >= before) piece = judge_.pieces()[piece].before;
    const auto level = judge_.level();
    for (int32_t at = judge_.pieces()[piece].end + 1; at < before; ++at)
        if (level[at] + ops_.bytes[storage] > ops_.limit) return false;
    return true;
}

}  // namespace placewright
