// The random problems and chromosomes over which the tests run.
#pragma once

#include <numeric>
#include <stdexcept>

#include "check.hpp"
#include "decode/decoder.hpp"
#include "decode/paper_decoder.hpp"
#include "random_problem.hpp"
#include "simulate/simulate.hpp"
#include "support/random.hpp"

namespace placewright::testing {

// Returns another mixture for every seed: 1 to 64 devices, both transfer models, and each feature that a problem may
// have.
inline RandomProblemConfig varied(uint64_t seed) {
    const RandomStream stream(seed, 0, 0, 0);
    const auto coin = [&](uint64_t index) { return stream.bits(index) % 2 == 0; };
    constexpr int32_t kDevices[] = {1, 2, 3, 5, 8, 64};
    RandomProblemConfig config;
    config.num_ops = 1 + static_cast<int32_t>(stream.below(0, seed % 16 == 0 ? 2500 : 60));
    config.num_devices = kDevices[seed % 6];
    config.edges_per_op = 0.5 + 0.1 * stream.below(1, 30);
    config.blocking = coin(2);
    config.signals = coin(3);
    config.minimize_memory = coin(4);
    config.free_links = coin(5);
    config.with_residents = coin(6);
    config.with_views = coin(7);
    config.with_in_place = coin(8);
    config.with_groups = coin(9);
    config.with_forbidden = coin(10);
    config.with_empty_tensors = coin(11);
    config.with_unequal_devices = coin(12);
    if (coin(13)) config.memory_limit = stream.below(14, 2000);
    config.launching = static_cast<RandomProblemConfig::Launching>(stream.below(15, 3));
    config.launch_ns = 1 + stream.below(16, 200);  // ops take 50 to some hundred ns
    return config;
}

// Calls f(problem, seed) for `count` problems.
template <class F>
void for_each_problem(uint64_t count, F&& f) {
    for (uint64_t seed = 0; seed < count; ++seed) {
        current_seed = seed;
        f(random_problem(varied(seed), seed), seed);
    }
}

// Returns uniform keys; with `distinct` below 2^32 there are only so many different ones, so that ties occur.
inline std::vector<Key> random_keys(const Problem& problem, uint64_t seed, uint64_t distinct = uint64_t{1} << 32) {
    const RandomStream stream(seed, 1, 0, 0);
    std::vector<Key> keys(size_t(num_keys(problem, DecoderKind::paper)));
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<Key>(stream.bits(i) % distinct);
    return keys;
}

inline std::vector<int32_t> captured_order(const Problem& p) {
    std::vector<int32_t> ops(static_cast<size_t>(p.num_ops));
    std::iota(ops.begin(), ops.end(), 0);
    return ops;
}

inline std::span<const Step> decoded_order(const DecodeScratch& scratch) {
    return {scratch.order.data(), scratch.num_steps};
}

inline std::vector<int32_t> ops_of(std::span<const Step> order) {
    std::vector<int32_t> ops;
    for (const Step& step : order)
        if (step.is_op()) ops.push_back(step.id);
    return ops;
}

inline bool is_valid(const Problem& problem, std::span<const int32_t> device_of, std::span<const Step> order) {
    try {
        check_order(problem, device_of, order);
    } catch (const std::invalid_argument&) {
        return false;
    }
    return true;
}

inline bool equal(std::span<const Step> a, std::span<const Step> b) {
    return std::ranges::equal(
        a, b, [](const Step& x, const Step& y) { return x.id == y.id && x.destination == y.destination; });
}

inline Fitness fitness_of(const Problem& problem, std::span<const Key> keys) {
    DecodeScratch decoded(problem);
    SimulationScratch simulation(problem);
    decode(problem, keys, decoded);
    return evaluate(problem, decoded.device_of, decoded_order(decoded), simulation);
}

}  // namespace placewright::testing
