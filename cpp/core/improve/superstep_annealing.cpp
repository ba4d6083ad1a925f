#include "improve/superstep_annealing.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "improve/pause.hpp"

namespace placewright {

namespace {

enum Purpose : uint64_t { kMove = 1, kRepack = 2 };

constexpr int64_t kStarts = 2;

// Temperatures relative to the mean time of an op, tuned on synthetic training graphs. Choices are local, so the same
// ones suit small and large graphs.
constexpr double kFirstTemperature = 0.3;
constexpr double kReheatedTemperature = 0.06;
constexpr double kLastTemperature = 0.002;

// Moves of the first round: the least number, and the number per op.
constexpr int64_t kFirstRound = 5000;
constexpr int64_t kFirstRoundPerOp = 32;

// Moves per op between two repackings.
constexpr int64_t kMovesBeforeRepacking = 8;

// Of 256 moves to a place that has ops, this many are tried as exchanges.
constexpr uint64_t kExchanges = 240;

// A draw without a choice, because only its own place is open to the op, is not scored but repeated.
constexpr int kDrawsPerMove = 8;

// Scales `bits`, which are below 2^32, to [0, bound).
int32_t scaled(uint64_t bits, int32_t bound) { return static_cast<int32_t>(bits * uint64_t(bound) >> 32); }

double mean_time_ns(const Problem& p) {
    double total = 0;
    for (int64_t time : p.op_time_ns) total += double(time);
    return total / double(p.op_time_ns.size());
}

Csr groups_of(const Problem& p) {
    std::vector<std::vector<int32_t>> groups(size_t(p.num_ops));
    for (int32_t op = 0; op < p.num_ops; ++op) groups[size_t(p.group[op])].push_back(op);
    return Csr::from_rows(groups);
}

}  // namespace

BestPlaces::BestPlaces(const Problem& problem) { changes_.reserve(std::max<size_t>(1024, size_t(problem.num_ops))); }

void BestPlaces::restart(const Supersteps& state) {
    places_ = state.places();
    changes_.clear();
    num_leading_ = 0;
    tracked_ = true;
    value_ = state.value();
}

void BestPlaces::record(int32_t op, Place to) {
    if (!tracked_) return;
    if (changes_.size() < changes_.capacity()) return changes_.push_back({op, to});
    places();
    tracked_ = false;
}

void BestPlaces::compare(const Supersteps& state) {
    if (state.value() >= value_) return;
    if (!tracked_) return restart(state);
    value_ = state.value();
    num_leading_ = changes_.size();
}

const std::vector<Place>& BestPlaces::places() {
    const auto end = changes_.begin() + std::ptrdiff_t(num_leading_);
    for (auto change = changes_.begin(); change != end; ++change) places_[change->op] = change->to;
    changes_.erase(changes_.begin(), end);
    num_leading_ = 0;
    return places_;
}

SuperstepAnnealing::SuperstepAnnealing(std::shared_ptr<const Problem> problem, int64_t evaluations, uint64_t seed)
    : problem_(std::move(problem)),
      planned_evaluations_(evaluations),
      seed_(seed),
      stream_(seed, 0, 0, kMove),
      groups_(groups_of(*problem_)),
      least_(*problem_),
      mean_time_ns_(mean_time_ns(*problem_)),
      simulation_(*problem_) {
    moved_.reserve(size_t(problem_->num_ops));
    if (evaluations < 1) throw std::invalid_argument("evaluations must be at least 1");
    if (!has_free_barriers(*problem_))
        throw std::invalid_argument("supersteps need the step time as objective and blocking transfers without cost");
    for (size_t i = 0; i < kThresholds; ++i) thresholds_[i] = -std::log((double(i) + 0.5) / kThresholds);
}

void SuperstepAnnealing::advance(int64_t evaluations, int64_t at_most) {
    const int64_t pause = pause_at(evaluations_, evaluations, at_most);
    for (; evaluations_ < std::min(kStarts, pause); ++evaluations_) start();
    while (evaluations_ < pause) {
        if (evaluations_ >= round_end_) begin_round();
        if (evaluations_ >= next_repack_) repack();
        const int64_t until = std::min({pause, round_end_, next_repack_});
        for (; evaluations_ < until; ++evaluations_) try_move();
    }
    if (evaluations_ >= planned_evaluations_ && state_) consolidate();
}

void SuperstepAnnealing::start() {
    const auto timing = evaluations_ == 0 ? BarrierTiming::when_one_starves : BarrierTiming::when_all_starve;
    keep_if_better(segment_fill(*problem_, timing));
}

// A round takes the rest of the plan if another round could not be twice as long.
void SuperstepAnnealing::begin_round() {
    const bool is_first = state_ == nullptr;
    if (is_first) {
        state_ = std::make_unique<Supersteps>(*problem_, places_of(*problem_, best_.device_of, best_.order));
        least_.restart(*state_);
    } else {
        consolidate();
        state_->assign(least_.places());
        least_.restart(*state_);
    }
    int64_t length = is_first ? std::max(kFirstRound, kFirstRoundPerOp * problem_->num_ops) : evaluations_;
    const int64_t left = planned_evaluations_ - evaluations_;
    if (left > 0 && left / 3 < length) length = left;
    round_end_ = evaluations_ + length;
    const double first = is_first ? kFirstTemperature : kReheatedTemperature;
    temperature_ = first * mean_time_ns_;
    cooling_ = std::pow(kLastTemperature / first, 1.0 / double(length));
}

void SuperstepAnnealing::repack() {
    consolidate();
    state_->repack(RandomStream(seed_, uint64_t(evaluations_), 0, kRepack));
    least_.lose_track();
    least_.compare(*state_);
    next_repack_ = evaluations_ + kMovesBeforeRepacking * problem_->num_ops;
}

void SuperstepAnnealing::try_move() {
    temperature_ *= cooling_;
    bool scored = false;
    for (int draw = 0; draw < kDrawsPerMove && !scored; ++draw, draws_ += 2)
        scored = try_draw(stream_.bits(draws_), stream_.bits(draws_ + 1));
    assert(state_->is_consistent());
}

// Draws an op and one of the places open to it on a device, or on the next device if there is none. False if nothing
// could be scored.
bool SuperstepAnnealing::try_draw(uint64_t bits, uint64_t more_bits) {
    const int32_t op = scaled(bits >> 32, problem_->num_ops);
    int32_t device = scaled(bits & 0xffffffffu, problem_->num_devices);
    const Place from = state_->places()[op];
    const double threshold = temperature_ * thresholds_[more_bits % kThresholds];
    const Supersteps::Reach reach = state_->reach(op);
    for (int tried = 0; tried < 2; ++tried, device = device + 1 == problem_->num_devices ? 0 : device + 1) {
        if (!(problem_->allowed[op] >> device & 1)) continue;
        const bool exchange = (more_bits >> 10) % 256 < kExchanges;
        if (device != from.device && !is_alone(op)) {
            if (try_group(op, device, exchange, threshold)) return true;
            continue;
        }
        const int32_t first = reach.first(device), num_open = reach.last(device) - first + 1;
        if (num_open <= 0) continue;
        const Place to{first + scaled(more_bits >> 32, num_open), device};
        if (to == from) continue;
        return (exchange && try_exchange(op, to, threshold)) || try_relocation(op, to, threshold);
    }
    return false;
}

bool SuperstepAnnealing::try_relocation(int32_t op, Place to, double threshold) {
    const Place from = state_->places()[op];
    const int64_t freed = problem_->op_time(op, from.device), added = problem_->op_time(op, to.device);
    if (is_kept(state_->change_in_value(from, -freed, to, added), threshold)) {
        move(op, to);
        least_.compare(*state_);
    }
    return true;
}

// Exchanges the op with one at `to` that may come here instead; false if there is none. The cost is checked first, as
// it refuses most.
bool SuperstepAnnealing::try_exchange(int32_t op, Place to, double threshold) {
    const int32_t partner = state_->next_at(to);
    if (partner < 0) return false;
    const Place from = state_->places()[op];
    const int64_t change_from = problem_->op_time(partner, from.device) - problem_->op_time(op, from.device);
    const int64_t change_to = problem_->op_time(op, to.device) - problem_->op_time(partner, to.device);
    if (!is_kept(state_->change_in_value(from, change_from, to, change_to), threshold)) return true;
    if (!may_come(partner, from) || state_->are_adjacent(op, partner)) return false;
    move(op, to);
    move(partner, from);
    least_.compare(*state_);
    return true;
}

bool SuperstepAnnealing::may_come(int32_t op, Place to) const {
    const bool stays_on_device = to.device == state_->places()[op].device;
    return (problem_->allowed[op] >> to.device & 1) && (stays_on_device || is_alone(op)) && state_->reach(op).holds(to);
}

// Moves the op with its group; in an exchange some op there comes here with its own group.
bool SuperstepAnnealing::try_group(int32_t op, int32_t device, bool exchange, double threshold) {
    const Place from = state_->places()[op];
    const int64_t value = state_->value();
    const int32_t partner = exchange ? state_->next_at({from.segment, device}) : -1;
    const bool may_exchange = partner >= 0 && (problem_->allowed[partner] >> from.device & 1);
    moved_.clear();
    const bool is_open = move_group(op, device) && (!may_exchange || move_group(partner, from.device));
    if (is_open && is_kept(state_->value() - value, threshold)) {
        for (const auto& [moved, before] : moved_) least_.record(moved, state_->places()[moved]);
        least_.compare(*state_);
        return true;
    }
    for (const auto& [moved, before] : moved_) state_->move(moved, before);
    return is_open;
}

// Moves each op of a group to the nearest segment open to it on the device; false if one of them has none.
bool SuperstepAnnealing::move_group(int32_t first_op, int32_t device) {
    for (int32_t op : groups_[problem_->group[first_op]]) {
        const Supersteps::Reach reach = state_->reach_with_group(op, device);
        const int32_t first = reach.first(device), last = reach.last(device);
        if (first > last) return false;
        const Place before = state_->places()[op];
        moved_.push_back({op, before});
        state_->move(op, {std::clamp(before.segment, first, last), device});
    }
    return true;
}

void SuperstepAnnealing::move(int32_t op, Place to) {
    state_->move(op, to);
    least_.record(op, to);
}

void SuperstepAnnealing::keep_if_better(Solution&& found) {
    const Fitness fitness = evaluate(*problem_, found.device_of, found.order, simulation_);
    if (!(fitness < best_fitness_)) return;
    best_fitness_ = fitness;
    best_ = std::move(found);
}

// Simulates the places of least value, unless that has been done.
void SuperstepAnnealing::consolidate() {
    if (least_.value() >= consolidated_value_) return;
    consolidated_value_ = least_.value();
    const std::vector<Place> places = state_->merged(least_.places());
    keep_if_better({devices_of(places), order_of(*problem_, places)});
}

}  // namespace placewright
