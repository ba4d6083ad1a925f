// List scheduling by a learned score: of the ready ops and their devices the pair of highest score is placed next, as
// earliest_task_first places the one that starts first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "construct/pair_features.hpp"
#include "construct/placements.hpp"
#include "problem/problem.hpp"

namespace placewright {

// score = linear . x + output . relu(hidden_weight x + hidden_bias).
struct PairScore {
    static constexpr size_t kWidest = 64;  // most hidden units

    PairFeatures linear{};
    std::vector<float> hidden_weight;  // [feature][hidden]
    std::vector<float> hidden_bias;    // [hidden]
    std::vector<float> output;         // [hidden]

    float operator()(const PairFeatures& x) const;
};

// How a schedule came about, step after step.
struct ScoredSteps {
    std::vector<PairFeatures> rows;  // [pair] of all steps
    std::vector<int32_t> begin{0};   // [step + 1] its first pair
    std::vector<int32_t> chosen;     // [step] the pair that was placed
};

struct ScoredRule {
    const PairScore& score;
    int32_t window = 32;                      // ready ops that are compared, those of highest bottom level
    std::optional<uint64_t> seed = {};        // adds Gumbel noise to scores: each pair is drawn by its softmax
    std::span<const int32_t> given_ops = {};  // a valid order to follow with given_devices, whatever the scores
    std::span<const int32_t> given_devices = {};
    ScoredSteps* steps = nullptr;  // where to write what was compared
};

// A pair over a memory limit is compared only where none is within; then those that exceed theirs least.
PlacementAndOrder scored_schedule(const Problem& problem, const ScoredRule& rule);

// The placement, but for ops that would exceed a memory limit when ops are appended in the given order: such an op goes
// where it exceeds one least and, of these, finishes first.
PlacementAndOrder within_limits(const Problem& problem, std::span<const int32_t> device_of,
                                std::span<const int32_t> ops);

}  // namespace placewright
