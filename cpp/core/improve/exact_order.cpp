#include "improve/exact_order.hpp"

#include <algorithm>
#include <utility>

#include "improve/pause.hpp"
#include "problem/delays.hpp"
#include "support/random.hpp"

namespace placewright {

namespace {

constexpr size_t kDeadEnds = size_t{1} << 20;  // remembered at a time, 16 bytes each
constexpr size_t kWays = 4;                    // entries in which one may be stored

Csr transposed(const Csr& rows) {
    std::vector<std::vector<int32_t>> columns(size_t(rows.num_rows()));
    for (int32_t row = 0; row < rows.num_rows(); ++row)
        for (int32_t column : rows[row]) columns[size_t(column)].push_back(row);
    return Csr::from_rows(columns);
}

}  // namespace

ExactOrder::ExactOrder(std::shared_ptr<const Problem> problem, std::vector<int32_t> start, int64_t least_bytes)
    : problem_(std::move(problem)),
      uses_(*problem_),
      bytes_(problem_->allocated_bytes),
      made_(size_t(problem_->num_ops)),
      waits_(size_t(problem_->num_ops)),
      rank_(size_t(problem_->num_ops)),
      key_of_(size_t(problem_->num_ops)),
      best_(std::move(start)),
      finished_(size_t(problem_->num_ops)),
      place_in_ready_(size_t(problem_->num_ops)),
      users_left_(size_t(problem_->num_tensors)),
      dead_ends_(kDeadEnds),
      found_(best_),
      left_to_run_(size_t(problem_->num_tensors)) {
    const Problem& p = *problem_;
    std::vector<uint8_t> read(p.resident_bytes.size());
    for (int32_t resident : p.residents.values)
        if (!std::exchange(read[resident], 1)) resident_bytes_ += p.resident_bytes[resident];
    for (int64_t& bytes : bytes_)
        if (bytes < least_bytes) bytes = 0;
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor) {
        made_[p.producer[tensor]] += bytes_[tensor];
        users_left_[tensor] = static_cast<int32_t>(uses_.users[tensor].size());
    }
    for (int32_t place = 0; place < p.num_ops; ++place) rank_[best_[place]] = place;
    const RandomStream stream(0, 0, 0, 0);
    for (int32_t op = 0; op < p.num_ops; ++op)
        key_of_[op] = {stream.bits(2 * uint64_t(op)), stream.bits(2 * uint64_t(op) + 1)};
    find_what_waits();
    missing_ = num_needed_;
    in_use_ = resident_bytes_;
    path_.reserve(size_t(p.num_ops));
    frames_.reserve(size_t(p.num_ops) + 1);
    ready_.reserve(size_t(p.num_ops));
    for (int32_t op = 0; op < p.num_ops; ++op)
        if (!waits_[op] && missing_[op] == 0) add_ready(op);
    best_peak_ = peak_of(best_, p.allocated_bytes);
    below_ = peak_of(best_, bytes_);
}

// Returns whether it costs nothing to run an op together with the first op that follows it: until then its inputs are
// held longer, but its results, which take no less, are not held; and while it runs, no more is in use than while the
// follower runs.
bool ExactOrder::may_wait(int32_t op, const Csr& before, const Csr& after) const {
    int64_t read = 0, held = 0;
    for (int32_t storage : uses_.used[op]) {
        const bool is_own = problem_->producer[storage] == op, kept = problem_->live_out[storage];
        if (!is_own && !kept) read += bytes_[storage];
        if (is_own && (kept || uses_.users[storage].size() > 1)) held += bytes_[storage];
    }
    const int64_t passing = made_[op] - held + problem_->workspace_bytes[op];
    if (after[op].size() == 1) {
        const int32_t next = after[op][0];
        return held >= read && made_[next] + problem_->workspace_bytes[next] >= read + passing;
    }
    // An op with several followers may wait only if nothing it waits for does, so that few ops run with another.
    return !after[op].empty() && read == 0 && passing == 0 &&
           std::ranges::none_of(before[op], [&](int32_t other) { return waits_[other]; });
}

