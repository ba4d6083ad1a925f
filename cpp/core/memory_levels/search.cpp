#include "memory_levels/search.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <stdexcept>

#include "improve/pause.hpp"

namespace placewright::memory_levels {

namespace {

enum Purpose : uint64_t { kFlip = 1, kMove = 2 };
// Number of moves that share one temperature.
constexpr int64_t kMovesPerTemperature = 256;
// Most tensors that are moved away to make room.
constexpr uint64_t kAsked = 16;
// Number of tensors drawn that may take the room an exchange leaves.
constexpr uint64_t kRefills = 12;

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

// Returns a level other than `level`, all equally likely.
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

// The first evaluation is that of the start itself.
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

// Moves other tensors out of the level, one after another, until the tensor fits; each goes to the fastest level with
// room for it.
void LevelAnnealing::try_exchange(int32_t tensor, int32_t level, const RandomStream& stream) {
    const int64_t before = state_.latency_ps();
    moved_.clear();
    for (uint64_t asked = 0; asked < kAsked && !state_.fits(tensor, level); ++asked) {
        const int32_t other = held_during(state_.fullest_op(tensor, level), level, stream.bits(3 + asked));
        if (other < 0) break;
        move_noted(other, problem_->last_level());
    }
    const size_t evicted = moved_.size();
    bool accepted = false;
    if (state_.fits(tensor, level)) {
        move_noted(tensor, level);
        for (size_t i = 0; i < evicted; ++i) settle(moved_[i].tensor);
        if (evicted > 0) refill(level, stream);
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

// Returns a tensor of the level that is held during an op: the first of the members from a random one on; -1 if there
// is none.
int32_t LevelAnnealing::held_during(int32_t op, int32_t level, uint64_t bits) const {
    const auto there = state_.members(level);
    const auto count = uint32_t(there.size());
    auto place = static_cast<uint32_t>(((bits >> 32) * count) >> 32);
    for (uint32_t looked = 0; looked < count; ++looked, ++place) {
        const int32_t tensor = there[place >= count ? place - count : place];
        if (problem_->first[size_t(tensor)] <= op && op <= problem_->last[size_t(tensor)]) return tensor;
    }
    return -1;
}

// Fills the level after an exchange: what left may have been larger than what came, so some tensors of the slowest
// level take the room that is left.
void LevelAnnealing::refill(int32_t level, const RandomStream& stream) {
    for (uint64_t drawn = 0; drawn < kRefills; ++drawn) {
        const auto waiting = state_.members(problem_->last_level());
        if (waiting.empty()) return;
        const int32_t tensor = waiting[stream.below(3 + kAsked + drawn, uint32_t(waiting.size()))];
        if (state_.fits(tensor, level) && state_.change_ps(tensor, level) < 0) move_noted(tensor, level);
    }
}

// Moves a tensor from the slowest level to the fastest that has room.
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

namespace {

struct Move {
    int32_t tensor, level;
};

// The savings of all moves, kept up to date: only tensors that share an op with the one moved are scored anew.
class Savings {
  public:
    Savings(const LevelProblem& problem, LevelState& state, bool per_byte)
        : problem_(problem),
          state_(state),
          per_byte_(per_byte),
          saved_(size_t(problem.num_tensors) * size_t(problem.num_levels)) {}

    int64_t scored() const { return scored_; }
    std::vector<int64_t> taken() && { return std::move(saved_); }

    void score_all() {
        for (int32_t tensor = 0; tensor < problem_.num_tensors; ++tensor) score(tensor);
    }

    void score_around(int32_t moved) {
        for (const int32_t use : problem_.uses_of(moved)) {
            const auto op = size_t(problem_.op_of_use[size_t(use)]);
            for (int32_t other = problem_.use_begin[op]; other < problem_.use_begin[op + 1]; ++other)
                score(problem_.use_tensor[size_t(other)]);
        }
    }

    // Returns the move that is worth the most of those that fit; a negative tensor if there is none.
    Move best() {
        Move found{-1, -1};
        double most = 0;
        for (int32_t tensor = 0; tensor < problem_.num_tensors; ++tensor)
            for (int32_t level = 0; level < problem_.num_levels; ++level) {
                const double worth = worth_of(tensor, level);
                if (worth <= most || !state_.fits(tensor, level)) continue;
                found = {tensor, level};
                most = worth;
            }
        return found;
    }

  private:
    void score(int32_t tensor) {
        for (int32_t level = 0; level < problem_.num_levels; ++level) {
            const bool moves = level != state_.level_of(tensor);
            scored_ += moves;
            saved_[size_t(tensor) * size_t(problem_.num_levels) + size_t(level)] =
                moves ? -state_.change_ps(tensor, level) : 0;
        }
    }

    double worth_of(int32_t tensor, int32_t level) const {
        const auto saved = double(saved_[size_t(tensor) * size_t(problem_.num_levels) + size_t(level)]);
        if (!per_byte_ || level == problem_.last_level()) return saved;
        const double ops = double(problem_.last[size_t(tensor)] - problem_.first[size_t(tensor)] + 1);
        return saved / (std::max(1.0, double(problem_.size[size_t(tensor)])) * ops);
    }

    const LevelProblem& problem_;
    LevelState& state_;
    bool per_byte_;
    std::vector<int64_t> saved_;  // [tensor][level]
    int64_t scored_ = 0;
};

}  // namespace

std::vector<int64_t> savings(const LevelProblem& problem, std::span<const Level> start) {
    LevelState state(problem, start, false);
    Savings savings(problem, state, false);
    savings.score_all();
    return std::move(savings).taken();
}

std::vector<Level> drawn_near(const LevelProblem& problem, std::span<const Level> start) {
    LevelState state(problem, start);
    for (int32_t tensor = 0; tensor < problem.num_tensors; ++tensor)
        for (int32_t level = 0; level < state.level_of(tensor); ++level)
            if (state.fits(tensor, level) && state.change_ps(tensor, level) <= 0) state.move(tensor, level);
    return {state.levels().begin(), state.levels().end()};
}

std::vector<Level> steepest_descent(const LevelProblem& problem, std::span<const Level> start, bool per_byte,
                                    int64_t most_evaluations, int64_t& evaluations) {
    LevelState state(problem, start, false);
    Savings savings(problem, state, per_byte);
    savings.score_all();
    while (savings.scored() < most_evaluations) {
        const Move move = savings.best();
        if (move.tensor < 0) break;
        state.move(move.tensor, move.level);
        savings.score_around(move.tensor);
    }
    evaluations = savings.scored();
    return {state.levels().begin(), state.levels().end()};
}

}  // namespace placewright::memory_levels
