#include "improve/annealing.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <stdexcept>

#include "improve/pause.hpp"

namespace placewright {

namespace {

enum Purpose : uint64_t { kDraw = 1, kMove = 2 };

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

void check(const AnnealingConfig& c) {
    require(c.keys_per_move >= 1 && c.keys_per_move <= 1 << 20, "keys_per_move must lie in [1, 2^20]");
    require(c.last_temperature > 0 && c.first_temperature >= c.last_temperature && std::isfinite(c.first_temperature),
            "temperatures must be positive and must not rise");
}

}  // namespace

Annealing::Annealing(std::shared_ptr<const Problem> problem, const AnnealingConfig& config,
                     std::optional<KeyProposal> proposal, uint64_t seed)
    : problem_(std::move(problem)),
      config_(config),
      proposal_(std::move(proposal)),
      seed_(seed),
      keys_(size_t(num_keys(*problem_, config.decoder))),
      best_keys_(keys_.size()),
      decoder_(make_decoder(*problem_, config.decoder)),
      simulation_(*problem_) {
    check(config_);
    if (proposal_) proposal_->check(keys_.size());
    changed_.reserve(size_t(config_.keys_per_move));
}

void Annealing::advance(int64_t evaluations, int64_t at_most) {
    const int64_t pause = pause_at(evaluations_, evaluations, at_most);
    all_evaluations_ = evaluations;
    while (evaluations_ < pause) {
        evaluations_ == 0 ? start() : try_move();
        ++evaluations_;
    }
}

void Annealing::start() {
    const RandomStream stream(seed_, 0, 0, kDraw);
    for (size_t i = 0; i < keys_.size(); ++i) keys_[i] = draw(i, stream.bits(i));
    fitness_ = evaluate_current();
    keep_if_best();
}

void Annealing::try_move() {
    const RandomStream stream(seed_, static_cast<uint64_t>(evaluations_), 0, kMove);
    changed_.clear();
    for (int32_t i = 0; i < config_.keys_per_move; ++i) {
        const size_t key = stream.below(uint64_t(2 * i + 1), static_cast<uint32_t>(keys_.size()));
        changed_.push_back({key, keys_[key]});
        keys_[key] = draw(key, stream.bits(uint64_t(2 * i + 2)));
    }
    const Fitness fitness = evaluate_current();
    if (accepts(fitness, stream.bits(0))) {
        fitness_ = fitness;
        keep_if_best();
    } else {
        for (const Changed& change : std::views::reverse(changed_)) keys_[change.key] = change.before;
    }
}

Key Annealing::draw(size_t key, uint64_t bits) const {
    const auto uniform = static_cast<Key>(bits >> 32);
    return proposal_ ? proposal_->tables->draw(proposal_->row[key], uniform) : uniform;
}

// Applies the Metropolis rule to the objective relative to the current one. Bytes over the limit never rise.
bool Annealing::accepts(const Fitness& fitness, uint64_t bits) const {
    if (fitness <= fitness_) return true;
    if (fitness.bytes_over_limit > fitness_.bytes_over_limit) return false;
    const double worse = double(fitness.objective - fitness_.objective) / std::max(1.0, double(fitness_.objective));
    return double(bits >> 11) * 0x1p-53 < std::exp(-worse / temperature());
}

double Annealing::temperature() const {
    const double spent = std::min(1.0, double(evaluations_) / double(all_evaluations_));
    return config_.first_temperature * std::pow(config_.last_temperature / config_.first_temperature, spent);
}

Fitness Annealing::evaluate_current() {
    const auto [device_of, order] = decoder_->decode(keys_);
    return evaluate(*problem_, device_of, order, simulation_);
}

void Annealing::keep_if_best() {
    if (evaluations_ > 0 && !(fitness_ < best_fitness_)) return;
    best_fitness_ = fitness_;
    std::ranges::copy(keys_, best_keys_.begin());
}

}  // namespace placewright
