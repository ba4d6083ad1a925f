#include "construct/scored_schedule.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

#include "construct/partial_schedule.hpp"
#include "problem/readiness.hpp"
#include "support/random.hpp"

namespace placewright {

namespace {

// Ready ops by level, highest first, then in captured order.
class ReadyOps {
  public:
    ReadyOps(const Problem& problem, const PairFeatureMaker& features)
        : readiness_(problem), ready_([&features](int32_t a, int32_t b) {
              return std::tuple(-features.level(a), a) < std::tuple(-features.level(b), b);
          }) {
        readiness_.for_each_source([this](int32_t op) { ready_.insert(op); });
    }

    // The first so many, and the op that must be among them, if any.
    void window(int32_t size, int32_t wanted, std::vector<int32_t>& ops) const {
        ops.clear();
        for (auto op = ready_.begin(); op != ready_.end() && int32_t(ops.size()) < size; ++op) ops.push_back(*op);
        if (wanted >= 0 && std::ranges::find(ops, wanted) == ops.end()) ops.back() = wanted;
    }

    void placed(int32_t op) {
        ready_.erase(op);
        readiness_.finish(op, [this](int32_t next) { ready_.insert(next); });
    }

  private:
    Readiness readiness_;
    std::set<int32_t, std::function<bool(int32_t, int32_t)>> ready_;
};

// Leaves the pairs that exceed a limit least, and the wanted one in any case.
void keep_least_over(const PartialPlacement& placement, OpOnDevice wanted, std::vector<OpOnDevice>& pairs) {
    std::vector<int64_t> over;
    for (const auto& [op, device] : pairs) over.push_back(placement.bytes_over_limit(op, device));
    const int64_t least = *std::ranges::min_element(over);
    size_t kept = 0;
    for (size_t pair = 0; pair < pairs.size(); ++pair) {
        const bool is_wanted = pairs[pair].op == wanted.op && pairs[pair].device == wanted.device;
        if (over[pair] == least || is_wanted) pairs[kept++] = pairs[pair];
    }
    pairs.resize(kept);
}

}  // namespace

float PairScore::operator()(const PairFeatures& x) const {
    float score = 0;
    for (size_t i = 0; i < kPairFeatures; ++i) score += linear[i] * x[i];
    const size_t width = hidden_bias.size();
    std::array<float, kWidest> hidden;
    std::ranges::copy(hidden_bias, hidden.begin());
    for (size_t i = 0; i < kPairFeatures; ++i) {
        const float* row = hidden_weight.data() + i * width;
        for (size_t j = 0; j < width; ++j) hidden[j] += x[i] * row[j];
    }
    for (size_t j = 0; j < width; ++j) score += output[j] * std::max(0.0f, hidden[j]);
    return score;
}

PlacementAndOrder scored_schedule(const Problem& problem, const ScoredRule& rule) {
    PartialSchedule schedule(problem, problem.needs_memory);
    PairFeatureMaker features(problem, schedule);
    ReadyOps ready(problem, features);
    const RandomStream random(rule.seed.value_or(0), 0, 0, 0);
    std::vector<int32_t> compared;
    std::vector<OpOnDevice> pairs;
    std::vector<PairFeatures> rows;
    uint64_t drawn = 0;
    for (int32_t step = 0; step < problem.num_ops; ++step) {
        OpOnDevice wanted{-1, -1};
        if (!rule.given_ops.empty()) wanted = {rule.given_ops[step], rule.given_devices[rule.given_ops[step]]};
        ready.window(rule.window, wanted.op, compared);
        pairs.clear();
        for (const int32_t op : compared)
            for (uint64_t mask = schedule.placement().allowed(op); mask != 0; mask &= mask - 1)
                pairs.push_back({op, std::countr_zero(mask)});
        if (problem.needs_memory) keep_least_over(schedule.placement(), wanted, pairs);
        features.make(pairs, rows);
        size_t best = 0;
        if (wanted.op >= 0) {
            while (pairs[best].op != wanted.op || pairs[best].device != wanted.device) ++best;
        } else {
            float highest = 0;
            for (size_t pair = 0; pair < pairs.size(); ++pair) {
                float score = rule.score(rows[pair]);
                if (rule.seed) score -= static_cast<float>(std::log(-std::log(uniform(random.bits(drawn++)))));
                if (pair == 0 || score > highest) highest = score, best = pair;
            }
        }
        if (rule.steps != nullptr) {
            ScoredSteps& steps = *rule.steps;
            steps.chosen.push_back(static_cast<int32_t>(steps.rows.size() + best));
            steps.rows.insert(steps.rows.end(), rows.begin(), rows.end());
            steps.begin.push_back(static_cast<int32_t>(steps.rows.size()));
        }
        const auto [op, device] = pairs[best];
        schedule.append(op, device);
        features.placed(op, device);
        ready.placed(op);
    }
    return std::move(schedule).take();
}

PlacementAndOrder within_limits(const Problem& problem, std::span<const int32_t> device_of,
                                std::span<const int32_t> ops) {
    PartialSchedule schedule(problem);
    for (const int32_t op : ops) {
        std::tuple<int64_t, bool, int64_t> least{INT64_MAX, false, 0};
        int32_t chosen = -1;
        for (uint64_t mask = schedule.placement().allowed(op); mask != 0; mask &= mask - 1) {
            const int32_t device = std::countr_zero(mask);
            const int64_t finish = schedule.earliest_start(op, device) + problem.op_time(op, device);
            const std::tuple score{schedule.placement().bytes_over_limit(op, device), device != device_of[op], finish};
            if (score < least) least = score, chosen = device;
        }
        schedule.append(op, chosen);
    }
    return std::move(schedule).take();
}

}  // namespace placewright
