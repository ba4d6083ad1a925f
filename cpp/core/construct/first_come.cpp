#include "construct/first_come.hpp"

#include <algorithm>

#include "construct/dispatch.hpp"
#include "construct/transfers.hpp"
#include "support/worker_pool.hpp"

namespace placewright {

std::vector<Step> first_come_schedule(const Problem& problem, std::span<const int32_t> device_of) {
    const TransferTiming timing = problem.blocking ? TransferTiming::batched : TransferTiming::early;
    return with_transfers(problem, device_of, dispatch_order(problem, device_of, DispatchRule::first_come), timing);
}

std::vector<Outcome> measure_placements(const Problem& problem, std::span<const int32_t> placements, int32_t threads) {
    const auto num_ops = static_cast<size_t>(problem.num_ops);
    const auto count = static_cast<int32_t>(placements.size() / num_ops);
    std::vector<Outcome> outcomes(count);
    WorkerPool pool(std::clamp(count, 1, threads));
    std::vector<SimulationScratch> scratch(pool.num_threads(), SimulationScratch(problem));
    pool.run(count, [&](int32_t item, int32_t thread) {
        const auto device_of = placements.subspan(size_t(item) * num_ops, num_ops);
        outcomes[item] = simulate(problem, device_of, first_come_schedule(problem, device_of), scratch[thread]);
    });
    return outcomes;
}

}  // namespace placewright
