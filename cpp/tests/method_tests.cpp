// Tests of baselines: every order they give is valid, and what they report of it is true.
#include <numeric>

#include "cases.hpp"
#include "coarsen/chain_clusters.hpp"
#include "coarsen/coarsening.hpp"
#include "construct/dispatch.hpp"
#include "construct/inputs_aside.hpp"
#include "construct/list_schedule.hpp"
#include "construct/orders.hpp"
#include "construct/partial_schedule.hpp"
#include "construct/placements.hpp"
#include "construct/segment_fill.hpp"
#include "construct/transfers.hpp"

namespace placewright::testing {

namespace {

std::vector<std::vector<int32_t>> orders_of_all_heuristics(const Problem& p) {
    return {bfs_order(p),         dfs_order(p), lpmf_order(p), xla_list_order(p), reverse_greedy_order(p),
            bottom_level_order(p)};
}

std::vector<PlacementAndOrder> placed_by_all_methods(const Problem& p) {
    std::vector<PlacementAndOrder> placed{earliest_task_first(p), earliest_task_first(p, 1)};
    for (const auto& ops : orders_of_all_heuristics(p)) placed.push_back(list_schedule(p, ops));
    return placed;
}

TEST("every one-device order is valid") {
    for_each_problem(300, [](const auto& p, uint64_t) {
        for (const auto& ops : orders_of_all_heuristics(*p)) CHECK(is_valid_order(*p, ops));
    });
}

TEST(
    "chains of any size make a coarse problem whose placements hold for the ops, and dispatching them is a valid "
    "order") {
    for_each_problem(200, [](const auto& p, uint64_t seed) {
        const int64_t total = std::accumulate(p->op_time_ns.begin(), p->op_time_ns.end(), int64_t{0});
        const auto cluster_of = chain_clusters(*p, total / p->num_devices / int64_t(1 + seed % 50));
        const auto coarse = coarse_problem(*p, cluster_of);
        const std::vector<int32_t> device_of_cluster = list_schedule(*coarse, bottom_level_order(*coarse)).device_of;
        std::vector<int32_t> device_of;
        for (int32_t op = 0; op < p->num_ops; ++op) {
            device_of.push_back(device_of_cluster[cluster_of[op]]);
            CHECK(p->allowed[op] >> device_of[op] & 1);
            CHECK(device_of[op] == device_of[p->group[op]]);
        }
        CHECK(is_valid_order(*p, dispatch_order(*p, device_of)));
    });
}

TEST("an order with an op missing, twice or too early is no order") {
    for_each_problem(100, [](const auto& p, uint64_t) {
        if (p->num_ops > 100) return;
        std::vector<int32_t> ops = bfs_order(*p);
        for (int32_t wrong : {-1, p->num_ops, ops.front()}) {
            auto changed = ops;
            changed.back() = wrong;
            CHECK(is_valid_order(*p, changed) == (changed == ops));
        }
        ops.push_back(0);
        CHECK(!is_valid_order(*p, ops));
        for (int32_t op = 0; op < p->num_ops; ++op) {
            if (p->in_degree[op] == 0) continue;
            auto changed = bfs_order(*p);
            std::erase(changed, op);
            changed.insert(changed.begin(), op);
            CHECK(!is_valid_order(*p, changed));
        }
    });
}

TEST("a bottom level is the op's time and the longest path after it") {
    // Free links, equal devices: the level of an op is at least its time plus the level of anything that waits for it.
    for_each_problem(100, [](const auto& p, uint64_t) {
        const auto level = bottom_levels(*p);
        for (int32_t op = 0; op < p->num_ops; ++op) {
            const int64_t least =
                *std::min_element(&p->op_time_ns[size_t(op) * size_t(p->num_devices)],
                                  &p->op_time_ns[size_t(op) * size_t(p->num_devices)] + p->num_devices);
            for (int32_t t : p->inputs[op]) CHECK(level[p->producer[t]] >= level[op]);
            for (int32_t next : p->controls[op]) CHECK(level[op] >= level[next] + least);
            CHECK(level[op] >= least);
        }
    });
}

TEST("transfers of any timing complete any placement to a valid order that keeps the order of ops") {
    for_each_problem(300, [](const auto& p, uint64_t seed) {
        DecodeScratch decoded(*p);
        decode(*p, random_keys(*p, seed), decoded);
        const auto ops = ops_of(decoded_order(decoded));
        for (auto timing :
             {TransferTiming::early, TransferTiming::late, TransferTiming::batched, TransferTiming::early_free}) {
            const auto order = with_transfers(*p, decoded.device_of, ops, timing);
            CHECK(is_valid(*p, decoded.device_of, order));
            CHECK(ops_of(order) == ops);
        }
    });
}

TEST("the best transfers are the best of those allowed, and the evaluations are counted") {
    for_each_problem(200, [](const auto& p, uint64_t seed) {
        DecodeScratch decoded(*p);
        decode(*p, random_keys(*p, seed), decoded);
        const auto ops = ops_of(decoded_order(decoded));
        SimulationScratch scratch(*p);
        for (int64_t left : {1, 2, 100}) {
            const WholeOrder best = best_transfers(*p, decoded.device_of, ops, left);
            CHECK(is_valid(*p, decoded.device_of, best.order));
            CHECK(best.evaluations >= 1 && best.evaluations <= left);
            const Outcome outcome = simulate(*p, decoded.device_of, best.order, scratch);
            CHECK(best.fitness ==
                  p->fitness(outcome.bytes_over_limit, outcome.step_time_ns, outcome.peak_memory_bytes));
        }
        const Fitness best = best_transfers(*p, decoded.device_of, ops, 100).fitness;
        for (auto timing : {TransferTiming::early, TransferTiming::late}) {
            const auto order = with_transfers(*p, decoded.device_of, ops, timing);
            const Outcome outcome = simulate(*p, decoded.device_of, order, scratch);
            CHECK(best <= p->fitness(outcome.bytes_over_limit, outcome.step_time_ns, outcome.peak_memory_bytes));
        }
    });
}

TEST("list methods place every op where it may go, in a valid order") {
    for_each_problem(300, [](const auto& p, uint64_t) {
        for (const PlacementAndOrder& placed : placed_by_all_methods(*p)) {
            CHECK(is_valid_order(*p, placed.ops));
            const auto order = with_transfers(*p, placed.device_of, placed.ops, TransferTiming::late);
            CHECK(is_valid(*p, placed.device_of, order));
        }
    });
}

TEST("a partial schedule knows the times of the simulation with late, or batched and free, transfers") {
    for_each_problem(300, [](const auto& p, uint64_t seed) {
        const bool free = std::ranges::all_of(p->latency_ns, [](int64_t x) { return x == 0; }) &&
                          std::ranges::all_of(p->inverse_bandwidth, [](int64_t x) { return x == 0; });
        if (p->blocking && !free) return;
        DecodeScratch decoded(*p);
        decode(*p, random_keys(*p, seed), decoded);
        const auto ops = ops_of(decoded_order(decoded));
        PartialSchedule schedule(*p);
        for (int32_t op : ops) schedule.append(op, decoded.device_of[op]);
        const auto timing = p->blocking ? TransferTiming::batched : TransferTiming::late;
        SimulationScratch scratch(*p);
        simulate_time(*p, decoded.device_of, with_transfers(*p, decoded.device_of, ops, timing), scratch);
        for (int32_t device = 0; device < p->num_devices; ++device)
            CHECK(schedule.clock(device) == scratch.clock[size_t(device)]);
    });
}

TEST("a partial placement counts at least the memory of the simulation with late transfers that block") {
    for_each_problem(300, [](const auto& p, uint64_t seed) {
        if (!p->blocking) return;
        DecodeScratch decoded(*p);
        decode(*p, random_keys(*p, seed), decoded);
        const auto ops = ops_of(decoded_order(decoded));
        PartialPlacement placement(*p);
        std::vector<int64_t> counted(size_t(p->num_devices));
        for (int32_t op : ops) {
            const int32_t device = decoded.device_of[size_t(op)];
            counted[size_t(device)] = placement.resulting_peak(op, device);
            placement.append(op, device);
        }
        SimulationScratch scratch(*p);
        const auto order = with_transfers(*p, decoded.device_of, ops, TransferTiming::late);
        simulate(*p, decoded.device_of, order, scratch);
        for (size_t device = 0; device < counted.size(); ++device) CHECK(scratch.peak[device] <= counted[device]);
    });
}

TEST("segment-fill gives a valid order for both timings of its barriers") {
    for_each_problem(300, [](const auto& p, uint64_t) {
        for (auto timing : {BarrierTiming::when_one_starves, BarrierTiming::when_all_starve}) {
            const Solution result = segment_fill(*p, timing);
            CHECK(is_valid(*p, result.device_of, result.order));
        }
    });
}

TEST("what is decided without the inputs of groups is valid with them, and so are inputs at the beginning") {
    int32_t found = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
        current_seed = seed;
        RandomProblemConfig config = varied(seed);
        config.edges_per_op = 0.5;
        config.with_inputs = config.with_groups = true;
        const auto p = random_problem(config, seed);
        for (auto follow : {InputsFollow::group, InputsFollow::first_reader}) {
            const InputsAside inputs(*p, follow);
            if (!inputs.any()) continue;
            ++found;
            const Problem& rest = *inputs.rest();
            const PlacementAndOrder placed = inputs.whole(list_schedule(rest, bottom_level_order(rest)));
            CHECK(is_valid_order(*p, placed.ops));
            const auto order = with_transfers(*p, placed.device_of, placed.ops, TransferTiming::late);
            CHECK(is_valid(*p, placed.device_of, order));
            CHECK(is_valid(*p, placed.device_of, with_remote_inputs_first(*p, placed.device_of, order)));
            const Solution filled = inputs.whole(segment_fill(rest, BarrierTiming::when_one_starves));
            CHECK(is_valid(*p, filled.device_of, filled.order));
            CHECK(is_valid_order(*p, dispatch_order(*p, placed.device_of)));
        }
    }
    CHECK(found > 200);
}

TEST("simple placements use allowed devices and keep groups together") {
    for_each_problem(300, [](const auto& p, uint64_t) {
        std::vector<int32_t> captured(size_t(p->num_ops));
        for (int32_t op = 0; op < p->num_ops; ++op) captured[size_t(op)] = op;
        const auto check = [&](const std::vector<int32_t>& device_of) {
            CHECK(is_valid(*p, device_of, with_transfers(*p, device_of, captured, TransferTiming::early)));
        };
        for (int32_t device = 0; device < p->num_devices; ++device) check(all_on(*p, device));
        check(contiguous_runs(*p, p->memory_limit));
        check(contiguous_runs(*p, balanced_shares(*p)));
    });
}

}  // namespace

}  // namespace placewright::testing
