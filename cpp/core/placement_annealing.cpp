#include "placement_annealing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ranges>
#include <stdexcept>

namespace placewright {

namespace {

enum Draw : uint64_t { kAccept, kKind, kOp, kSize, kTarget, kDirection };  // OpCluster draws from 100 on

}  // namespace

PlacementAnnealing::PlacementAnnealing(std::shared_ptr<const Problem> problem, const PlacementAnnealingConfig& config,
                                       std::vector<std::vector<int32_t>> starts, uint64_t seed)
    : problem_(std::move(problem)),
      config_(config),
      starts_(std::move(starts)),
      seed_(seed),
      cluster_(*problem_),
      dispatcher_(*problem_),
      transfers_(*problem_),
      simulation_(*problem_) {
    if (starts_.empty()) throw std::invalid_argument("there must be a start");
}

void PlacementAnnealing::advance(int64_t evaluations, int64_t at_most) {
    const int64_t pause = at_most < evaluations - evaluations_ ? evaluations_ + at_most : evaluations;
    for (; evaluations_ < pause; ++evaluations_) {
        if (evaluations_ < int64_t(starts_.size())) {
            try_start(starts_[size_t(evaluations_)]);
        } else {
            const double spent = double(evaluations_) / double(evaluations);
            try_move(config_.first_temperature * std::pow(config_.last_temperature / config_.first_temperature, spent));
        }
    }
}

// After the last start the best is the current placement.
void PlacementAnnealing::try_start(const std::vector<int32_t>& start) {
    device_of_ = start;
    fitness_ = evaluate_current();
    if (evaluations_ == 0 || fitness_ < best_fitness_) {
        best_ = device_of_;
        best_fitness_ = fitness_;
    }
    if (evaluations_ + 1 < int64_t(starts_.size())) return;
    device_of_ = best_;
    fitness_ = best_fitness_;
}

void PlacementAnnealing::try_move(double temperature) {
    const RandomStream stream(seed_, static_cast<uint64_t>(evaluations_), 0, 1);
    changes_.clear();
    draw_move(stream);
    if (changes_.empty()) return;
    const Fitness fitness = evaluate_current();
    if (!accepts(fitness, temperature, stream.bits(kAccept))) {
        for (const Change& change : std::views::reverse(changes_)) device_of_[change.op] = change.before;
        return;
    }
    fitness_ = fitness;
    if (fitness_ < best_fitness_) {
        best_ = device_of_;
        best_fitness_ = fitness_;
    }
}

// Metropolis' rule on the objective relative to the current one. Bytes over the limit never rise.
bool PlacementAnnealing::accepts(const Fitness& fitness, double temperature, uint64_t bits) const {
    if (fitness <= fitness_) return true;
    if (fitness.bytes_over_limit > fitness_.bytes_over_limit) return false;
    const double worse = double(fitness.objective - fitness_.objective) / std::max(1.0, double(fitness_.objective));
    return worse <= -temperature * std::log(uniform(bits));
}

Fitness PlacementAnnealing::evaluate_current() {
    const auto timing = problem_->blocking ? TransferTiming::batched : TransferTiming::early;
    const auto order = transfers_.place(device_of_, dispatcher_.order(device_of_), timing);
    return evaluate(*problem_, device_of_, order, simulation_);
}

// ---- Moves

void PlacementAnnealing::draw_move(const RandomStream& stream) {
    if (problem_->num_devices == 1) return;
    const auto op = static_cast<int32_t>(stream.below(kOp, uint32_t(problem_->num_ops)));
    const uint32_t kind = stream.below(kKind, 8);
    if (kind < 4)
        draw_cluster(stream, op);
    else if (kind < 6)
        draw_run(stream, op);
    else
        draw_exchange(stream, op);
}

// Any other device, -1 where there is none.
int32_t PlacementAnnealing::draw_device(const RandomStream& stream, int32_t op) const {
    const uint64_t others = problem_->allowed[op] & problem_->everywhere() & ~(uint64_t{1} << device_of_[op]);
    return others == 0 ? -1 : drawn_bit(others, stream.bits(kTarget));
}

void PlacementAnnealing::place_group(int32_t op, int32_t device) {
    if (device < 0 || device_of_[op] == device || !(problem_->allowed[op] >> device & 1)) return;
    for (int32_t member : cluster_.group(op)) {
        changes_.push_back({member, device_of_[member]});
        device_of_[member] = device;
    }
}

// One op or what hangs together with it, mostly to where a neighbour stands.
void PlacementAnnealing::draw_cluster(const RandomStream& stream, int32_t op) {
    const uint32_t most = std::bit_floor(uint32_t(std::max(2, problem_->num_ops / 4)));
    const uint32_t size = stream.bits(kSize) % 2 == 0 ? 1 : 1 + stream.below(kSize + 1, most);
    cluster_.grow(stream, device_of_, op, int32_t(size), OpCluster::Direction(stream.below(kDirection, 3)));
    const int32_t beside = stream.bits(kTarget) % 4 == 0 ? -1 : cluster_.neighbouring_device(stream, device_of_);
    const int32_t device = beside >= 0 ? beside : draw_device(stream, op);
    for (int32_t member : cluster_.members()) place_group(member, device);
}

// Ops that follow one another in captured order.
void PlacementAnnealing::draw_run(const RandomStream& stream, int32_t op) {
    const int32_t device = draw_device(stream, op);
    const auto length = 2 + static_cast<int32_t>(stream.below(kSize, uint32_t(std::max(1, problem_->num_ops / 16))));
    for (int32_t other = op; other < std::min(problem_->num_ops, op + length); ++other) place_group(other, device);
}

void PlacementAnnealing::draw_exchange(const RandomStream& stream, int32_t op) {
    const auto other = static_cast<int32_t>(stream.below(kTarget, uint32_t(problem_->num_ops)));
    const int32_t here = device_of_[op], there = device_of_[other];
    if (!(problem_->allowed[op] >> there & 1) || !(problem_->allowed[other] >> here & 1)) return;
    place_group(op, there);
    place_group(other, here);
}

}  // namespace placewright
