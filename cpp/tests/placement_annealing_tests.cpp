#include "allocations.hpp"
#include "cases.hpp"
#include "placement_annealing.hpp"
#include "placements.hpp"

namespace placewright::testing {

namespace {

std::vector<std::vector<int32_t>> some_starts(const Problem& p, uint64_t seed) {
    DecodeScratch decoded(p);
    decode(p, random_keys(p, seed), decoded);
    return {all_on(p, 0), decoded.device_of};
}

Fitness dispatched(const Problem& p, std::span<const int32_t> device_of) {
    const auto timing = p.blocking ? TransferTiming::batched : TransferTiming::early;
    const auto order = with_transfers(p, device_of, dispatch_order(p, device_of), timing);
    CHECK(is_valid(p, device_of, order));
    SimulationScratch scratch(p);
    return evaluate(p, device_of, order, scratch);
}

TEST("the best placement of an annealing is valid, costs what it says and no more than any start") {
    for_each_problem(96, [](const auto& p, uint64_t seed) {
        const auto starts = some_starts(*p, seed);
        PlacementAnnealing search(p, {}, starts, seed);
        search.advance(200);
        CHECK(search.evaluations() == 200);
        CHECK(search.best_fitness() == dispatched(*p, search.best_device_of()));
        for (const auto& start : starts) CHECK(search.best_fitness() <= dispatched(*p, start));
    });
}

TEST("an annealing of placements is the same for any division into calls, and never loses its best") {
    for_each_problem(48, [](const auto& p, uint64_t seed) {
        PlacementAnnealing whole(p, {}, some_starts(*p, seed), seed), parts(p, {}, some_starts(*p, seed), seed);
        whole.advance(150);
        Fitness before;
        while (parts.evaluations() < 150) {
            parts.advance(150, 1 + parts.evaluations() % 7);
            CHECK(parts.best_fitness() <= before);
            before = parts.best_fitness();
        }
        CHECK(parts.best_fitness() == whole.best_fitness());
        CHECK(std::ranges::equal(parts.best_device_of(), whole.best_device_of()));
    });
}

TEST("an annealing of placements allocates next to nothing once it has moved for a while") {
    for (bool blocking : {false, true}) {
        const auto p = random_problem({.num_ops = 100, .num_devices = 3, .blocking = blocking}, 1);
        PlacementAnnealing search(p, {}, some_starts(*p, 1), 1);
        search.advance(20000, 5000);
        const int64_t before = allocations();
        search.advance(20000, 5000);
        CHECK(allocations() <= before + 4);  // a queue that grows longer than it ever was
    }
}

}  // namespace

}  // namespace placewright::testing
