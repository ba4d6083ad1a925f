#include <array>
#include <cmath>

#include "allocations.hpp"
#include "cases.hpp"
#include "improve/brkga.hpp"

namespace placewright::testing {

namespace {

KeyProposal some_proposal(const Problem& p) {
    const std::vector<double> alpha{1.0, 2.0, 0.5, 5.0}, beta{1.0, 5.0, 0.5, 2.0};
    KeyProposal proposal{std::make_shared<BetaTables>(alpha, beta), {}};
    for (int64_t i = 0; i < num_keys(p, DecoderKind::paper); ++i) proposal.row.push_back(static_cast<uint16_t>(i % 4));
    return proposal;
}

BrkgaConfig varied_config(uint64_t seed) {
    constexpr BrkgaConfig kConfigs[] = {
        {},
        {.population = 2, .elites = 1, .mutants = 1},
        {.population = 10, .elites = 9, .mutants = 0, .elite_bias = 0.5},
        {.population = 12, .elites = 3, .mutants = 2, .populations = 3, .exchange_interval = 2, .exchanged = 2},
        {.population = 7, .elites = 2, .mutants = 5, .populations = 2, .exchange_interval = 1, .exchanged = 5},
    };
    return kConfigs[seed % std::size(kConfigs)];
}

// Large problems take the same paths here and much longer.
template <class F>
void for_each_small_problem(uint64_t count, F&& f) {
    for_each_problem(count, [&](const auto& p, uint64_t seed) {
        if (p->num_ops <= 100) f(p, seed);
    });
}

std::optional<KeyProposal> maybe_proposal(const Problem& p, uint64_t seed) {
    return seed % 2 == 0 ? std::nullopt : std::optional(some_proposal(p));
}

TEST("a search is the same for any number of threads and any division into calls") {
    for_each_small_problem(40, [](const auto& p, uint64_t seed) {
        const BrkgaConfig config = varied_config(seed);
        const int64_t budget = seed % 3 == 0 ? 333 : 7 * config.population;
        Brkga one(p, config, maybe_proposal(*p, seed), {}, seed, 1);
        one.advance(budget);
        CHECK(one.evaluations() == budget);
        for (int32_t threads : {1, 2, 4}) {
            Brkga other(p, config, maybe_proposal(*p, seed), {}, seed, threads);
            while (other.evaluations() < budget) other.advance(budget, 7 * threads);
            CHECK(other.evaluations() == budget && other.generation() == one.generation());
            CHECK(other.best_fitness() == one.best_fitness());
            CHECK(std::ranges::equal(other.best_keys(), one.best_keys()));
        }
    });
}

TEST("a search spends its budget exactly, and more never makes it worse") {
    for_each_small_problem(40, [](const auto& p, uint64_t seed) {
        Fitness before;
        for (int64_t budget : {1, 2, 3, 17, 99, 100, 101, 250}) {
            Brkga search(p, varied_config(seed), maybe_proposal(*p, seed), {}, seed, 1);
            search.advance(budget);
            CHECK(search.evaluations() == budget);
            CHECK(search.best_fitness() <= before);
            CHECK(search.best_fitness() == fitness_of(*p, search.best_keys()));
            before = search.best_fitness();
        }
    });
}

TEST("whichever population the last evaluation of a budget falls to, it counts") {
    const auto p = random_problem({.num_ops = 60}, 2);
    const BrkgaConfig config{.population = 10, .elites = 2, .mutants = 2, .populations = 3, .exchanged = 1};
    std::array<int32_t, 3> improved{};  // by the population of the last individual
    Fitness before;
    for (int64_t budget = 30; budget < 30 + 24 * 20; ++budget) {
        Brkga search(p, config, std::nullopt, {}, 3, 1);
        search.advance(budget);
        if (search.best_fitness() < before) ++improved[size_t(budget + 2) % 3];
        before = search.best_fitness();
    }
    CHECK(std::ranges::all_of(improved, [](int32_t times) { return times > 0; }));
}

TEST("a search is never worse than its seeds, and best at once where one is") {
    for_each_small_problem(40, [](const auto& p, uint64_t seed) {
        const BrkgaConfig config = varied_config(seed);
        Brkga teacher(p, {}, std::nullopt, {}, seed + 1, 1);
        teacher.advance(1000);
        std::vector<std::vector<Key>> seeds(2, random_keys(*p, seed));
        seeds.back().assign(teacher.best_keys().begin(), teacher.best_keys().end());
        Brkga search(p, config, std::nullopt, seeds, seed, 2);
        for (int64_t budget = 2; budget < 200; budget += 50) {
            search.advance(budget);
            CHECK(search.best_fitness() <= teacher.best_fitness());
        }
    });
}

// The bits are the same when built with and without vectors, and for this processor. The number was computed when the
// test was written.
TEST("a search is the same however it was compiled") {
    const auto p = random_problem({.num_ops = 101}, 1);
    Brkga search(p, {}, std::nullopt, {}, 7, 1);
    search.advance(2000);
    uint64_t hash = 0;
    for (Key key : search.best_keys()) hash = mix64(hash + key + 1);
    CHECK(hash == 16080970956706430652u);
}

TEST("another seed gives another search") {
    const auto p = random_problem({.num_ops = 100}, 1);
    Brkga first(p, {}, std::nullopt, {}, 1, 1), second(p, {}, std::nullopt, {}, 2, 1);
    first.evolve(1);
    second.evolve(1);
    CHECK(!std::ranges::equal(first.best_keys(), second.best_keys()));
}

TEST("a population that exchanges its best is no worse than the best of all") {
    const auto p = random_problem({.num_ops = 80}, 4);
    const BrkgaConfig config{.population = 20, .elites = 5, .mutants = 3, .populations = 4, .exchange_interval = 3};
    Brkga search(p, config, std::nullopt, {}, 9, 2);
    Fitness before;
    for (int generation = 0; generation < 30; ++generation) {
        search.evolve(1);
        CHECK(search.best_fitness() <= before);
        before = search.best_fitness();
    }
}

TEST("configurations, proposals and seeds that cannot be are refused") {
    const auto p = random_problem({.num_ops = 10}, 1);
    const auto with_config = [&](const BrkgaConfig& config) { Brkga(p, config, std::nullopt, {}, 1, 2); };
    CHECK_THROWS(std::invalid_argument, with_config({.population = 1}));
    CHECK_THROWS(std::invalid_argument, with_config({.elites = 0}));
    CHECK_THROWS(std::invalid_argument, with_config({.elites = 100, .mutants = 0}));
    CHECK_THROWS(std::invalid_argument, with_config({.mutants = -1}));
    CHECK_THROWS(std::invalid_argument, with_config({.mutants = 81}));
    CHECK_THROWS(std::invalid_argument, with_config({.elite_bias = 0.4}));
    CHECK_THROWS(std::invalid_argument, with_config({.elite_bias = 1.0}));
    CHECK_THROWS(std::invalid_argument, with_config({.populations = 0}));
    CHECK_THROWS(std::invalid_argument, with_config({.exchange_interval = 0}));
    CHECK_THROWS(std::invalid_argument, with_config({.populations = 3, .exchanged = 41}));
    KeyProposal short_of_one = some_proposal(*p), beyond = some_proposal(*p);
    short_of_one.row.pop_back();
    beyond.row.back() = 4;
    CHECK_THROWS(std::invalid_argument, Brkga(p, {}, short_of_one, {}, 1, 1));
    CHECK_THROWS(std::invalid_argument, Brkga(p, {}, beyond, {}, 1, 1));
    CHECK_THROWS(std::invalid_argument, Brkga(p, {}, std::nullopt, {{1, 2, 3}}, 1, 1));
    const std::vector<std::vector<Key>> too_many(101, random_keys(*p, 1));
    CHECK_THROWS(std::invalid_argument, Brkga(p, {}, std::nullopt, too_many, 1, 1));
}

TEST("mean decisions are those of the individuals of the last whole generation") {
    for_each_small_problem(20, [](const auto& p, uint64_t seed) {
        const BrkgaConfig config{.population = 4, .elites = 3, .mutants = 0};
        Brkga search(p, config, maybe_proposal(*p, seed), {}, seed, 1);
        CHECK_THROWS(std::logic_error, search.mean_decisions());
        search.advance(6);
        const MeanDecisions mean = search.mean_decisions();
        const auto num_ops = size_t(p->num_ops);
        double positions = 0;
        for (size_t op = 0; op < num_ops; ++op) {
            float whole = 0;
            for (size_t device = 0; device < size_t(p->num_devices); ++device) {
                const float share = mean.share[op * size_t(p->num_devices) + device];
                CHECK(share == std::round(4 * share) / 4);
                whole += share;
            }
            CHECK(whole == 1);
            positions += mean.position[op];
        }
        // In every order positions are 0, 1, ..., n - 1, each divided by n - 1.
        if (num_ops > 1) CHECK(std::abs(positions - double(num_ops) / 2) < 1e-3 * double(num_ops));
        search.advance(7);
        CHECK(search.mean_decisions().position != mean.position || num_ops < 20);
    });
}

TEST("mean decisions of equal individuals are theirs") {
    const auto p = random_problem({.num_ops = 30, .num_devices = 3}, 5);
    const std::vector<Key> keys = random_keys(*p, 1);
    const std::vector<std::vector<Key>> seeds(2, keys);
    Brkga search(p, {.population = 2, .elites = 1, .mutants = 0}, std::nullopt, seeds, 1, 1);
    search.advance(2);
    const MeanDecisions mean = search.mean_decisions();
    const auto decoder = make_decoder(*p, DecoderKind::paper);
    const auto [device_of, order] = decoder->decode(keys);
    int32_t place = 0;
    for (const Step& step : order) {
        if (!step.is_op()) continue;
        CHECK(mean.share[size_t(step.id) * 3 + size_t(device_of[size_t(step.id)])] == 1);
        CHECK(std::abs(mean.position[size_t(step.id)] - float(place++) / 29) < 1e-6f);
    }
}

TEST("the counter of allocations counts") {
#ifndef __SANITIZE_ADDRESS__
    const int64_t before = allocations();
    const auto value = std::make_unique<int64_t>(1);
    CHECK(allocations() == before + *value);
#endif
}

TEST("a generation allocates nothing") {
    for_each_small_problem(40, [](const auto& p, uint64_t seed) {
        BrkgaConfig config = varied_config(seed);
        config.exchange_interval = 1 << 30;  // an exchange copies individuals
        Brkga search(p, config, maybe_proposal(*p, seed), {}, seed, seed % 3 == 0 ? 2 : 1);
        search.evolve(2);  // the second generation fills the spare buffers
        const int64_t before = allocations();
        search.evolve(20);
        CHECK(allocations() == before);
    });
}

}  // namespace

}  // namespace placewright::testing
