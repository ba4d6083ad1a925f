// Tests of supersteps: after a move everything equals a recomputation, and the simulation never takes longer.
#include "allocations.hpp"
#include "cases.hpp"
#include "construct/segment_fill.hpp"
#include "improve/superstep_annealing.hpp"

namespace placewright::testing {

namespace {

// Calls f(problem, seed) for problems as varied as the others, all with free barriers.
template <class F>
void for_each_superstep_problem(uint64_t count, F&& f) {
    for_each_problem(count, [&](const auto& varied_problem, uint64_t seed) {
        if (varied_problem->num_devices == 1 || varied_problem->num_ops > 300) return;
        auto p = std::make_shared<Problem>(*varied_problem);
        p->blocking = true;
        p->minimize_memory = false;
        std::ranges::fill(p->host_of, -1);
        p->has_hosts = false;
        p->needs_memory = std::ranges::any_of(p->memory_limit, [](int64_t x) { return x != Problem::kNoLimit; });
        std::ranges::fill(p->latency_ns, 0);
        std::ranges::fill(p->inverse_bandwidth, 0);
        CHECK(has_free_barriers(*p));
        f(std::shared_ptr<const Problem>(p), seed);
    });
}

Supersteps filled(const Problem& p) {
    const Solution start = segment_fill(p, BarrierTiming::when_all_starve);
    return Supersteps(p, places_of(p, start.device_of, start.order));
}

bool moves_alone(const Problem& p, int32_t op) { return p.group[op] == op && std::ranges::count(p.group, op) == 1; }

// Returns a random place in the op's reach; its own if the reach holds no other on the device drawn.
Place random_place(const Problem& p, const Supersteps& state, int32_t op, const RandomStream& stream, uint64_t index) {
    const Place from = state.places()[op];
    const auto device = moves_alone(p, op) ? int32_t(stream.below(index, uint32_t(p.num_devices))) : from.device;
    const Supersteps::Reach reach = state.reach(op);
    const int32_t num_open = reach.last(device) - reach.first(device) + 1;
    if (num_open < 1 || !(p.allowed[op] >> device & 1)) return from;
    return {reach.first(device) + int32_t(stream.below(index + 1, uint32_t(num_open))), device};
}

int64_t simulated(const Problem& p, const std::vector<Place>& places) {
    SimulationScratch scratch(p);
    return simulate_time(p, devices_of(places), order_of(p, places), scratch);
}

// Returns supersteps after a walk of random moves, however bad.
Supersteps walked(const Problem& p, uint64_t seed) {
    Supersteps state = filled(p);
    const RandomStream stream(seed, 2, 0, 0);
    for (uint64_t i = 0; i < 100; ++i) {
        if (i % 25 == 24) state.repack(RandomStream(seed, i, 0, 0));
        const auto op = int32_t(stream.below(3 * i, uint32_t(p.num_ops)));
        const Place to = random_place(p, state, op, stream, 3 * i + 1);
        if (to != state.places()[op]) state.move(op, to);
    }
    return state;
}

TEST("a move changes the value of the supersteps as said, and leaves loads and places that are right") {
    for_each_superstep_problem(200, [](const auto& p, uint64_t seed) {
        Supersteps state = filled(*p);
        CHECK(state.is_consistent());
        const RandomStream stream(seed, 3, 0, 0);
        for (uint64_t i = 0; i < 60; ++i) {
            const auto op = int32_t(stream.below(3 * i, uint32_t(p->num_ops)));
            const Place from = state.places()[op], to = random_place(*p, state, op, stream, 3 * i + 1);
            if (to == from) continue;
            const int64_t before = state.value();
            const int64_t change =
                state.change_in_value(from, -p->op_time(op, from.device), to, p->op_time(op, to.device));
            state.move(op, to);
            CHECK(state.value() == before + change);
            CHECK(state.is_consistent());
            CHECK(is_valid(*p, devices_of(state.places()), order_of(*p, state.places())));
        }
    });
}

TEST("beyond its reach an op breaks an order or a barrier") {
    for_each_superstep_problem(100, [](const auto& p, uint64_t seed) {
        Supersteps state = filled(*p);
        const RandomStream stream(seed, 4, 0, 0);
        for (uint64_t i = 0; i < 20; ++i) {
            const auto op = int32_t(stream.below(i, uint32_t(p->num_ops)));
            const Place from = state.places()[op];
            const Supersteps::Reach reach = state.reach(op);
            CHECK(reach.holds(from));
            for (const int32_t segment : {reach.first(from.device) - 1, reach.last(from.device) + 1}) {
                if (segment < 0 || segment >= state.num_segments()) continue;
                state.move(op, {segment, from.device});
                CHECK(!state.is_consistent());
                state.move(op, from);
            }
        }
    });
}

TEST("the simulated step time is at most the value of the supersteps") {
    for_each_superstep_problem(300, [](const auto& p, uint64_t seed) {
        const Supersteps state = walked(*p, seed);
        CHECK(simulated(*p, state.places()) <= state.value());
    });
}

// Each remaining barrier is a transfer between the two devices, which synchronises both.
TEST("with two devices and no signals the value of merged supersteps is the step time, the least of all three") {
    for_each_superstep_problem(300, [](const auto& p, uint64_t seed) {
        const Supersteps state = walked(*p, seed);
        const Supersteps merged(*p, state.merged(state.places()));
        CHECK(merged.is_consistent() && merged.value() <= state.value());
        if (p->num_devices > 2 || (p->signals && !p->controls.values.empty())) return;
        CHECK(simulated(*p, merged.places()) == merged.value());
        CHECK(merged.value() <= simulated(*p, state.places()));
    });
}

TEST("repacking never raises the value and leaves room for new segments") {
    for_each_superstep_problem(200, [](const auto& p, uint64_t seed) {
        Supersteps state = walked(*p, seed);
        const std::vector<Place> merged = state.merged(state.places());
        const int32_t num_merged = std::ranges::max(merged, {}, &Place::segment).segment + 1;
        const int64_t before = state.value();
        int32_t max_segments = 0;
        for (uint64_t generation = 0; generation < 20; ++generation) {
            state.repack(RandomStream(seed, generation, 1, 0));
            CHECK(state.value() <= before && state.is_consistent());
            CHECK(state.num_segments() <= 2 * num_merged);
            max_segments = std::max(max_segments, state.num_segments());
        }
        CHECK(num_merged == 1 || max_segments > num_merged);
    });
}

TEST("an order's places give a valid order that takes no longer") {
    for_each_superstep_problem(300, [](const auto& p, uint64_t seed) {
        DecodeScratch decoded(*p);
        decode(*p, random_keys(*p, seed), decoded);
        const std::vector<Place> places = places_of(*p, decoded.device_of, decoded_order(decoded));
        CHECK(Supersteps(*p, places).is_consistent());
        CHECK(is_valid(*p, decoded.device_of, order_of(*p, places)));
        if (p->num_devices > 2 || (p->signals && !p->controls.values.empty())) return;
        SimulationScratch scratch(*p);
        const int64_t decoded_time = simulate_time(*p, decoded.device_of, decoded_order(decoded), scratch);
        CHECK(simulated(*p, places) <= decoded_time);
    });
}

TEST("the best places of a walk are those where it stood lowest") {
    for_each_superstep_problem(60, [](const auto& p, uint64_t seed) {
        Supersteps state = filled(*p);
        BestPlaces best(*p);
        best.restart(state);
        std::vector<Place> expected = state.places();
        int64_t least = state.value();
        const RandomStream stream(seed, 5, 0, 0);
        // More moves than are remembered as changes.
        for (uint64_t i = 0; i < 3000; ++i) {
            const auto op = int32_t(stream.below(3 * i, uint32_t(p->num_ops)));
            const Place to = random_place(*p, state, op, stream, 3 * i + 1);
            if (to == state.places()[op]) continue;
            state.move(op, to);
            best.record(op, to);
            best.compare(state);
            if (state.value() < least) {
                least = state.value();
                expected = state.places();
            }
            if (i % 500 == 0) CHECK(best.places() == expected);
        }
        CHECK(best.value() == least && best.places() == expected);
    });
}

TEST("superstep annealing gives a valid order that costs what it says, no more than segment-fill") {
    for_each_superstep_problem(200, [](const auto& p, uint64_t seed) {
        SuperstepAnnealing search(p, 400, seed);
        search.advance(400);
        const auto& [device_of, order] = search.best();
        CHECK(search.evaluations() == 400 && is_valid(*p, device_of, order));
        SimulationScratch scratch(*p);
        CHECK(evaluate(*p, device_of, order, scratch) == search.best_fitness());
        for (auto timing : {BarrierTiming::when_one_starves, BarrierTiming::when_all_starve}) {
            const Solution start = segment_fill(*p, timing);
            const Fitness started = evaluate(*p, start.device_of, start.order, scratch);
            CHECK(search.best_fitness() <= started);
        }
    });
}

TEST("superstep annealing is the same for any division into calls, and never loses its best") {
    for_each_superstep_problem(40, [](const auto& p, uint64_t seed) {
        SuperstepAnnealing whole(p, 6000, seed), parts(p, 6000, seed);
        whole.advance(6000);
        Fitness before;
        while (parts.evaluations() < 6000) {
            parts.advance(6000, 1 + parts.evaluations() % 700);
            CHECK(parts.best_fitness() <= before);
            before = parts.best_fitness();
        }
        CHECK(parts.best_fitness() == whole.best_fitness() && parts.best().device_of == whole.best().device_of);
        CHECK(equal(parts.best().order, whole.best().order));
    });
}

TEST("superstep annealing gains on segment-fill, and more with more moves") {
    int64_t started = 0, short_searched = 0, searched = 0;
    for (uint64_t seed = 0; seed < 10; ++seed) {
        const auto p = random_problem({.num_ops = 100}, seed);
        SuperstepAnnealing start(p, 2, seed), brief(p, 500, seed), search(p, 20000, seed);
        start.advance(2);
        brief.advance(500);
        search.advance(20000);
        started += start.best_fitness().objective;
        short_searched += brief.best_fitness().objective;
        searched += search.best_fitness().objective;
    }
    CHECK(short_searched < started && searched < short_searched);
}

TEST("superstep annealing allocates nothing between two repackings") {
    const auto p = random_problem({.num_ops = 100}, 1);
    SuperstepAnnealing search(p, 1000000, 1);
    search.advance(3);
    const int64_t before = allocations();
    search.advance(800);
    CHECK(allocations() == before);
}

TEST("superstep annealing is refused where barriers cost something") {
    const auto with_config = [](const RandomProblemConfig& config) {
        SuperstepAnnealing(random_problem(config, 1), 10, 1);
    };
    CHECK_THROWS(std::invalid_argument, with_config({.num_ops = 9, .num_devices = 1}));
    CHECK_THROWS(std::invalid_argument, with_config({.num_ops = 9, .blocking = false}));
    CHECK_THROWS(std::invalid_argument, with_config({.num_ops = 9, .minimize_memory = true}));
    CHECK_THROWS(std::invalid_argument, with_config({.num_ops = 9, .free_links = false}));
    CHECK_THROWS(std::invalid_argument, SuperstepAnnealing(random_problem({.num_ops = 9}, 1), 0, 1));
    with_config({.num_ops = 9});
}

}  // namespace

}  // namespace placewright::testing
