#include "exact_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "random.hpp"

namespace placewright {

namespace {

constexpr size_t kDeadEnds = size_t{1} << 20;  // remembered at a time, 16 bytes each
constexpr size_t kWays = 4;                    // places where one may stand

}  // namespace

ExactOrder::ExactOrder(std::shared_ptr<const Problem> problem, std::vector<int32_t> start)
    : problem_(std::move(problem)),
      uses_(*problem_),
      missing_(problem_->in_degree),
      best_(std::move(start)),
      place_in_ready_(size_t(problem_->num_ops)),
      users_left_(size_t(problem_->num_tensors)),
      rank_(size_t(problem_->num_ops)),
      key_of_(size_t(problem_->num_ops)),
      dead_ends_(kDeadEnds) {
    const Problem& p = *problem_;
    std::vector<uint8_t> read(p.resident_bytes.size());
    for (int32_t resident : p.residents.values)
        if (!std::exchange(read[resident], 1)) in_use_ += p.resident_bytes[resident];
    for (int32_t storage = 0; storage < p.num_tensors; ++storage)
        users_left_[storage] = static_cast<int32_t>(uses_.users[storage].size());
    for (int32_t place = 0; place < p.num_ops; ++place) rank_[best_[place]] = place;
    const RandomStream stream(0, 0, 0, 0);
    for (int32_t op = 0; op < p.num_ops; ++op)
        key_of_[op] = {stream.bits(2 * uint64_t(op)), stream.bits(2 * uint64_t(op) + 1)};
    path_.reserve(size_t(p.num_ops));
    frames_.reserve(size_t(p.num_ops) + 1);
    ready_.reserve(size_t(p.num_ops));
    for (int32_t op : p.sources) add_ready(op);
    // The start is run once for its peak.
    for (int32_t op : best_) run(op);
    best_peak_ = path_.empty() ? in_use_ : path_.back().peak;
    while (!path_.empty()) take_back();
}

void ExactOrder::advance(int64_t evaluations, int64_t at_most) {
    const int64_t pause = at_most < evaluations - evaluations_ ? evaluations_ + at_most : evaluations;
    if (evaluations_ == 0 && evaluations_ < pause) enter(-1);
    while (evaluations_ < pause && !frames_.empty()) {
        if (!path_.empty() && path_.back().peak >= best_peak_) {
            enter_anew();
            continue;
        }
        const int32_t op = next_candidate(frames_.back().tried);
        if (op >= 0) {
            frames_.back().tried = rank_[op];
            enter(op);
        } else {
            remember_dead_end();
            leave();
        }
    }
}

// Runs the op, where there is one, and what is free after it.
void ExactOrder::enter(int32_t op) {
    ++evaluations_;
    frames_.push_back({path_.size(), -1});
    if (op >= 0) run(op);
    run_what_is_free();
    if (std::ssize(path_) == problem_->num_ops) {
        std::ranges::transform(path_, best_.begin(), &Ran::op);
        best_peak_ = path_.back().peak;
    } else if (is_dead_end()) {
        leave();
    }
}

// A better order was found, and what ran here takes too much now. That may be only what was free then, so the same op
// is tried again.
void ExactOrder::enter_anew() {
    const int32_t op = path_[frames_.back().path_begin].op;
    leave();
    if (frames_.empty())
        enter(-1);
    else
        frames_.back().tried = rank_[op] - 1;
}

void ExactOrder::leave() {
    while (path_.size() > frames_.back().path_begin) take_back();
    frames_.pop_back();
}

// In the order of the start, after the one that was tried last; -1 where there is none.
int32_t ExactOrder::next_candidate(int32_t tried) const {
    int32_t next = -1;
    for (int32_t op : ready_)
        if (rank_[op] > tried && (next < 0 || rank_[op] < rank_[next]) && level_of(op) < best_peak_) next = op;
    return next;
}

void ExactOrder::run_what_is_free() {
    for (size_t place = 0; place < ready_.size();) {
        const int32_t op = ready_[place];
        if (level_of(op) < best_peak_ && freed_by(op) >= problem_->output_bytes[op]) {
            run(op);
            place = 0;
        } else {
            ++place;
        }
    }
}

int64_t ExactOrder::level_of(int32_t op) const {
    return in_use_ + problem_->output_bytes[op] + problem_->workspace_bytes[op];
}

// Of what no other op still uses, its own outputs included.
int64_t ExactOrder::freed_by(int32_t op) const {
    int64_t freed = 0;
    for (int32_t storage : uses_.used[op])
        if (users_left_[storage] == 1 && !problem_->kept[storage]) freed += problem_->home_bytes[storage];
    return freed;
}

void ExactOrder::add_ready(int32_t op) {
    place_in_ready_[op] = static_cast<int32_t>(ready_.size());
    ready_.push_back(op);
}

void ExactOrder::run(int32_t op) {
    const int64_t peak = std::max(path_.empty() ? int64_t{0} : path_.back().peak, level_of(op));
    in_use_ += problem_->output_bytes[op] - freed_by(op);
    for (int32_t storage : uses_.used[op]) --users_left_[storage];
    const int32_t place = place_in_ready_[op];
    path_.push_back({op, place, peak});
    place_in_ready_[ready_.back()] = place;
    ready_[place] = ready_.back();
    ready_.pop_back();
    for (int32_t edge : problem_->edges[op])
        if (--missing_[edge / 2] == 0) add_ready(edge / 2);
    for (size_t half : {0, 1}) key_[half] ^= key_of_[op][half];
}

void ExactOrder::take_back() {
    const auto [op, place, peak] = path_.back();
    path_.pop_back();
    for (int32_t edge : problem_->edges[op])
        if (missing_[edge / 2]++ == 0) ready_.pop_back();
    ready_.push_back(ready_.size() == size_t(place) ? op : ready_[place]);
    if (ready_[place] != op) {
        place_in_ready_[ready_.back()] = static_cast<int32_t>(ready_.size()) - 1;
        ready_[place] = op;
    }
    place_in_ready_[op] = place;
    for (int32_t storage : uses_.used[op]) ++users_left_[storage];
    in_use_ -= problem_->output_bytes[op] - freed_by(op);
    for (size_t half : {0, 1}) key_[half] ^= key_of_[op][half];
}

bool ExactOrder::is_dead_end() const {
    const size_t begin = key_[0] % (kDeadEnds / kWays) * kWays;
    return std::ranges::find(dead_ends_.begin() + std::ptrdiff_t(begin),
                             dead_ends_.begin() + std::ptrdiff_t(begin + kWays),
                             key_) != dead_ends_.begin() + std::ptrdiff_t(begin + kWays);
}

// In place of an older one, where none is free.
void ExactOrder::remember_dead_end() {
    const size_t begin = key_[0] % (kDeadEnds / kWays) * kWays;
    for (size_t way = kWays; --way > 0;) dead_ends_[begin + way] = dead_ends_[begin + way - 1];
    dead_ends_[begin] = key_;
}

}  // namespace placewright
