#include "cases.hpp"
#include "construct/partition.hpp"
#include "construct/placements.hpp"
#include "construct/transfers.hpp"

namespace placewright::testing {

namespace {

int64_t bytes_moved(const Problem& p, std::span<const int32_t> device_of) {
    std::vector<int32_t> ops(size_t(p.num_ops));
    for (int32_t op = 0; op < p.num_ops; ++op) ops[size_t(op)] = op;
    int64_t bytes = 0;
    for (const Step& step : with_transfers(p, device_of, ops, TransferTiming::late))
        if (!step.is_op()) bytes += p.transfer_bytes[size_t(step.id)];
    return bytes;
}

TEST("a partition puts every op where it may stand, with its group") {
    for_each_problem(200, [](const auto& p, uint64_t seed) {
        const auto device_of = partition(*p, {.imbalance = 0.05 * double(seed % 4), .passes = int32_t(seed % 5)});
        CHECK(device_of.size() == size_t(p->num_ops));
        for (int32_t op = 0; op < p->num_ops; ++op) {
            CHECK(device_of[op] >= 0 && device_of[op] < p->num_devices);
            CHECK(p->allowed[op] >> device_of[op] & 1);
            CHECK(device_of[op] == device_of[p->group[op]]);
        }
    });
}

TEST("more passes never move more bytes between two devices") {
    for_each_problem(200, [](const auto& p, uint64_t) {
        if (p->num_devices > 2) return;
        int64_t before = INT64_MAX;
        for (int32_t passes = 0; passes < 6; ++passes) {
            const int64_t bytes = bytes_moved(*p, partition(*p, {.passes = passes}));
            CHECK(bytes <= before);
            before = bytes;
        }
    });
}

TEST("times of a partition differ from the shares by no more than the imbalance or the longest op") {
    for (uint64_t seed = 0; seed < 40; ++seed) {
        current_seed = seed;
        const auto p = random_problem({.num_ops = 150, .num_devices = 2}, seed);
        const auto device_of = partition(*p, {.imbalance = 0.02});
        double total = 0, first = 0, longest = 0;
        for (int32_t op = 0; op < p->num_ops; ++op) {
            const auto time = double(p->op_time(op, 0));
            total += time;
            longest = std::max(longest, time);
            first += device_of[op] == 0 ? time : 0;
        }
        CHECK(std::abs(first - total / 2) <= std::max(0.02 * total, longest));
    }
}

}  // namespace

}  // namespace placewright::testing
