#include "allocations.hpp"
#include "cases.hpp"
#include "improve/exact_order.hpp"

namespace placewright::testing {

namespace {

std::shared_ptr<const Problem> small_problem(uint64_t seed, int32_t max_ops) {
    RandomProblemConfig config = varied(seed);
    config.num_devices = 1;
    config.minimize_memory = true;
    config.num_ops = 1 + static_cast<int32_t>(seed % uint64_t(max_ops));
    return random_problem(config, seed);
}

int64_t peak_of(const Problem& p, std::span<const int32_t> ops) {
    std::vector<Step> order;
    for (int32_t op : ops) order.push_back(Step::op(op));
    SimulationScratch simulation(p);
    return evaluate(p, std::vector<int32_t>(size_t(p.num_ops)), order, simulation).objective;
}

// Returns the bytes held on the device when a set of ops, a bit mask, has finished, by definition.
int64_t held(const Problem& p, uint32_t finished) {
    int64_t bytes = 0;
    std::vector<uint8_t> resident(p.resident_bytes.size());
    for (int32_t op = 0; op < p.num_ops; ++op)
        for (int32_t r : p.residents[op]) resident[size_t(r)] = 1;
    for (size_t r = 0; r < resident.size(); ++r) bytes += resident[r] ? p.resident_bytes[r] : 0;
    for (int32_t storage = 0; storage < p.num_tensors; ++storage) {
        bool wanted = p.live_out[storage];
        for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor) {
            if (p.storage[tensor] != storage) continue;
            wanted |= !(finished >> p.producer[tensor] & 1);
            for (int32_t reader : p.consumers[tensor]) wanted |= !(finished >> reader & 1);
        }
        if (wanted && (finished >> p.producer[storage] & 1)) bytes += p.allocated_bytes[storage];
    }
    return bytes;
}

// Finds the least peak by dynamic programming over all sets of finished ops.
int64_t least_peak(const Problem& p) {
    std::vector<uint32_t> before(size_t(p.num_ops));
    for (int32_t op = 0; op < p.num_ops; ++op)
        for (int32_t edge : p.edges[op]) before[size_t(edge / 2)] |= uint32_t{1} << op;
    const uint32_t all = (uint32_t{1} << p.num_ops) - 1;
    std::vector<int64_t> least(size_t(all) + 1, INT64_MAX);
    least[0] = 0;
    for (uint32_t set = 0; set < all; ++set) {
        if (least[set] == INT64_MAX) continue;
        const int64_t bytes = held(p, set);
        for (int32_t op = 0; op < p.num_ops; ++op) {
            const uint32_t bit = uint32_t{1} << op;
            if ((set & bit) || (before[size_t(op)] & ~set)) continue;
            const int64_t level = bytes + p.output_bytes[op] + p.workspace_bytes[op];
            least[set | bit] = std::min(least[set | bit], std::max(least[set], level));
        }
    }
    return least[all];
}

TEST("the exact order has the least peak of all") {
    for (uint64_t seed = 0; seed < 400; ++seed) {
        current_seed = seed;
        const auto p = small_problem(seed, 12);
        ExactOrder search(p, captured_order(*p), 0);
        search.advance(1000000);
        CHECK(search.is_exhausted());
        CHECK(search.best_fitness().objective == least_peak(*p));
        CHECK(search.bound_bytes() == search.best_fitness().objective);
        CHECK(search.best_fitness().objective == peak_of(*p, ops_of(search.best().order)));
    }
}

TEST("what counts as nothing leaves a bound, and an order no worse than the start") {
    for (uint64_t seed = 0; seed < 400; ++seed) {
        current_seed = seed;
        const auto p = small_problem(seed, 12);
        ExactOrder search(p, captured_order(*p), 45);  // of some 50 bytes each
        search.advance(1000000);
        CHECK(search.is_exhausted());
        CHECK(search.bound_bytes() <= least_peak(*p));
        CHECK(search.best_fitness().objective == peak_of(*p, ops_of(search.best().order)));
        CHECK(search.best_fitness().objective <= peak_of(*p, captured_order(*p)));
        auto without = std::make_shared<Problem>(*p);
        for (int64_t& bytes : without->allocated_bytes) bytes = bytes < 45 ? 0 : bytes;
        for (int32_t op = 0; op < p->num_ops; ++op) {
            without->output_bytes[op] = 0;
            for (int32_t t = p->output_begin[op]; t < p->output_begin[op + 1]; ++t)
                without->output_bytes[op] += without->allocated_bytes[t];
        }
        CHECK(search.bound_bytes() == least_peak(*without));
    }
}

TEST("where an exact search pauses does not change where it leads, and it is never worse than its start") {
    for (uint64_t seed = 0; seed < 60; ++seed) {
        current_seed = seed;
        const auto p = small_problem(seed, 60);
        ExactOrder whole(p, captured_order(*p), 0), paused(p, captured_order(*p), 0);
        whole.advance(500);
        while (paused.evaluations() < 500 && !paused.is_exhausted()) paused.advance(500, 1 + int64_t(seed % 7));
        CHECK(whole.evaluations() == paused.evaluations());
        CHECK(whole.is_exhausted() == paused.is_exhausted());
        CHECK(ops_of(whole.best().order) == ops_of(paused.best().order));
        CHECK(whole.best_fitness().objective <= peak_of(*p, captured_order(*p)));
    }
}

TEST("an exact search allocates nothing while it runs") {
    for (uint64_t seed = 0; seed < 20; ++seed) {
        current_seed = seed;
        const auto p = small_problem(seed, 60);
        ExactOrder search(p, captured_order(*p), 0);
        const int64_t before = allocations();
        search.advance(2000);
        CHECK(allocations() == before);
    }
}

}  // namespace

}  // namespace placewright::testing
