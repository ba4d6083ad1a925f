#include "construct/placements.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "construct/transfers.hpp"
#include "simulate/simulate.hpp"

namespace placewright {

namespace {

// Returns `wanted` if the op may go there, else the first device it may use.
int32_t nearest_allowed(const Problem& problem, int32_t op, int32_t wanted) {
    const bool allowed = problem.allowed[op] >> wanted & 1;
    return allowed ? wanted : std::countr_zero(problem.allowed[op]);
}

// Returns the bytes each op adds: its outputs, and residents at their first reader.
std::vector<int64_t> bytes_by_op(const Problem& problem) {
    std::vector<int64_t> bytes(problem.output_bytes);
    std::vector<uint8_t> counted(problem.resident_bytes.size());
    for (int32_t op = 0; op < problem.num_ops; ++op)
        for (int32_t resident : problem.residents[op]) {
            bytes[op] += counted[resident] ? 0 : problem.resident_bytes[resident];
            counted[resident] = 1;
        }
    return bytes;
}

}  // namespace

WholeOrder best_transfers(const Problem& problem, std::span<const int32_t> device_of, std::span<const int32_t> ops,
                          int64_t evaluations_left) {
    SimulationScratch scratch(problem);
    WholeOrder best;
    for (TransferTiming timing : {TransferTiming::early, TransferTiming::late, TransferTiming::batched}) {
        if (timing == TransferTiming::batched && !problem.blocking) break;
        if (best.evaluations > 0 && best.evaluations >= evaluations_left) break;
        std::vector<Step> order = with_transfers(problem, device_of, ops, timing);
        const Outcome outcome = simulate(problem, device_of, order, scratch);
        const Fitness fitness =
            problem.fitness(outcome.bytes_over_limit, outcome.step_time_ns, outcome.peak_memory_bytes);
        ++best.evaluations;
        if (fitness < best.fitness) {
            best.fitness = fitness;
            best.order = std::move(order);
        }
        if (best.order.size() == ops.size()) break;
    }
    return best;
}

std::vector<int32_t> all_on(const Problem& problem, int32_t device) {
    std::vector<int32_t> device_of(problem.num_ops);
    for (int32_t op = 0; op < problem.num_ops; ++op) device_of[op] = nearest_allowed(problem, op, device);
    return device_of;
}

std::vector<int32_t> contiguous_runs(const Problem& problem, std::span<const int64_t> shares) {
    const std::vector<int64_t> bytes = bytes_by_op(problem);
    std::vector<int32_t> device_of(problem.num_ops);
    int32_t device = 0;
    int64_t filled = 0;
    for (int32_t op = 0; op < problem.num_ops; ++op) {
        if (device + 1 < problem.num_devices && filled > 0 && filled + bytes[op] > shares[device]) {
            ++device;
            filled = 0;
        }
        filled += bytes[op];
        const int32_t first = problem.group[op];
        device_of[op] = first == op ? nearest_allowed(problem, op, device) : device_of[first];
    }
    return device_of;
}

std::vector<int64_t> balanced_shares(const Problem& problem) {
    const std::vector<int64_t> bytes = bytes_by_op(problem);
    const double total = double(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
    const bool limited = std::ranges::all_of(problem.memory_limit, [](int64_t x) { return x != Problem::kNoLimit; });
    const auto weight = [&](int64_t limit) { return limited ? double(limit) : 1.0; };
    double weights = 0;
    for (int64_t limit : problem.memory_limit) weights += weight(limit);
    std::vector<int64_t> shares;
    for (int64_t limit : problem.memory_limit) shares.push_back(static_cast<int64_t>(total * weight(limit) / weights));
    return shares;
}

}  // namespace placewright
