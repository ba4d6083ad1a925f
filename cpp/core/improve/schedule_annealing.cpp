#include "improve/schedule_annealing.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "improve/pause.hpp"

namespace placewright {

namespace {

enum Draw : uint64_t { kAccept, kKind, kWhere, kOp, kSize, kTarget, kDirection };  // OpCluster draws from 100 on

constexpr int32_t kLargestCluster = 64;  // ops that change their device together, not counting their groups
// Weight of the mean finish of all ops in the energy, next to the step time: many moves leave the step time unchanged,
// and an early finish of other ops makes room for moves that reduce it.
constexpr double kMeanFinishWeight = 2.0;
constexpr double kCriticalShare = 0.95;  // share of moves that start from an op that delays the step
constexpr int32_t kMaxUnchecked = 64;    // moves accepted by time between two checks of the limits

double mean_time_ns(const Problem& p) {
    double total = 0;
    for (int64_t time : p.op_time_ns) total += double(time);
    return std::max(1.0, total / double(p.op_time_ns.size()));
}

// Returns 1, 2, 3, ..., each with half the probability of the one before.
int32_t halving(uint64_t bits) { return 1 + std::countr_zero(bits | uint64_t{1} << 40); }

}  // namespace

ScheduleAnnealing::ScheduleAnnealing(std::shared_ptr<const Problem> problem, const ScheduleAnnealingConfig& config,
                                     std::span<const PlacementAndOrder> starts, uint64_t seed)
    : problem_(std::move(problem)),
      config_(config),
      seed_(seed),
      heeds_memory_(problem_->needs_memory && !config.ignores_limits),
      mean_time_(mean_time_ns(*problem_)),
      graph_(problem_),
      simulation_(*problem_),
      cluster_(*problem_) {
    if (starts.empty()) throw std::invalid_argument("there must be a start");
    critical_.reserve(size_t(problem_->num_ops));
    edits_.reserve(size_t(problem_->num_ops));
    for (const PlacementAndOrder& start : starts)
        for (uint8_t early : {uint8_t{0}, uint8_t{1}}) starts_.push_back({start, early});
}

void ScheduleAnnealing::advance(int64_t evaluations, int64_t at_most) {
    const int64_t pause = pause_at(evaluations_, evaluations, at_most);
    while (evaluations_ < pause) {
        if (evaluations_ < int64_t(starts_.size())) {
            evaluate_start();
        } else {
            const double spent = double(evaluations_) / double(evaluations);
            try_move(config_.first_temperature * std::pow(config_.last_temperature / config_.first_temperature, spent));
        }
        ++evaluations_;
    }
    if (at_best_) keep_best();
}

// Evaluates the next start; after the last one the graph holds the best.
void ScheduleAnnealing::evaluate_start() {
    const Start& start = starts_[size_t(evaluations_)];
    const std::vector<uint8_t> early(size_t(problem_->num_tensors), start.early);
    graph_.load(start.placed.device_of, start.placed.ops, early);
    fitness_ = simulated_fitness();
    if (evaluations_ == 0 || fitness_ < best_fitness_) keep_best();
    if (evaluations_ + 1 < int64_t(starts_.size())) return;
    load(best_);
    fitness_ = best_fitness_;
    at_best_ = true;
}

double ScheduleAnnealing::energy() const {
    return double(graph_.step_time_ns()) + kMeanFinishWeight * graph_.mean_finish();
}

Fitness ScheduleAnnealing::simulated_fitness() {
    if (!heeds_memory_) return problem_->fitness(0, graph_.step_time_ns(), 0);
    graph_.write_order(order_);
    simulated_ += int64_t(order_.size());
    return evaluate(*problem_, graph_.device_of(), order_, simulation_);
}

void ScheduleAnnealing::try_move(double temperature) {
    const RandomStream stream(seed_, static_cast<uint64_t>(evaluations_), 0, 1);
    edits_.clear();
    draw_move(stream);
    if (edits_.empty()) return;
    const double rise = -temperature * mean_time_ * std::log(uniform(stream.bits(kAccept)));
    const double most = energy() + rise;
    // Bytes over a limit come first: until there are none, time does not matter.
    const bool by_time = fitness_.bytes_over_limit == 0 && !problem_->minimize_memory;
    const int64_t limit = graph_.step_time_ns() + static_cast<int64_t>(std::min(rise, 1e18));
    if (by_time && !graph_.may_end_within(edits_, limit)) return;
    leave_best();
    if (!graph_.try_move(edits_, by_time ? limit : INT64_MAX) || (by_time && energy() > most)) return graph_.undo();
    if (by_time ? !keeps_limits() : !improves_memory(temperature, most)) return;
    graph_.keep();
    assert(agrees_with_simulation());
    ++accepted_;
    if (fitness_ < best_fitness_) {
        best_fitness_ = fitness_;
        at_best_ = true;
    }
}

// Checks the limits after a move that time accepts. If they are exceeded, the graph goes back to the last state within
// them.
bool ScheduleAnnealing::keeps_limits() {
    const Fitness by_time{0, graph_.step_time_ns(), INT64_MAX};
    if (!heeds_memory_) {
        fitness_ = problem_->fitness(0, by_time.objective, 0);
        return true;
    }
    const bool is_best = by_time.objective < best_fitness_.objective;
    const bool within = graph_.is_surely_within_limits();
    if (!is_best && (within || (can_go_back_ && unchecked_ + 1 < max_unchecked_))) {
        can_go_back_ = !within;
        unchecked_ = within ? 0 : unchecked_ + 1;
        fitness_ = by_time;
        return true;
    }
    const Fitness found = simulated_fitness();
    if (found.bytes_over_limit == 0) {
        fitness_ = found;
        copy_to(within_limits_);
        can_go_back_ = true;
        unchecked_ = 0;
        max_unchecked_ = std::min(2 * max_unchecked_, kMaxUnchecked);
        return true;
    }
    if (unchecked_ == 0) {
        graph_.undo();
    } else {
        load(within_limits_);
        fitness_ = {0, graph_.step_time_ns(), INT64_MAX};
    }
    unchecked_ = 0;
    max_unchecked_ = std::max(1, max_unchecked_ / 2);
    return false;
}

// Decides on a move while memory comes before time; a move that needs more memory is taken back. Where memory is not
// the objective, a move may cost time in the first half of the search: its share of the step time may be at most the
// share of bytes over the limits that it saves, times the squared ratio of first and current temperature. Later, time
// does not matter until no bytes are over.
bool ScheduleAnnealing::improves_memory(double temperature, double most) {
    can_go_back_ = false;
    unchecked_ = 0;
    const Fitness found = simulated_fitness();
    const bool is_early = temperature * temperature > config_.first_temperature * config_.last_temperature;
    bool improves = found.bytes_over_limit <= fitness_.bytes_over_limit;
    if (problem_->minimize_memory) {
        improves = improves && found <= fitness_;
    } else if (improves && is_early && energy() > most) {
        const double saved = double(fitness_.bytes_over_limit - found.bytes_over_limit) * double(fitness_.objective);
        const double lost = double(graph_.step_time_ns() - fitness_.objective) * double(fitness_.bytes_over_limit);
        improves = saved > 0 &&
                   lost * temperature * temperature <= saved * config_.first_temperature * config_.first_temperature;
    }
    if (improves)
        fitness_ = found;
    else
        graph_.undo();
    return improves;
}

// Asserted after every accepted move in debug builds.
bool ScheduleAnnealing::agrees_with_simulation() {
    graph_.write_order(order_);
    return simulate_time(*problem_, graph_.device_of(), order_, simulation_) == graph_.step_time_ns();
}

// Copies the best before the graph changes.
void ScheduleAnnealing::leave_best() {
    if (at_best_) keep_best();
    at_best_ = false;
}

void ScheduleAnnealing::keep_best() {
    best_fitness_ = fitness_;
    copy_to(best_);
}

void ScheduleAnnealing::copy_to(State& state) const {
    state.device_of.assign(graph_.device_of().begin(), graph_.device_of().end());
    state.ops.assign(graph_.ops().begin(), graph_.ops().end());
    state.early.assign(graph_.early().begin(), graph_.early().end());
}

void ScheduleAnnealing::load(const State& state) { graph_.load(state.device_of, state.ops, state.early); }

Solution ScheduleAnnealing::best() const {
    DisjunctiveGraph graph(problem_);
    graph.load(best_.device_of, best_.ops, best_.early);
    Solution best{best_.device_of, {}};
    graph.write_order(best.order);
    return best;
}

// ---- Moves

void ScheduleAnnealing::draw_move(const RandomStream& stream) {
    const int32_t op = draw_op(stream);
    const auto [device, order, sending, swap] = config_.move_weights;
    const uint32_t kind = stream.below(kKind, device + order + sending + swap);
    if (kind < device)
        draw_device_move(stream, op);
    else if (kind < device + order)
        draw_order_move(stream, op);
    else if (kind < device + order + sending)
        draw_sending_move(stream, op);
    else
        draw_swap(stream, op);
}

int32_t ScheduleAnnealing::draw_op(const RandomStream& stream) {
    const double share = fitness_.bytes_over_limit > 0 ? 0.5 : kCriticalShare;
    if (uniform(stream.bits(kWhere)) < share) {
        if (evaluations_ >= critical_until_) find_critical();
        for (uint64_t i = 0; i < 4 && !critical_.empty(); ++i) {
            const int32_t op = critical_[stream.below(kOp + 50 + i, static_cast<uint32_t>(critical_.size()))];
            if (graph_.is_critical(op)) return op;
        }
    }
    return static_cast<int32_t>(stream.below(kOp, static_cast<uint32_t>(problem_->num_ops)));
}

void ScheduleAnnealing::find_critical() {
    critical_.clear();
    for (int32_t op = 0; op < problem_->num_ops; ++op)
        if (graph_.is_critical(op)) critical_.push_back(op);
    critical_until_ = evaluations_ + std::max(16, problem_->num_ops / 16);
}

void ScheduleAnnealing::move_cluster(int32_t device) {
    for (int32_t member : cluster_.members())
        if (problem_->allowed[member] >> device & 1) edits_.push_back({Edit::Kind::device, member, device});
}

void ScheduleAnnealing::draw_device_move(const RandomStream& stream, int32_t op) {
    if (problem_->num_devices == 1) return;
    const uint64_t bits = stream.bits(kSize);
    const int32_t size = bits % 2 == 0 ? 1 : std::min(kLargestCluster, 1 << halving(bits >> 1));
    const auto direction = static_cast<OpCluster::Direction>(stream.below(kDirection, 3));
    cluster_.grow(stream, graph_.device_of(), op, 1 + int32_t(stream.below(kSize + 1, uint32_t(size))), direction);
    const int32_t here = graph_.device_of()[size_t(op)];
    int32_t device = stream.bits(kTarget) % 8 == 0 ? -1 : cluster_.neighbouring_device(stream, graph_.device_of());
    if (device < 0) {
        const uint64_t others = problem_->allowed[op] & problem_->everywhere() & ~(uint64_t{1} << here);
        if (others == 0) return;
        device = drawn_bit(others, stream.bits(kTarget + 1));
    }
    move_cluster(device);
}

int32_t ScheduleAnnealing::first_place(int32_t op) const {
    int32_t first = 0;
    for (int32_t tensor : problem_->inputs[op])
        first = std::max(first, graph_.place_of(problem_->producer[tensor]) + 1);
    for (int32_t before : problem_->predecessors[op]) first = std::max(first, graph_.place_of(before) + 1);
    return first;
}

int32_t ScheduleAnnealing::last_place(int32_t op) const {
    int32_t last = problem_->num_ops - 1;
    for (int32_t edge : problem_->edges[op]) last = std::min(last, graph_.place_of(edge / 2) - 1);
    return last;
}

// Moves the op before one ahead of it on its device, or that one behind it.
void ScheduleAnnealing::draw_order_move(const RandomStream& stream, int32_t op) {
    int32_t ahead = op;
    for (int32_t steps = halving(stream.bits(kSize)); steps > 0; --steps) {
        const int32_t previous = graph_.previous_on_device(ahead);
        if (previous < 0) break;
        ahead = previous;
    }
    if (ahead == op) return;
    const int32_t here = graph_.place_of(op), there = graph_.place_of(ahead);
    const bool up = first_place(op) <= there, down = last_place(ahead) >= here;
    if (up && (!down || stream.bits(kTarget) % 2 == 0))
        edits_.push_back({Edit::Kind::place, op, there});
    else if (down)
        edits_.push_back({Edit::Kind::place, ahead, here});
}

void ScheduleAnnealing::draw_sending_move(const RandomStream& stream, int32_t op) {
    const Problem& p = *problem_;
    const auto inputs = p.inputs[op];
    const auto num_outputs = p.output_begin[op + 1] - p.output_begin[op];
    const auto choices = static_cast<uint32_t>(inputs.size()) + static_cast<uint32_t>(num_outputs);
    if (choices == 0) return;
    const uint32_t choice = stream.below(kTarget, choices);
    const int32_t tensor =
        choice < inputs.size() ? inputs[choice] : p.output_begin[op] + int32_t(choice - uint32_t(inputs.size()));
    edits_.push_back({Edit::Kind::sending, tensor, 1 - graph_.early()[size_t(tensor)]});
}

// Exchanges the devices of two ops that are near each other in the order.
void ScheduleAnnealing::draw_swap(const RandomStream& stream, int32_t op) {
    if (problem_->num_devices == 1) return;
    const int32_t reach = std::min(problem_->num_ops - 1, 8 * problem_->num_devices);
    if (reach == 0) return;
    int32_t place = graph_.place_of(op) - reach / 2 + static_cast<int32_t>(stream.below(kTarget, uint32_t(reach)));
    place = std::clamp(place, 0, problem_->num_ops - 1);
    const int32_t other = graph_.ops()[size_t(place)];
    const int32_t here = graph_.device_of()[size_t(op)], there = graph_.device_of()[size_t(other)];
    if (here == there) return;
    if (!(problem_->allowed[op] >> there & 1) || !(problem_->allowed[other] >> here & 1)) return;
    for (int32_t member : cluster_.group(op)) edits_.push_back({Edit::Kind::device, member, there});
    for (int32_t member : cluster_.group(other)) edits_.push_back({Edit::Kind::device, member, here});
}

}  // namespace placewright
