#include "improve/peak_search.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "improve/pause.hpp"

namespace placewright {

namespace {

enum Purpose : uint64_t { kMove = 1 };
enum Draw : uint64_t { kAccept, kTargeted, kKind, kOp, kPlace, kDevice, kCluster, kPeak, kTensor };

// Tuned on synthetic training graphs; docs/notes/searches.md says what they gain.
constexpr double kTargetedShare = 0.7;                                  // of the moves; the others may be of any op
constexpr double kDeviceShare = 0.25;                                   // of the moves; the others change the order
constexpr double kLeastReach = 20, kMaxReach = 200, kReachPerOp = 0.1;  // places of a move beyond the peak
constexpr int32_t kLongestMove = 2000;       // places, so that a move costs the same in a large graph
constexpr double kExcessWeight = 0.05;       // per op, in graphs of up to kExcessOps
constexpr double kExcessOps = 130;           // in larger ones the excess counts by its mean
constexpr double kExcessMargin = 0.05;       // below the target, relative to it
constexpr double kNearPeak = 0.02;           // below the peak, relative to it: targeted moves aim at such places
constexpr double kOverWeight = 8;            // weight of bytes over the limit, once some solution has none
constexpr double kHeatPerMove = 0.0025;      // a round with few moves per op starts cooler
constexpr int64_t kFirstRound = 5000;        // evaluations
constexpr int64_t kMaxInLastRound = 200000;  // evaluations

constexpr uint64_t kClusterDoublings = 6;  // clusters of 2 to 64 ops change their device together

constexpr uint64_t kMaxAttempts = 20;
constexpr uint64_t kMaxDraws = 4;

void check(const PeakSearchConfig& c) {
    const auto require = [](bool holds, const char* what) {
        if (!holds) throw std::invalid_argument(what);
    };
    require(c.evaluations >= 1, "evaluations must be at least 1");
    require(c.last_temperature > 0 && c.first_temperature >= c.last_temperature && std::isfinite(c.first_temperature),
            "temperatures must be positive and must not rise");
}

const PlacementAndOrder& first_of(const std::vector<PlacementAndOrder>& starts) {
    if (starts.empty()) throw std::invalid_argument("a search needs a start");
    return starts.front();
}

}  // namespace

PeakSearch::PeakSearch(std::shared_ptr<const Problem> problem, const PeakSearchConfig& config,
                       std::vector<PlacementAndOrder> starts, uint64_t seed)
    : problem_(std::move(problem)),
      config_(config),
      starts_(std::move(starts)),
      seed_(seed),
      reach_(std::clamp(kReachPerOp * problem_->num_ops, kLeastReach, kMaxReach)),
      order_(*problem_, first_of(starts_).ops),
      device_of_(starts_.front().device_of),
      eviction_(*problem_),
      simulation_(*problem_),
      level_(problem_->num_ops),
      target_(problem_->memory_limit),
      threshold_(problem_->num_devices, INT64_MAX),
      best_(starts_.front()) {
    check(config_);
    best_order_.reserve(eviction_.max_steps());
    moved_.reserve(size_t{1} << kClusterDoublings);
    if (problem_->num_devices > 1) return;
    profile_.emplace(*problem_);
    steps_.reserve(problem_->num_ops);
    one_device_time_ns_ = std::accumulate(problem_->op_time_ns.begin(), problem_->op_time_ns.end(), int64_t{0});
}

void PeakSearch::advance(int64_t evaluations, int64_t at_most) {
    const int64_t pause = pause_at(evaluations_, evaluations, at_most);
    while (evaluations_ < pause) {
        evaluations_ < std::ssize(starts_) ? evaluate_start() : try_move();
        ++evaluations_;
    }
}

void PeakSearch::evaluate_start() {
    load(starts_[size_t(evaluations_)]);
    const Scored scored = score(INFINITY);
    if (evaluations_ == 0 || scored.fitness < best_fitness_) keep_as_best(scored.fitness);
}

// Begins a round from the best so far. Each round is twice as long as the one before, so that a search that ends at any
// time has spent much of it in a round that cooled down; the last one ends with the evaluations.
void PeakSearch::begin_round() {
    const int64_t left = config_.evaluations - evaluations_;
    const bool last = left > 0 && left <= kMaxInLastRound;
    round_begin_ = evaluations_;
    round_length_ = last ? left : std::max(kFirstRound, 2 * round_length_);
    load(best_);
    settle(score(INFINITY));
}

double PeakSearch::temperature() const {
    const double spent = double(evaluations_ - round_begin_) / double(round_length_);
    const double moves_per_op = double(round_length_) / problem_->num_ops;
    const double hot = std::min(config_.first_temperature, kHeatPerMove * moves_per_op);
    const double cold = std::min(config_.last_temperature, hot);
    return hot * std::pow(cold / hot, spent);
}

void PeakSearch::try_move() {
    if (evaluations_ >= round_begin_ + round_length_) begin_round();
    bool moved = false;
    for (uint64_t draw = 0; draw < kMaxDraws && !moved; ++draw)
        moved = draw_move({seed_, static_cast<uint64_t>(evaluations_), draw, kMove});
    if (!moved) return;
    // Metropolis' rule with its random number drawn first: a move that it will refuse need not be scored in full.
    const RandomStream stream(seed_, static_cast<uint64_t>(evaluations_), kMaxDraws, kMove);
    const double max_energy = current_energy_ - temperature() * std::log(1 - uniform(stream.bits(kAccept)));
    const Scored scored = score(max_energy);
    if (scored.fitness < best_fitness_)
        keep_as_best(scored.fitness);
    else if (scored.energy <= max_energy)
        settle(scored);
    else
        undo_move();
}

bool PeakSearch::draw_move(const RandomStream& stream) {
    window_ = {};
    moved_.clear();
    return (uniform(stream.bits(kTargeted)) < kTargetedShare && draw_targeted(stream)) || draw_any(stream);
}

// Draws a tensor that is held on the device while an op near the peak runs there, and moves its producer after that op,
// its last reader before it, or one of them to another device.
bool PeakSearch::draw_targeted(const RandomStream& stream) {
    const Problem& p = *problem_;
    const MaxTree& level = profile_ ? profile_->level() : level_;
    const auto near_peak = level.max() - static_cast<int64_t>(kNearPeak * double(level.max()));
    const int32_t peak = level.random_place(near_peak, stream.bits(kPeak));
    const int32_t device = device_of_[order_.ops()[size_t(peak)]];
    for (uint64_t attempt = 0; attempt < kMaxAttempts && p.num_tensors > 0; ++attempt) {
        const auto tensor = static_cast<int32_t>(stream.below(kTensor + attempt, uint32_t(p.num_tensors)));
        const int32_t producer = p.producer[tensor];
        if (order_.place_of(producer) > peak || p.copy_bytes[tensor] == 0) continue;
        bool here = device_of_[producer] == device;
        int32_t last = producer;
        for (int32_t reader : p.consumers[tensor]) {
            here |= device_of_[reader] == device;
            if (order_.place_of(reader) > order_.place_of(last)) last = reader;
        }
        if (!here || order_.place_of(last) < peak) continue;
        const bool of_producer = stream.bits(kOp) & 1;
        if (draws_device(stream)) return move_devices(of_producer ? producer : last, stream);
        const double far = uniform(stream.bits(kPlace));
        const auto beyond = static_cast<int32_t>(far * far * reach_);
        return of_producer ? move_op(producer, peak + beyond) : move_op(last, peak - beyond);
    }
    return false;
}

bool PeakSearch::draw_any(const RandomStream& stream) {
    const auto op = static_cast<int32_t>(stream.below(kOp, uint32_t(problem_->num_ops)));
    if (draws_device(stream)) return move_devices(op, stream);
    const double far = 2 * uniform(stream.bits(kPlace)) - 1;
    const auto beyond = 1 + static_cast<int32_t>(far * far * reach_);
    return move_op(op, order_.place_of(op) + (far < 0 ? -beyond : beyond));
}

bool PeakSearch::draws_device(const RandomStream& stream) const {
    return problem_->num_devices > 1 && uniform(stream.bits(kKind)) < kDeviceShare;
}

bool PeakSearch::move_op(int32_t op, int32_t to) {
    to = std::clamp(to, 0, problem_->num_ops - 1);
    if (std::abs(to - order_.place_of(op)) > kLongestMove) return false;
    window_ = order_.move(op, to);
    return !window_.empty();
}

// Moves the op and, half of the time, some ops that are connected with it on its device: a boundary between devices is
// shifted.
bool PeakSearch::move_devices(int32_t op, const RandomStream& stream) {
    const Problem& p = *problem_;
    moved_from_ = device_of_[op];
    const uint64_t others = p.allowed[op] & p.everywhere() & ~(uint64_t{1} << moved_from_);
    if (others == 0) return false;
    const int32_t to = drawn_bit(others, stream.bits(kDevice));
    const uint64_t bits = stream.bits(kCluster);
    const size_t size = bits & 1 ? 1 : size_t{2} << (bits >> 1) % kClusterDoublings;
    move_group(op, to);
    const auto join = [&](int32_t other) {
        const bool may = device_of_[other] == moved_from_ && p.allowed[other] >> to & 1;
        if (may && moved_.size() < size) move_group(other, to);
    };
    for (size_t i = 0; i < moved_.size() && moved_.size() < size; ++i) {
        for (int32_t tensor : p.inputs[moved_[i]]) join(p.producer[tensor]);
        for (int32_t edge : p.edges[moved_[i]]) join(edge / 2);
    }
    return true;
}

void PeakSearch::move_group(int32_t op, int32_t to) {
    for (int32_t member : problem_->members[problem_->group[op]]) device_of_[member] = to;
    moved_.push_back(op);
}

void PeakSearch::undo_move() {
    for (int32_t op : moved_)
        for (int32_t member : problem_->members[problem_->group[op]]) device_of_[member] = moved_from_;
    if (window_.empty()) return;
    order_.undo();
    if (profile_) profile_->undo();
}

PeakSearch::Scored PeakSearch::score(double max_energy) {
    if (profile_) {
        if (!window_.empty()) profile_->change(order_, window_);
    } else {
        const bool peak_decides = problem_->minimize_memory && problem_->blocking && std::isfinite(max_energy) &&
                                  best_fitness_.bytes_over_limit == 0;
        const int64_t max_bytes = peak_decides ? static_cast<int64_t>(max_energy * scale_) : INT64_MAX;
        if (eviction_.order(device_of_, order_.ops(), target_, max_bytes).empty()) return {{}, INFINITY};
    }
    const Fitness fitness = profile_ ? fitness_one_device() : fitness_evicted();
    assert(agrees_with_simulation(fitness));
    return {fitness, energy(fitness)};
}

// The step time depends on the order only where a host launches.
Fitness PeakSearch::fitness_one_device() {
    const int64_t peak = profile_->peak();
    const int64_t time = problem_->has_hosts ? simulate_time(*problem_, device_of_, order_one_device(), simulation_)
                                             : one_device_time_ns_;
    return problem_->fitness(std::max<int64_t>(0, peak - problem_->memory_limit[0]), time, peak);
}

std::span<const Step> PeakSearch::order_one_device() {
    steps_.clear();
    for (int32_t op : order_.ops()) steps_.push_back(Step::op(op));
    return steps_;
}

// Where transfers block, eviction has counted the peaks on the way; times are left out, as ties are settled elsewhere.
Fitness PeakSearch::fitness_evicted() {
    const Problem& p = *problem_;
    if (!p.blocking || !p.minimize_memory) return evaluate(p, device_of_, eviction_.last_order(), simulation_);
    int64_t over = 0;
    for (int32_t device = 0; device < p.num_devices; ++device)
        over += std::max<int64_t>(0, eviction_.peak()[size_t(device)] - p.memory_limit[device]);
    return {over, std::ranges::max(eviction_.peak()), 0};
}

// Asserted in debug builds after every move.
bool PeakSearch::agrees_with_simulation(const Fitness& fitness) {
    const auto order = profile_ ? order_one_device() : eviction_.last_order();
    const Fitness simulated = evaluate(*problem_, device_of_, order, simulation_);
    return fitness.bytes_over_limit == simulated.bytes_over_limit && fitness.objective == simulated.objective;
}

// Returns the bytes over the limit until a solution fits, then the objective. Peaks are plateaus, so memory near them
// counts too.
double PeakSearch::energy(const Fitness& fitness) const {
    const double weight = kExcessWeight * std::min(1.0, kExcessOps / problem_->num_ops);
    const auto over = double(fitness.bytes_over_limit);
    if (best_fitness_.bytes_over_limit > 0) return (over + weight * double(excess())) / scale_;
    if (!problem_->minimize_memory) return double(fitness.objective) / scale_ + (over > 0 ? 1 : 0);
    return (double(fitness.objective) + kOverWeight * over + weight * double(excess())) / scale_;
}

int64_t PeakSearch::excess() const {
    if (profile_) return profile_->excess();
    int64_t excess = 0;
    const auto level = eviction_.level();
    for (size_t place = 0; place < level.size(); ++place)
        excess += std::max<int64_t>(0, level[place] - threshold_[device_of_[order_.ops()[place]]]);
    return excess;
}

void PeakSearch::load(const PlacementAndOrder& placed) {
    window_ = {};
    moved_.clear();
    std::ranges::copy(placed.device_of, device_of_.begin());
    order_.assign(placed.ops);
    if (profile_) profile_->assign(order_);
}

// Makes the solution scored last the current one.
void PeakSearch::settle(const Scored& scored) {
    current_energy_ = scored.energy;
    if (!profile_) level_.assign(0, eviction_.level());
}

void PeakSearch::keep_as_best(const Fitness& fitness) {
    best_fitness_ = fitness;
    std::ranges::copy(device_of_, best_.device_of.begin());
    std::ranges::copy(order_.ops(), best_.ops.begin());
    if (profile_) {
        best_order_.clear();
        for (int32_t op : best_.ops) best_order_.push_back(Step::op(op));
    } else {
        const auto order = eviction_.last_order();
        best_order_.assign(order.begin(), order.end());
    }
    aim_below_best();
    settle({fitness, energy(fitness)});
}

void PeakSearch::aim_below_best() {
    const Problem& p = *problem_;
    const bool fits = best_fitness_.bytes_over_limit == 0;
    int64_t largest_limit = 1;
    for (int32_t device = 0; device < p.num_devices; ++device) {
        const int64_t limit = p.memory_limit[device];
        if (limit < Problem::kNoLimit) largest_limit = std::max(largest_limit, limit);
        target_[device] = fits && p.minimize_memory ? std::min(limit, best_fitness_.objective - 1) : limit;
        threshold_[device] = target_[device] - static_cast<int64_t>(kExcessMargin * double(target_[device]));
    }
    scale_ = double(fits ? std::max<int64_t>(1, best_fitness_.objective) : largest_limit);
    if (profile_) profile_->set_threshold(threshold_[0]);
}

}  // namespace placewright
