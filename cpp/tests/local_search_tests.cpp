#include "allocations.hpp"
#include "cases.hpp"
#include "construct/transfers.hpp"
#include "improve/local_search.hpp"

namespace placewright::testing {

namespace {

LocalSearchConfig varied_local_search(uint64_t seed) {
    constexpr LocalSearchConfig kConfigs[] = {
        {},
        {.evaluations_per_start = 40, .device_share = 0.2, .reach = 5},
        {.evaluations_per_start = 1},
        {.evaluations_per_start = 77, .device_share = 0.0, .reach = INT32_MAX, .accept_equal = true},
        {.device_share = 1.0, .accept_equal = true},
    };
    return kConfigs[seed % std::size(kConfigs)];
}

Fitness fitness_of(const Problem& p, const LocalSearch& search) {
    SimulationScratch scratch(p);
    const Solution best = search.best();
    CHECK(is_valid(p, best.device_of, best.order));
    return evaluate(p, best.device_of, best.order, scratch);
}

TEST("the best of a local search is valid and costs what it says") {
    for_each_problem(120, [](const auto& p, uint64_t seed) {
        LocalSearch search(p, varied_local_search(seed), seed);
        search.advance(200);
        CHECK(search.evaluations() == 200);
        CHECK(search.best_fitness() == fitness_of(*p, search));
    });
}

TEST("a local search is the same for any division into calls, and never loses its best") {
    for_each_problem(60, [](const auto& p, uint64_t seed) {
        LocalSearch whole(p, varied_local_search(seed), seed), parts(p, varied_local_search(seed), seed);
        whole.advance(150);
        Fitness before;
        while (parts.evaluations() < 150) {
            parts.advance(150, 1 + parts.evaluations() % 7);
            CHECK(parts.best_fitness() <= before);
            before = parts.best_fitness();
        }
        CHECK(parts.evaluations() == 150 && parts.best_fitness() == whole.best_fitness());
        CHECK(parts.best().device_of == whole.best().device_of);
        CHECK(equal(parts.best().order, whole.best().order));
    });
}

TEST("a local search finds the order and placement of two chains") {
    // Ops 0 and 2 make one chain, 1 and 3 another, and each op takes 10: on different devices they end at 20.
    auto p = std::make_shared<Problem>();
    p->num_ops = p->num_tensors = 4;
    p->num_devices = 2;
    p->op_time_ns.assign(8, 10);
    p->workspace_bytes.assign(4, 0);
    p->output_begin = {0, 1, 2, 3, 4};
    p->allocated_bytes = p->transfer_bytes = {1, 1, 1, 1};
    p->storage = p->group = {0, 1, 2, 3};
    p->live_out.assign(4, 0);
    p->inputs = Csr::from_rows({{}, {}, {0}, {1}});
    p->controls = p->residents = Csr::from_rows({{}, {}, {}, {}});
    p->allowed.assign(4, 3);
    p->latency_ns.assign(4, 5);
    p->inverse_bandwidth.assign(4, 0);
    p->memory_limit.assign(2, Problem::kNoLimit);
    p->blocking = true;
    p->finish();
    LocalSearch search(p, {.evaluations_per_start = 50, .reach = 4, .accept_equal = true}, 1);
    search.advance(500);
    CHECK(search.best_fitness().objective == 20);
}

TEST("a local search that cannot be is refused") {
    const auto p = random_problem({.num_ops = 10}, 1);
    const auto with_config = [&](const LocalSearchConfig& config) { LocalSearch(p, config, 1); };
    CHECK_THROWS(std::invalid_argument, with_config({.evaluations_per_start = 0}));
    CHECK_THROWS(std::invalid_argument, with_config({.device_share = -0.1}));
    CHECK_THROWS(std::invalid_argument, with_config({.device_share = 1.1}));
    CHECK_THROWS(std::invalid_argument, with_config({.device_share = __builtin_nan("")}));
    CHECK_THROWS(std::invalid_argument, with_config({.reach = 0}));
}

TEST("a local search allocates nothing while it runs, restarts among it") {
    for_each_problem(60, [](const auto& p, uint64_t seed) {
        LocalSearch search(p, varied_local_search(seed), seed);
        search.advance(1);
        const int64_t before = allocations();
        search.advance(120);
        CHECK(allocations() == before);
    });
}

}  // namespace

}  // namespace placewright::testing