void ExactOrder::find_what_waits() {
    const Csr before = Delays(*problem_).before, after = transposed(before);
    const int32_t num_ops = problem_->num_ops;
    for (int32_t op = 0; op < num_ops; ++op) waits_[op] = may_wait(op, before, after);
    std::vector<std::vector<int32_t>> waiting(num_ops), needs(num_ops);
    std::vector<int32_t> seen(num_ops, -1);
    const auto visit = [&](auto& self, int32_t op, int32_t reader) -> void {
        for (int32_t other : before[op]) {
            if (std::exchange(seen[other], reader) == reader) continue;
            if (!waits_[other]) {
                needs[reader].push_back(other);
                continue;
            }
            self(self, other, reader);
            waiting[reader].push_back(other);
        }
    };
    for (int32_t op = 0; op < num_ops; ++op)
        if (!waits_[op]) visit(visit, op, op);
    waiting_ = Csr::from_rows(waiting);
    const Csr needed = Csr::from_rows(needs);
    needed_by_ = transposed(needed);
    for (int32_t op = 0; op < num_ops; ++op) num_needed_.push_back(static_cast<int32_t>(needed[op].size()));
}

Solution ExactOrder::best() const {
    Solution best{std::vector<int32_t>(size_t(problem_->num_ops)), {}};
    for (int32_t op : best_) best.order.push_back(Step::op(op));
    return best;
}

void ExactOrder::advance(int64_t evaluations, int64_t at_most) {
    const int64_t pause = pause_at(evaluations_, evaluations, at_most);
    if (evaluations_ == 0 && evaluations_ < pause) enter(-1);
    while (evaluations_ < pause && !frames_.empty()) {
        if (!path_.empty() && path_.back().peak >= below_) {
            enter_anew();
            continue;
        }
        const int32_t op = next_candidate();
        if (op >= 0) {
            frames_.back().tried = rank_[op];
            enter(op);
        } else {
            remember_dead_end();
            leave();
        }
    }
}

// Runs the op, if there is one, and then every op that is free.
void ExactOrder::enter(int32_t op) {
    frames_.push_back({path_.size(), op, -1});
    if (op >= 0 && !run(op)) return leave();
    ++evaluations_;
    run_what_is_free();
    if (std::ssize(path_) == problem_->num_ops)
        complete();
    else if (is_dead_end())
        leave();
}

// Leaves the last frame after a better order was found, because what ran there now takes too much. Perhaps only the ops
// that were free do, so the same op is tried again.
void ExactOrder::enter_anew() {
    const int32_t op = frames_.back().op;
    leave();
    if (op < 0)
        enter(op);
    else
        frames_.back().tried = rank_[op] - 1;
}

void ExactOrder::leave() {
    take_back(frames_.back().path_begin);
    frames_.pop_back();
}

// Returns the next ready op in the order of the start after the one that was tried last; -1 if there is none.
int32_t ExactOrder::next_candidate() const {
    int32_t next = -1;
    for (int32_t op : ready_)
        if (rank_[op] > frames_.back().tried && (next < 0 || rank_[op] < rank_[next])) next = op;
    return next;
}

// By the search's count this is the best order so far; by true sizes it may not be, if some count as 0.
void ExactOrder::complete() {
    below_ = path_.back().peak;
    std::ranges::transform(path_, found_.begin(), &Ran::op);
    const int64_t peak = peak_of(found_, problem_->allocated_bytes);
    if (peak >= best_peak_) return;
    best_peak_ = peak;
    std::swap(best_, found_);
}

void ExactOrder::run_what_is_free() {
    for (size_t place = 0; place < ready_.size();) place = is_free(ready_[place]) ? 0 : place + 1;
}

// Runs the op and returns true if it stays below the bound and leaves no more in use than before.
bool ExactOrder::is_free(int32_t op) {
    const size_t length = path_.size();
    const int64_t in_use = in_use_;
    if (run(op) && in_use_ <= in_use) return true;
    take_back(length);
    return false;
}

