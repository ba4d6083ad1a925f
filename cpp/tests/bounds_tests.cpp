#include <numeric>

#include "bounds/memory.hpp"
#include "bounds/time.hpp"
#include "cases.hpp"
#include "problem/delays.hpp"
#include "support/minimum_cut.hpp"

namespace placewright::testing {

namespace {

TimeBounds bounds_with_equal_weights(const Problem& p, int64_t budget) {
    std::vector<int64_t> work(size_t(p.num_ops), INT64_MAX);
    for (int32_t op = 0; op < p.num_ops; ++op)
        for (int32_t device = 0; device < p.num_devices; ++device)
            if (p.allowed[op] >> device & 1) work[size_t(op)] = std::min(work[size_t(op)], p.op_time(op, device));
    return time_bounds(p, work, p.num_devices, 1, budget);
}

TEST("no bound is above what a decoded order costs, whatever it may look at") {
    for_each_problem(400, [](const auto& p, uint64_t seed) {
        DecodeScratch decoded(*p);
        SimulationScratch s(*p);
        const auto keys = random_keys(*p, seed);
        decode(*p, keys, decoded);
        const Outcome found = simulate(*p, decoded.device_of, decoded_order(decoded), s);
        for (int64_t budget : {int64_t{1}, int64_t{1000}, int64_t{200'000}}) {
            const TimeBounds time = bounds_with_equal_weights(*p, budget);
            CHECK(time.path_ns <= time.chain_ns);
            CHECK(time.chain_ns <= found.step_time_ns);
            CHECK(time.window_ns <= found.step_time_ns);
            const LiveMemoryBound live = live_memory_bound(*p, budget);
            CHECK(live.bytes <= found.peak_memory_bytes * p->num_devices);
            CHECK(live.bytes <= std::accumulate(s.peak.begin(), s.peak.end(), int64_t{0}));
        }
    });
}

TEST("looking at more never proves less") {
    for_each_problem(200, [](const auto& p, uint64_t) {
        const LiveMemoryBound little = live_memory_bound(*p, 2000), more = live_memory_bound(*p, 2'000'000);
        CHECK(little.bytes <= more.bytes);
        if (little.exact) CHECK(more.exact && little.op == more.op);
        CHECK(bounds_with_equal_weights(*p, 1).chain_ns <= bounds_with_equal_weights(*p, 1'000'000).chain_ns);
    });
}

TEST("delays turned round twice are the same") {
    for_each_problem(100, [](const auto& p, uint64_t) {
        const Delays delays(*p), turned = delays.reversed(), again = turned.reversed();
        CHECK(again.before.begin == delays.before.begin);
        CHECK(again.before.values == delays.before.values);
        CHECK(again.between_ns == delays.between_ns);
        for (int32_t op = 0; op < p->num_ops; ++op)
            for (int32_t other : turned.before[op]) CHECK(other < op);
    });
}

struct Arc {
    int32_t from, to;
    int64_t capacity;
};

int64_t least_cut_of_all(int32_t num_nodes, const std::vector<Arc>& arcs) {
    int64_t least = INT64_MAX;
    for (uint32_t side = 0; side < uint32_t{1} << num_nodes; ++side) {
        if (!(side & 1) || (side & 2)) continue;
        int64_t cut = 0;
        for (const Arc& arc : arcs) cut += (side >> arc.from & 1) && !(side >> arc.to & 1) ? arc.capacity : 0;
        least = std::min(least, cut);
    }
    return least;
}

TEST("a minimum cut is the least of all cuts, and so are the arcs that leave its side") {
    MinimumCut cut;
    for (uint64_t seed = 0; seed < 500; ++seed) {
        current_seed = seed;
        const RandomStream stream(seed, 0, 0, 0);
        const auto num_nodes = static_cast<int32_t>(2 + stream.below(0, 7));
        std::vector<Arc> arcs;
        cut.reset();
        for (int32_t node = 2; node < num_nodes; ++node) cut.add_node();
        for (uint64_t i = 1; i <= stream.below(1000, 25); ++i) {
            const Arc arc{int32_t(stream.below(3 * i, num_nodes)), int32_t(stream.below(3 * i + 1, num_nodes)),
                          int64_t(stream.below(3 * i + 2, 9))};
            if (arc.from == arc.to) continue;
            arcs.push_back(arc);
            cut.add_arc(arc.from, arc.to, arc.capacity);
        }
        int64_t budget = 1'000'000;
        const int64_t value = cut.solve(budget);
        CHECK(cut.finished());
        CHECK(value == least_cut_of_all(num_nodes, arcs));
        int64_t leaving = 0;
        for (const Arc& arc : arcs)
            leaving += cut.on_source_side(arc.from) && !cut.on_source_side(arc.to) ? arc.capacity : 0;
        CHECK(value == leaving);
    }
}

}  // namespace

}  // namespace placewright::testing
