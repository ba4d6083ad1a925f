#include "allocations.hpp"
#include "cases.hpp"
#include "improve/annealing.hpp"

namespace placewright::testing {

namespace {

AnnealingConfig varied_annealing(uint64_t seed) {
    constexpr AnnealingConfig kConfigs[] = {
        {},
        {.keys_per_move = 1},
        {.keys_per_move = 100, .first_temperature = 1.0, .last_temperature = 1e-12},
        {.first_temperature = 1e-3, .last_temperature = 1e-3},
    };
    return kConfigs[seed % std::size(kConfigs)];
}

std::optional<KeyProposal> skewed_proposal(const Problem& p, uint64_t seed) {
    if (seed % 2 == 0) return std::nullopt;
    const std::vector<double> alpha{1.0, 2.0, 0.5}, beta{1.0, 5.0, 0.5};
    KeyProposal proposal{std::make_shared<BetaTables>(alpha, beta), {}};
    for (int64_t i = 0; i < num_keys(p, DecoderKind::paper); ++i) proposal.row.push_back(static_cast<uint16_t>(i % 3));
    return proposal;
}

TEST("the best keys of an annealing cost what it says") {
    for_each_problem(120, [](const auto& p, uint64_t seed) {
        Annealing search(p, varied_annealing(seed), skewed_proposal(*p, seed), seed);
        search.advance(200);
        CHECK(search.evaluations() == 200);
        CHECK(search.best_fitness() == fitness_of(*p, search.best_keys()));
    });
}

TEST("an annealing is the same for any division into calls, and never loses its best") {
    for_each_problem(60, [](const auto& p, uint64_t seed) {
        Annealing whole(p, varied_annealing(seed), skewed_proposal(*p, seed), seed);
        Annealing parts(p, varied_annealing(seed), skewed_proposal(*p, seed), seed);
        whole.advance(150);
        Fitness before;
        while (parts.evaluations() < 150) {
            parts.advance(150, 1 + parts.evaluations() % 7);
            CHECK(parts.best_fitness() <= before);
            before = parts.best_fitness();
        }
        CHECK(parts.evaluations() == 150 && parts.best_fitness() == whole.best_fitness());
        CHECK(std::ranges::equal(parts.best_keys(), whole.best_keys()));
    });
}

TEST("a cold annealing ends lower than a hot one") {
    const auto p = random_problem({.num_ops = 60}, 3);
    const AnnealingConfig cold{}, hot{4, 10.0, 10.0};
    Annealing falling(p, cold, std::nullopt, 1), wandering(p, hot, std::nullopt, 1);
    falling.advance(3000);
    wandering.advance(3000);
    CHECK(falling.best_fitness() < wandering.best_fitness());
}

TEST("an annealing that cannot be is refused") {
    const auto p = random_problem({.num_ops = 10}, 1);
    const auto with_config = [&](const AnnealingConfig& config) { Annealing(p, config, std::nullopt, 1); };
    CHECK_THROWS(std::invalid_argument, with_config({.keys_per_move = 0}));
    CHECK_THROWS(std::invalid_argument, with_config({.first_temperature = 1e-5}));
    CHECK_THROWS(std::invalid_argument, with_config({.last_temperature = 0.0}));
    CHECK_THROWS(std::invalid_argument, with_config({.first_temperature = 1.0 / 0.0}));
    KeyProposal short_of_one = *skewed_proposal(*p, 1), beyond = short_of_one;
    short_of_one.row.pop_back();
    beyond.row.back() = 3;
    CHECK_THROWS(std::invalid_argument, Annealing(p, {}, short_of_one, 1));
    CHECK_THROWS(std::invalid_argument, Annealing(p, {}, beyond, 1));
}

TEST("an annealing allocates nothing while it runs") {
    for_each_problem(60, [](const auto& p, uint64_t seed) {
        if (p->num_ops > 100) return;
        Annealing search(p, varied_annealing(seed), skewed_proposal(*p, seed), seed);
        search.advance(1);
        const int64_t before = allocations();
        search.advance(120);
        CHECK(allocations() == before);
    });
}

}  // namespace

}  // namespace placewright::testing
