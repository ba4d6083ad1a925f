#include "allocations.hpp"
#include "cases.hpp"
#include "construct/orders.hpp"
#include "improve/peak_search.hpp"

namespace placewright::testing {

namespace {

RandomProblemConfig on_one_device(uint64_t seed) {
    RandomProblemConfig config = varied(seed);
    config.num_devices = 1;
    return config;
}

OpOrder::Window random_move(OpOrder& order, const Problem& p, uint64_t seed, uint64_t move) {
    const RandomStream stream(seed, move, 0, 7);
    const auto below = [&](uint64_t index) { return int32_t(stream.below(index, uint32_t(p.num_ops))); };
    return order.move(below(0), below(1));
}

std::vector<PlacementAndOrder> random_starts(const Problem& p, uint64_t seed) {
    std::vector<PlacementAndOrder> starts{{all_on(p, 0), captured_order(p)}};
    for (uint64_t i = 0; i < seed % 3; ++i) {
        DecodeScratch decoded(p);
        decode(p, random_keys(p, seed + i), decoded);
        starts.push_back({decoded.device_of, ops_of(decoded_order(decoded))});
    }
    return starts;
}

PeakSearch random_search(const std::shared_ptr<const Problem>& p, uint64_t seed, int64_t evaluations = 200) {
    return PeakSearch(p, {.evaluations = evaluations}, random_starts(*p, seed), seed);
}

TEST("a moved op takes along what must stay before or after it, and can be put back") {
    for_each_problem(120, [](const auto& p, uint64_t seed) {
        const auto captured = captured_order(*p);
        OpOrder order(*p, captured);
        for (uint64_t move = 0; move < 20; ++move) {
            const std::vector<int32_t> before(order.ops().begin(), order.ops().end());
            const auto window = random_move(order, *p, seed, move);
            CHECK(is_valid_order(*p, order.ops()));
            CHECK(window.empty() == std::ranges::equal(order.ops(), before));
            for (int32_t place = 0; place < p->num_ops; ++place) {
                CHECK(order.place_of(order.ops()[place]) == place);
                if (place < window.first || place > window.last) CHECK(order.ops()[place] == before[place]);
            }
            if (move % 2 == 0) continue;
            order.undo();
            CHECK(std::ranges::equal(order.ops(), before));
        }
    });
}

TEST("an op that nothing holds back moves to the place asked for") {
    // a, b and c are independent; d reads a and c, so it takes c along, and a if a is in between.
    Problem p;
    p.num_ops = 4;
    p.num_tensors = 2;
    p.num_devices = 1;
    p.op_time_ns = {1, 1, 1, 1};
    p.workspace_bytes = {0, 0, 0, 0};
    p.output_begin = {0, 1, 1, 2, 2};
    p.allocated_bytes = p.transfer_bytes = {1, 1};
    p.storage = {0, 1};
    p.live_out = {0, 0};
    p.inputs = Csr::from_rows({{}, {}, {}, {0, 1}});
    p.controls = p.residents = Csr::from_rows({{}, {}, {}, {}});
    p.group = {0, 1, 2, 3};
    p.allowed = {1, 1, 1, 1};
    p.latency_ns = p.inverse_bandwidth = {0};
    p.memory_limit = {Problem::kNoLimit};
    p.finish();
    const auto moved = [&](int32_t op, int32_t to) {
        OpOrder order(p, captured_order(p));
        order.move(op, to);
        return std::vector<int32_t>(order.ops().begin(), order.ops().end());
    };
    CHECK(moved(1, 3) == std::vector<int32_t>({0, 2, 3, 1}));
    CHECK(moved(2, 0) == std::vector<int32_t>({2, 0, 1, 3}));
    CHECK(moved(3, 1) == std::vector<int32_t>({0, 2, 3, 1}));
    CHECK(moved(3, 0) == std::vector<int32_t>({0, 2, 3, 1}));
    CHECK(moved(0, 3) == std::vector<int32_t>({1, 2, 0, 3}));
    CHECK(moved(2, 3) == std::vector<int32_t>({0, 1, 2, 3}));
}

TEST("a profile that follows moves and their undoing is the simulation's of the whole order") {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        current_seed = seed;
        const auto p = random_problem(on_one_device(seed), seed);
        const std::vector<int32_t> device_of(static_cast<size_t>(p->num_ops), 0);
        const auto captured = captured_order(*p);
        OpOrder order(*p, captured);
        MemoryProfile profile(*p), fresh(*p);
        SimulationScratch simulation(*p);
        profile.assign(order);
        profile.set_threshold(profile.peak() / 2);
        fresh.set_threshold(profile.peak() / 2);
        for (uint64_t move = 0; move < 12; ++move) {
            const auto window = random_move(order, *p, seed, move);
            if (!window.empty()) profile.change(order, window);
            if (move % 3 == 0 && !window.empty()) {
                order.undo();
                profile.undo();
            }
            std::vector<Step> steps;
            for (int32_t op : order.ops()) steps.push_back(Step::op(op));
            CHECK(profile.peak() == simulate(*p, device_of, steps, simulation).peak_memory_bytes);
            fresh.assign(order);
            CHECK(profile.excess() == fresh.excess());
            for (int32_t place = 0; place < p->num_ops; ++place) CHECK(profile.level()[place] == fresh.level()[place]);
        }
    }
}

TEST("a tree of maxima finds the largest and every place above a threshold") {
    for (int32_t size = 1; size < 40; ++size) {
        const RandomStream stream(static_cast<uint64_t>(size), 0, 0, 0);
        std::vector<int64_t> values(static_cast<size_t>(size));
        MaxTree tree(size);
        tree.assign(0, values);
        for (uint64_t round = 0; round < 30; ++round) {
            const auto first = static_cast<int32_t>(stream.below(2 * round, static_cast<uint32_t>(size)));
            for (size_t i = size_t(first); i < values.size() && i < size_t(first) + 5; ++i)
                values[i] = int64_t(stream.bits(1000 * round + i) % 100);
            tree.assign(first, std::span(values).subspan(size_t(first), std::min<size_t>(5, values.size() - first)));
            const int64_t largest = std::ranges::max(values);
            CHECK(tree.max() == largest);
            CHECK(values[size_t(tree.random_place(largest / 2, stream.bits(round)))] >= largest / 2);
        }
        std::vector<uint8_t> found(values.size());
        for (uint64_t draw = 0; draw < 4000; ++draw) found[size_t(tree.random_place(0, stream.bits(draw)))] = 1;
        CHECK(std::ranges::count(found, 1) == size);
    }
}

TEST("the best of a peak search is valid, costs what it says and is no worse than any start") {
    for_each_problem(240, [](const auto& p, uint64_t seed) {
        PeakSearch search = random_search(p, seed);
        search.advance(p->num_ops > 100 ? 60 : 200);
        SimulationScratch simulation(*p);
        CHECK(is_valid(*p, search.best().device_of, search.best().order));
        const Fitness fitness = evaluate(*p, search.best().device_of, search.best().order, simulation);
        CHECK(fitness.bytes_over_limit == search.best_fitness().bytes_over_limit);
        CHECK(fitness.objective == search.best_fitness().objective);
        PeakSearch beginning = random_search(p, seed);
        beginning.advance(std::ssize(random_starts(*p, seed)));
        CHECK(search.best_fitness() <= beginning.best_fitness());
    });
}

TEST("a peak search is the same for any division into calls, and never loses its best") {
    for_each_problem(60, [](const auto& p, uint64_t seed) {
        if (p->num_ops > 100) return;
        PeakSearch whole = random_search(p, seed), parts = random_search(p, seed);
        whole.advance(200);
        Fitness before;
        while (parts.evaluations() < 200) {
            parts.advance(200, 1 + parts.evaluations() % 7);
            CHECK(parts.best_fitness() <= before);
            before = parts.best_fitness();
        }
        CHECK(parts.evaluations() == 200 && parts.best_fitness() == whole.best_fitness());
        CHECK(equal(parts.best().order, whole.best().order));
    });
}

TEST("a peak search without a known end goes on in rounds") {
    const auto p = random_problem({.num_ops = 40, .blocking = true, .minimize_memory = true}, 5);
    PeakSearch search = random_search(p, 1, int64_t{1} << 50);
    search.advance(5000);
    const Fitness first_round = search.best_fitness();
    search.advance(40000);
    CHECK(search.evaluations() == 40000 && search.best_fitness() <= first_round);
}

TEST("a peak search allocates nothing while it runs") {
    for_each_problem(60, [](const auto& p, uint64_t seed) {
        if (p->num_ops > 100) return;
        PeakSearch search = random_search(p, seed);
        search.advance(1);
        const int64_t before = allocations();
        search.advance(200);
        CHECK(allocations() == before);
    });
}

TEST("a peak search that cannot be is refused") {
    const auto p = random_problem({.num_ops = 10}, 1);
    const auto with_config = [&](const PeakSearchConfig& config) { PeakSearch(p, config, random_starts(*p, 0), 1); };
    CHECK_THROWS(std::invalid_argument, with_config({.evaluations = 0}));
    CHECK_THROWS(std::invalid_argument, with_config({.first_temperature = 1e-5}));
    CHECK_THROWS(std::invalid_argument, with_config({.last_temperature = 0.0}));
    CHECK_THROWS(std::invalid_argument, with_config({.first_temperature = 1.0 / 0.0}));
    CHECK_THROWS(std::invalid_argument, PeakSearch(p, {}, {}, 1));
}

}  // namespace

}  // namespace placewright::testing
