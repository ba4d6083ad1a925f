#include "memory_levels/search.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <stdexcept>

#include "improve/pause.hpp"

namespace placewright::memory_levels {

namespace {

enum Purpose : uint64_t { kFlip = 1, kMove = 2 };
// How many moves share one temperature.
constexpr int64_t kMovesPerTemperature = 256;
// How many tensors are asked to make room.
constexpr uint64_t kAsked = 6;

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

// Another level than `level`, each as likely.
int32_t other_level(uint32_t drawn, int32_t level) {
    return int32_t(drawn) < level ? int32_t(drawn) : int32_t(drawn) + 1;
}

}  // namespace

LevelLocalSearch::LevelLocalSearch(std::shared_ptr<const LevelProblem> problem, std::vector<Level> start,
                                   int32_t most_flips, uint64_t seed)
    : problem_(std::move(problem)),
      current_(std::move(start)),
      candidate_(current_),
      scratch_(*problem_),
      most_flips_(most_flips),
      seed_(seed) {
    require(most_flips_ >= 1 && most_flips_ <= 1 << 20, "most_flips must lie in [1, 2^20]");
}

void LevelLocalSearch::advance(int64_t evaluations, int64_t at_most) {
    for (const int64_t pause = pause_at(evaluations_, evaluations, at_most); evaluations_ < pause; ++evaluations_)
        try_flips();
}

// The first evaluation is that of the start.
void LevelLocalSearch::try_flips() {
    std::ranges::copy(current_, candidate_.begin());
    if (evaluations_ > 0 && problem_->num_levels > 1 && problem_->num_tensors > 0) {
        const RandomStream stream(seed_, uint64_t(evaluations_), 0, kFlip);
        const uint64_t flips = 1 + stream.below(0, uint32_t(most_flips_));
        for (uint64_t flip = 0; flip < flips; ++flip) {
            const size_t tensor = stream.below(2 * flip + 1, uint32_t(problem_->num_tensors));
            const uint32_t drawn = stream.below(2 * flip + 2, uint32_t(problem_->num_levels - 1));
            candidate_[tensor] = Level(other_level(drawn, candidate_[tensor]));
        }
    }
    const LevelOutcome outcome = evaluate(*problem_, candidate_, scratch_);
    if (outcome.latency_ps > latency_ps_) return;
    latency_ps_ = outcome.latency_ps;
    std::swap(current_, candidate_);
}

LevelAnnealing::LevelAnnealing(std::shared_ptr<const LevelProblem> problem, const std::vector<Level>& start,
                               const LevelAnnealingConfig& config, uint64_t seed)
    : problem_(std::move(problem)),
      config_(config),
      seed_(seed),
      state_(*problem_, start),
      best_(state_.levels().begin(), state_.levels().end()),
      start_latency_ps_(state_.latency_ps()),
      best_latency_ps_(state_.latency_ps()) {
    require(config.last_temperature > 0 && config.first_temperature >= config.last_temperature &&
                std::isfinite(config.first_temperature),
            "temperatures must be positive and must not rise");
    moved_.reserve(size_t(problem_->num_tensors));
}

void LevelAnnealing::advance(int64_t evaluations, int64_t at_most) {
    const int64_t pause = pause_at(evaluations_, evaluations, at_most);
    all_evaluations_ = evaluations;
    while (evaluations_ < pause) {
        if (evaluations_ % kMovesPerTemperature == 0 || temperature_ps_ == 0) {
            const double spent = std::min(1.0, double(evaluations_) / double(std::max<int64_t>(1, all_evaluations_)));
            temperature_ps_ = double(start_latency_ps_) * config_.first_temperature *
                              std::pow(config_.last_temperature / config_.first_temperature, spent);
        }
        try_move();
        ++evaluations_;
    }
}

void LevelAnnealing::try_move() {
    if (problem_->num_levels == 1 || problem_->num_tensors == 0) return;
    const RandomStream stream(seed_, uint64_t(evaluations_), 0, kMove);
    const auto tensor = int32_t(stream.below(0, uint32_t(problem_->num_tensors)));
    const int32_t level = other_level(stream.below(1, uint32_t(problem_->num_levels - 1)), state_.level_of(tensor));
    if (!state_.fits(tensor, level)) return try_exchange(tensor, level, stream);
    const int64_t change = state_.change_ps(tensor, level);
    if (!accepts(change, stream.bits(2))) return;
    state_.move(tensor, level);
    if (change < 0) keep_if_best();
}

// Others leave the level, one after the other, until the tensor fits; each goes to the fastest level with room for it.
void LevelAnnealing::try_exchange(int32_t tensor, int32_t level, const RandomStream& stream) {
    const int64_t before = state_.latency_ps();
    moved_.clear();
    for (uint64_t asked = 0; asked < kAsked && !state_.fits(tensor, level); ++asked) {
        const auto there = state_.members(level);
        if (there.empty()) break;
        const int32_t other = there[stream.below(3 + asked, uint32_t(there.size()))];
        const bool overlaps = problem_->first[size_t(other)] <= problem_->last[size_t(tensor)] &&
                              problem_->first[size_t(tensor)] <= problem_->last[size_t(other)];
        if (overlaps) move_noted(other, problem_->last_level());
    }
    const size_t evicted = moved_.size();
    bool accepted = false;
    if (state_.fits(tensor, level)) {
        move_noted(tensor, level);
        for (size_t i = 0; i < evicted; ++i) settle(moved_[i].tensor);
        const int64_t change = state_.latency_ps() - before;
        accepted = accepts(change, stream.bits(2));
        if (accepted && change < 0) keep_if_best();
    }
    if (accepted) return;
    for (const Moved& moved : std::views::reverse(moved_)) state_.move(moved.tensor, moved.from);
}

void LevelAnnealing::move_noted(int32_t tensor, int32_t level) {
    moved_.push_back({tensor, state_.level_of(tensor)});
    state_.move(tensor, level);
}

// From the slowest level to the fastest that has room.
void LevelAnnealing::settle(int32_t tensor) {
    for (int32_t level = 0; level < problem_->last_level(); ++level)
        if (state_.fits(tensor, level)) return state_.move(tensor, level);
}

bool LevelAnnealing::accepts(int64_t change_ps, uint64_t bits) const {
    return change_ps <= 0 || uniform(bits) < std::exp(-double(change_ps) / temperature_ps_);
}

void LevelAnnealing::keep_if_best() {
    if (state_.latency_ps() >= best_latency_ps_) return;
    best_latency_ps_ = state_.latency_ps();
    std::ranges::copy(state_.levels(), best_.begin());
}

std::vector<Level> steepest_descent(const LevelProblem& problem, std::span<const Level> start, bool per_byte,
                                    int64_t most_evaluations, int64_t& evaluations) {
    LevelState state(problem, start);
    while (true) {
        int32_t tensor = -1, level = -1;
        double most = 0;
        for (int32_t t = 0; t < problem.num_tensors && evaluations < most_evaluations; ++t)
            for (int32_t l = 0; l < problem.num_levels; ++l) {
                if (l == state.level_of(t) || !state.fits(t, l)) continue;
                ++evaluations;
                const int64_t saved = -state.change_ps(t, l);
                if (saved <= 0) continue;
                const double taken =
                    double(problem.size[size_t(t)]) * double(problem.last[size_t(t)] - problem.first[size_t(t)] + 1);
                const double worth = per_byte && l < problem.last_level() ? double(saved) / taken : double(saved);
                if (worth > most) tensor = t, level = l, most = worth;
            }
        if (tensor < 0) break;
        state.move(tensor, level);
    }
    return {state.levels().begin(), state.levels().end()};
}

}  // namespace placewright::memory_levels