// Runs the op after the ops that wait for it. Returns whether the peak stays below the bound; if not, some of them may
// have run.
bool ExactOrder::run(int32_t op) {
    for (int32_t other : waiting_[op]) {
        if (finished_[other]) continue;
        if (level_of(other) >= below_) return false;
        run_alone(other);
    }
    if (level_of(op) >= below_) return false;
    run_alone(op);
    return true;
}

void ExactOrder::run_alone(int32_t op) {
    const int64_t peak = std::max(path_.empty() ? int64_t{0} : path_.back().peak, level_of(op));
    path_.push_back({op, waits_[op] ? -1 : place_in_ready_[op], peak});
    finished_[op] = 1;
    in_use_ += made_[op] - freed_by(op);
    for (int32_t storage : uses_.used[op]) --users_left_[storage];
    for (size_t half : {0, 1}) key_[half] ^= key_of_[op][half];
    if (waits_[op]) return;
    const int32_t place = place_in_ready_[op];
    place_in_ready_[ready_.back()] = place;
    ready_[place] = ready_.back();
    ready_.pop_back();
    for (int32_t other : needed_by_[op])
        if (--missing_[other] == 0) add_ready(other);
}

// Takes back ops until the path has this length.
void ExactOrder::take_back(size_t length) {
    while (path_.size() > length) {
        const auto [op, place, peak] = path_.back();
        path_.pop_back();
        finished_[op] = 0;
        for (int32_t storage : uses_.used[op]) ++users_left_[storage];
        in_use_ -= made_[op] - freed_by(op);
        for (size_t half : {0, 1}) key_[half] ^= key_of_[op][half];
        if (place < 0) continue;
        for (int32_t other : needed_by_[op])
            if (missing_[other]++ == 0) ready_.pop_back();
        add_ready(op);
        std::swap(ready_[place], ready_.back());
        place_in_ready_[ready_.back()] = static_cast<int32_t>(ready_.size()) - 1;
        place_in_ready_[op] = place;
    }
}

int64_t ExactOrder::level_of(int32_t op) const { return in_use_ + made_[op] + problem_->workspace_bytes[op]; }

// Returns the bytes of what no other op still uses, its own outputs included.
int64_t ExactOrder::freed_by(int32_t op) const {
    int64_t freed = 0;
    for (int32_t storage : uses_.used[op])
        if (users_left_[storage] == 1 && !problem_->live_out[storage]) freed += bytes_[storage];
    return freed;
}

void ExactOrder::add_ready(int32_t op) {
    place_in_ready_[op] = static_cast<int32_t>(ready_.size());
    ready_.push_back(op);
}

// bytes: [storage]
int64_t ExactOrder::peak_of(std::span<const int32_t> ops, std::span<const int64_t> bytes) {
    for (size_t storage = 0; storage < bytes.size(); ++storage)
        left_to_run_[storage] = static_cast<int32_t>(uses_.users[int32_t(storage)].size());
    int64_t in_use = resident_bytes_, peak = 0;
    for (int32_t op : ops) {
        for (int32_t tensor = problem_->output_begin[op]; tensor < problem_->output_begin[op + 1]; ++tensor)
            in_use += bytes[tensor];
        peak = std::max(peak, in_use + problem_->workspace_bytes[op]);
        for (int32_t storage : uses_.used[op])
            if (--left_to_run_[storage] == 0 && !problem_->live_out[storage]) in_use -= bytes[storage];
    }
    return peak;
}

bool ExactOrder::is_dead_end() const {
    const auto first = dead_ends_.begin() + std::ptrdiff_t(key_[0] % (kDeadEnds / kWays) * kWays);
    return std::find(first, first + kWays, key_) != first + kWays;
}

// Replaces the oldest of the entries in which the key may be stored.
void ExactOrder::remember_dead_end() {
    const auto first = dead_ends_.begin() + std::ptrdiff_t(key_[0] % (kDeadEnds / kWays) * kWays);
    std::copy_backward(first, first + kWays - 1, first + kWays);
    *first = key_;
}

}  // namespace placewright
