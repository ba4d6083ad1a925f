#include "cases.hpp"
#include "coarsen/clustering.hpp"
#include "coarsen/coarsening.hpp"
#include "construct/list_schedule.hpp"
#include "construct/orders.hpp"
#include "construct/placements.hpp"
#include "construct/transfers.hpp"

namespace placewright::testing {

namespace {

// Returns from a few clusters to more than there are ops.
int32_t clusters_for(uint64_t seed) { return 1 + static_cast<int32_t>(seed * seed % 70); }

int64_t peak_on_one_device(const Problem& p, std::span<const int32_t> ops) {
    const std::vector<int32_t> device_of(size_t(p.num_ops), 0);
    SimulationScratch scratch(p);
    return simulate(p, device_of, with_transfers(p, device_of, ops, TransferTiming::late), scratch).peak_memory_bytes;
}

TEST("a coarse solution is a solution of the fine problem") {
    for_each_problem(400, [](const auto& p, uint64_t seed) {
        const Coarsening c = coarsen(*p, clusters_for(seed));
        const PlacementAndOrder placed = list_schedule(*c.coarse, bottom_level_order(*c.coarse));
        const PlacementAndOrder fine = expand(*p, c.cluster_of, placed.device_of, placed.ops);
        for (const TransferTiming timing : {TransferTiming::early, TransferTiming::late, TransferTiming::batched})
            CHECK(is_valid(*p, fine.device_of, with_transfers(*p, fine.device_of, fine.ops, timing)));
    });
}

TEST("clusters of one op each are the problem itself") {
    for_each_problem(200, [](const auto& p, uint64_t) {
        std::vector<int32_t> own(size_t(p->num_ops));
        for (int32_t op = 0; op < p->num_ops; ++op) own[size_t(op)] = op;
        const auto coarse = coarse_problem(*p, own);
        const PlacementAndOrder placed = list_schedule(*p, own);
        const auto fine = with_transfers(*p, placed.device_of, own, TransferTiming::late);
        const auto copy = with_transfers(*coarse, placed.device_of, own, TransferTiming::late);
        SimulationScratch scratch(*p), coarse_scratch(*coarse);
        const Outcome expected = simulate(*p, placed.device_of, fine, scratch);
        const Outcome found = simulate(*coarse, placed.device_of, copy, coarse_scratch);
        CHECK(found.step_time_ns <= expected.step_time_ns);
        CHECK(p->op_time_ns == coarse->op_time_ns);
    });
}

TEST("work is kept, and a cluster of several ops has no more than its share") {
    for_each_problem(200, [](const auto& p, uint64_t seed) {
        const int32_t most = clusters_for(seed);
        const Coarsening c = coarsen(*p, most);
        std::vector<int32_t> members(size_t(c.coarse->num_ops));
        for (int32_t own : c.cluster_of) ++members[size_t(own)];
        int64_t total = 0, coarse_total = 0;
        for (int64_t time : p->op_time_ns) total += time;
        for (int64_t time : c.coarse->op_time_ns) coarse_total += time;
        CHECK(total == coarse_total);
        for (int32_t own = 0; own < c.coarse->num_ops; ++own) {
            int64_t work = 0;
            for (int32_t device = 0; device < p->num_devices; ++device) work += c.coarse->op_time(own, device);
            CHECK(members[size_t(own)] == 1 || double(work) <= 2.0001 * double(total) / most);
        }
    });
}

TEST("without constraints there are no more clusters than asked for") {
    for (uint64_t seed = 0; seed < 60; ++seed) {
        current_seed = seed;
        const auto p =
            random_problem({.num_ops = 400, .num_devices = 2, .edges_per_op = 0.5 + 0.05 * double(seed)}, seed);
        for (int32_t most : {1, 7, 50, 399}) CHECK(coarsen(*p, most).coarse->num_ops <= most + 1);
    }
}

TEST("a solution projected onto any clusters is a solution there") {
    for_each_problem(200, [](const auto& p, uint64_t seed) {
        const Coarsening c = coarsen(*p, clusters_for(seed));
        const PlacementAndOrder placed = list_schedule(*p, bottom_level_order(*p));
        const PlacementAndOrder coarse = project(*c.coarse, c.cluster_of, placed.device_of, placed.ops);
        CHECK(is_valid(*c.coarse, coarse.device_of,
                       with_transfers(*c.coarse, coarse.device_of, coarse.ops, TransferTiming::late)));
    });
}

TEST("on one device no order takes more memory than the coarse order it comes from") {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        current_seed = seed;
        RandomProblemConfig config = varied(seed);
        config.num_devices = 1;
        const auto p = random_problem(config, seed);
        const Coarsening c = coarsen(*p, clusters_for(seed));
        const std::vector<int32_t> device_of(size_t(c.coarse->num_ops), 0);
        const std::vector<int32_t> order = bottom_level_order(*c.coarse);
        const PlacementAndOrder fine = expand(*p, c.cluster_of, device_of, order);
        CHECK(peak_on_one_device(*p, fine.ops) <= peak_on_one_device(*c.coarse, order));
    }
}

TEST("a chain becomes one op after another, each as heavy as the next") {
    const auto chain = [] {
        auto p = std::make_shared<Problem>();
        p->num_ops = p->num_tensors = 12;
        p->num_devices = 1;
        std::vector<std::vector<int32_t>> inputs(12);
        for (int32_t op = 0; op < 12; ++op) {
            if (op > 0) inputs[size_t(op)] = {op - 1};
            p->output_begin.push_back(op);
            p->storage.push_back(op);
            p->group.push_back(op);
        }
        p->output_begin.push_back(12);
        p->inputs = Csr::from_rows(inputs);
        p->controls = p->residents = Csr::from_rows(std::vector<std::vector<int32_t>>(12));
        p->op_time_ns.assign(12, 5);
        p->workspace_bytes.assign(12, 1);
        p->allocated_bytes.assign(12, 10);
        p->transfer_bytes.assign(12, 10);
        p->live_out.assign(12, 0);
        p->allowed.assign(12, 1);
        p->latency_ns = p->inverse_bandwidth = {0};
        p->memory_limit = {Problem::kNoLimit};
        p->finish();
        return p;
    }();
    // 60 ns for 6 clusters: up to 20 ns each. Four ops in each run of the last round.
    const Coarsening c = coarsen(*chain, 6);
    CHECK(c.coarse->num_ops == 3);
    CHECK((c.coarse->op_time_ns == std::vector<int64_t>{20, 20, 20}));
    // Each cluster passes on one tensor of 10 bytes; inside, two of 10 bytes and the workspace of 1 coexist: 11 more.
    CHECK(c.coarse->num_tensors == 2);
    CHECK((c.coarse->workspace_bytes == std::vector<int64_t>{11, 11, 21}));
}

TEST("clusters that are not in a valid order are refused") {
    const auto p = random_problem({.num_ops = 40}, 1);
    std::vector<int32_t> backwards(40);
    for (int32_t op = 0; op < 40; ++op) backwards[size_t(op)] = 39 - op;
    CHECK_THROWS(std::invalid_argument, coarse_problem(*p, backwards));
    CHECK_THROWS(std::invalid_argument, coarse_problem(*p, std::vector<int32_t>(39)));
    CHECK_THROWS(std::invalid_argument, coarse_problem(*p, std::vector<int32_t>(40, -1)));
}

}  // namespace

}  // namespace placewright::testing
