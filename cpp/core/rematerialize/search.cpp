#include "rematerialize/search.hpp"

#include <array>
#include <cmath>

namespace placewright {

namespace {

constexpr std::array<EvictionExponents, 8> kStarts{
    {{1, 1}, {1, 0.5}, {1, 0}, {0.5, 1}, {0.5, 0.5}, {2, 1}, {1, 2}, {2, 0}}};
constexpr double kFirstTemperature = 0.01, kLastTemperature = 0.0001;  // relative to the time
constexpr double kPatience = 1.2;  // runs that take so many times the best are not looked at to their end
constexpr double kAlways = 1e6;    // a weight by which something is kept or dropped before all others
constexpr double kLeastChange = 0.5, kMostChange = 3;  // of the logarithm of a weight

}  // namespace

RematerializationSearch::RematerializationSearch(std::shared_ptr<const Problem> problem, std::span<const int32_t> order,
                                                 std::span<const int32_t> again_before, uint64_t seed)
    : problem_(std::move(problem)), ops_(*problem_, order, again_before), decoder_(ops_), judge_(ops_), seed_(seed) {}

void RematerializationSearch::advance(int64_t evaluations, int64_t at_most) {
    const int64_t end = std::min(evaluations, at_most < INT64_MAX - evaluations_ ? evaluations_ + at_most : INT64_MAX);
    while (evaluations_ < end) {
        if (evaluations_ < int64_t(kStarts.size())) {
            try_start(size_t(evaluations_));
        } else {
            const double done = double(evaluations_) / double(evaluations);
            try_move(kFirstTemperature * std::pow(kLastTemperature / kFirstTemperature, done));
        }
        ++evaluations_;
    }
}

void RematerializationSearch::try_start(size_t number) {
    tried_.weights.assign(ops_.num_storages(), 1.0);
    tried_.exponents = kStarts[number];
    if (evaluate(tried_) && tried_.fitness < current_.fitness) std::swap(current_, tried_);
}

// Changes a few weights: of what is dropped now, so that it stays, of what stays, so that it goes, or of any a little.
void RematerializationSearch::try_move(double temperature) {
    const RandomStream stream(seed_, uint64_t(evaluations_), 0, 0);
    if (current_.dropped.empty()) return;
    tried_.weights = current_.weights;
    tried_.exponents = current_.exponents;
    const uint32_t count = 1 + stream.below(0, 1 + stream.below(1, 8));
    for (uint32_t each = 0; each < count; ++each) {
        const uint64_t draw = 8 * (each + 1);
        const bool of_dropped = current_.kept.empty() || stream.below(draw, 2) == 0;
        const auto& from = of_dropped ? current_.dropped : current_.kept;
        const int32_t storage = from[stream.below(draw + 1, uint32_t(from.size()))];
        double change = kLeastChange + (kMostChange - kLeastChange) * uniform(stream.bits(draw + 2));
        if (stream.below(draw + 3, 8) == 0) change = std::log(kAlways);
        const bool up = stream.below(draw + 4, 8) == 0 ? !of_dropped : of_dropped;
        tried_.weights[storage] *= std::exp(up ? change : -change);
    }
    if (!evaluate(tried_)) return;
    const Fitness &now = current_.fitness, &then = tried_.fitness;
    bool accepted = then <= now;
    if (!accepted && then.bytes_over_limit == now.bytes_over_limit) {
        const double worse = double(then.objective - now.objective) / double(std::max<int64_t>(1, now.objective));
        accepted = uniform(stream.bits(2)) < std::exp(-worse / temperature);
    }
    if (accepted) std::swap(current_, tried_);
}

bool RematerializationSearch::evaluate(State& state) {
    const bool fits = best_fitness_.bytes_over_limit == 0;
    const auto longest = fits ? int64_t(kPatience * double(best_fitness_.objective)) : INT64_MAX;
    if (!decoder_.decode(state.weights, state.exponents, longest, runs_)) return false;
    judge_.take_out_unread(runs_);
    RunsCost cost = judge_.cost(runs_);
    if (cost.peak_bytes <= ops_.limit) {
        judge_.keep_what_fits(runs_);
        cost = judge_.cost(runs_);
    }
    state.dropped.clear();
    state.kept.clear();
    for (int32_t storage = 0; storage < ops_.num_storages(); ++storage)
        if (ops_.may_go[storage] && ops_.bytes[storage] > 0)
            (decoder_.dropped()[storage] ? state.dropped : state.kept).push_back(storage);
    state.fitness = {std::max<int64_t>(0, cost.peak_bytes - ops_.limit), cost.time_ns, cost.peak_bytes};
    if (state.fitness < best_fitness_) {
        best_fitness_ = state.fitness;
        best_ = runs_;
    }
    return true;
}

}  // namespace placewright
