#include "allocations.hpp"
#include "cases.hpp"
#include "construct/eviction.hpp"
#include "construct/transfers.hpp"

namespace placewright::testing {

namespace {

struct Placed {
    std::vector<int32_t> device_of, ops;
};

Placed random_placed(const Problem& p, uint64_t seed) {
    DecodeScratch decoded(p);
    decode(p, random_keys(p, seed), decoded);
    return {decoded.device_of, ops_of(decoded_order(decoded))};
}

std::vector<int64_t> same_target(const Problem& p, int64_t bytes) {
    return std::vector<int64_t>(size_t(p.num_devices), bytes);
}

// Returns targets from nothing to everything, different for each device.
std::vector<int64_t> random_target(const Problem& p, uint64_t seed) {
    std::vector<int64_t> target;
    for (int32_t device = 0; device < p.num_devices; ++device)
        target.push_back(RandomStream(seed, 2, 0, 0).below(uint64_t(device), 2000));
    return target;
}

TEST("with evictions an order is valid, and its ops stand where they stood") {
    for_each_problem(240, [](const auto& p, uint64_t seed) {
        const Placed placed = random_placed(*p, seed);
        Eviction eviction(*p);
        const auto order = eviction.order(placed.device_of, placed.ops, random_target(*p, seed));
        CHECK(is_valid(*p, placed.device_of, order));
        CHECK(ops_of(order) == placed.ops);
    });
}

TEST("where transfers block, eviction counts the peaks that the simulation finds") {
    for_each_problem(240, [](const auto& p, uint64_t seed) {
        if (!p->blocking) return;
        const Placed placed = random_placed(*p, seed);
        Eviction eviction(*p);
        SimulationScratch simulation(*p);
        const auto order = eviction.order(placed.device_of, placed.ops, random_target(*p, seed));
        simulate(*p, placed.device_of, order, simulation);
        CHECK(std::ranges::equal(eviction.peak(), simulation.peak));
    });
}

TEST("below the target nothing is evicted: transfers are late") {
    for_each_problem(120, [](const auto& p, uint64_t seed) {
        const Placed placed = random_placed(*p, seed);
        Eviction eviction(*p);
        const auto order = eviction.order(placed.device_of, placed.ops, same_target(*p, Problem::kNoLimit));
        CHECK(equal(order, with_transfers(*p, placed.device_of, placed.ops, TransferTiming::late)));
    });
}

TEST("an eviction used again gives what a new one gives, and allocates nothing") {
    for_each_problem(120, [](const auto& p, uint64_t seed) {
        Eviction used(*p), fresh(*p);
        const Placed first = random_placed(*p, seed), second = random_placed(*p, seed + 1000);
        const auto target = random_target(*p, seed);
        const auto expected = fresh.order(second.device_of, second.ops, target);
        used.order(first.device_of, first.ops, target);
        const int64_t before = allocations();
        const auto order = used.order(second.device_of, second.ops, target);
        CHECK(allocations() == before);
        CHECK(equal(order, expected));
    });
}

TEST("eviction lowers peaks far more often than it raises them") {
    int lowered = 0, raised = 0;
    for (uint64_t seed = 0; seed < 100; ++seed) {
        current_seed = seed;
        const auto p = random_problem({.num_ops = 60, .blocking = true, .minimize_memory = true}, seed);
        const Placed placed = random_placed(*p, seed);
        Eviction eviction(*p);
        eviction.order(placed.device_of, placed.ops, same_target(*p, Problem::kNoLimit));
        const int64_t late = std::ranges::max(eviction.peak());
        eviction.order(placed.device_of, placed.ops, same_target(*p, late * 9 / 10));
        const int64_t evicted = std::ranges::max(eviction.peak());
        lowered += evicted < late;
        raised += evicted > late;
    }
    CHECK(lowered > 80 && raised < 10);
}

}  // namespace

}  // namespace placewright::testing
