#include "decode/paper_decoder.hpp"

#include <algorithm>
#include <bit>

#include "decode/affinity_keys.hpp"

namespace placewright {

namespace {

// Collects ops and the transfers this placement needs as items, and ranks them by priority.
void rank(const Problem& p, std::span<const Key> keys, DecodeScratch& s) {
    const AffinityKeys layout(p);
    const Key* op_keys = keys.data() + layout.op_priority(0);
    const Key* transfer_keys = keys.data() + layout.transfer_priority(0, 0);
    auto count = static_cast<uint32_t>(p.num_ops);
    const auto add_transfer = [&](int32_t tensor, uint64_t mask) {
        const int32_t to = std::countr_zero(mask) & 63;
        s.keys.packed[count] = pack(transfer_keys[size_t(tensor) * p.num_devices + to], count);
        s.items[count] = {{tensor, to}, to, p.tensor_edges(tensor), 0, 0};
    };
    std::ranges::fill(s.destinations, 0);
    for (size_t i = 0; i < p.consumers.values.size(); ++i)
        s.destinations[p.tensor_of_consumer[i]] |= uint64_t{1} << s.device_of[p.consumers.values[i]];
    for (int32_t op = 0; op < p.num_ops; ++op) {
        const int32_t home = s.device_of[op];
        const auto first = static_cast<int32_t>(count);
        for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor) {
            uint64_t mask = s.destinations[tensor] & ~(uint64_t{1} << home);
            add_transfer(tensor, mask);  // no branch: if there is none, the next item overwrites it
            count += mask != 0;
            for (mask &= mask - 1; mask != 0; mask &= mask - 1, ++count) add_transfer(tensor, mask);
        }
        s.keys.packed[op] = pack(op_keys[op], static_cast<uint32_t>(op));
        s.items[op] = {Step::op(op), home, p.edges[op], first, static_cast<int32_t>(count)};
    }
    s.num_steps = count;
    s.keys.sort(count);
    for (uint32_t r = 0; r < count; ++r) {
        const auto item = s.keys.item(r);
        s.rank_of_item[item] = r;
        s.ranked[r] = s.items[item];
    }
    for (int32_t op = 0; op < p.num_ops; ++op) s.waiting[op] = {s.device_of[op], p.in_degree[op], s.rank_of_item[op]};
}

// Empties the queue. An item reaches its readers on its device, and control successors on any device.
template <bool kSmall>
void run_queue(const Problem& p, DecodeScratch& s) {
    ReadySet<kSmall> ready(s.ready, s.num_steps);
    DecodeScratch::Waiting* waiting = s.waiting.data();
    const auto arrive = [&](int32_t edge, int32_t device) {
        DecodeScratch::Waiting& next = waiting[edge >> 1];
        const int32_t reached = (next.device == device) | (edge & 1);
        const int32_t left = next.left -= reached;
        ready.insert_if(next.rank, uint64_t(reached & (left == 0)));
    };
    for (int32_t op : p.sources) ready.insert_if(waiting[op].rank, 1);
    for (size_t k = 0; k < s.num_steps; ++k) {
        const DecodeScratch::Item item = s.ranked[ready.take_least()];
        s.order[k] = item.step;
        for (const int32_t edge : item.edges) arrive(edge, item.device);
        for (int32_t transfer = item.transfer_begin; transfer < item.transfer_end; ++transfer)
            ready.insert_if(s.rank_of_item[transfer], 1);
    }
}

// One more than the largest number of steps: rank() writes one entry ahead.
size_t max_items(const Problem& problem) {
    return problem.num_ops + size_t(problem.num_tensors) * (problem.num_devices - 1) + 1;
}

}  // namespace

DecodeScratch::DecodeScratch(const Problem& problem)
    : device_of(problem.num_ops),
      order(max_items(problem)),
      destinations(problem.num_tensors),
      waiting(problem.num_ops),
      items(max_items(problem)),
      ranked(max_items(problem)),
      rank_of_item(max_items(problem)),
      keys(max_items(problem)),
      ready(max_items(problem)) {}

void place_by_affinity(const Problem& p, std::span<const Key> keys, std::vector<int32_t>& device_of) {
    const int32_t D = p.num_devices;
    const Key* affinity = keys.data();
    if (!p.constrained && D == 2) {
        for (int32_t op = 0; op < p.num_ops; ++op) device_of[op] = affinity[2 * op + 1] > affinity[2 * op];
        return;
    }
    for (int32_t op = 0; op < p.num_ops; ++op) {
        if (p.group[op] != op) {
            device_of[op] = device_of[p.group[op]];
            continue;
        }
        const Key* own = affinity + size_t(op) * D;
        int32_t best = -1;
        for (int32_t d = 0; d < D; ++d)
            if (p.allowed[op] >> d & 1 && (best < 0 || own[d] > own[best])) best = d;
        device_of[op] = best;
    }
}

void decode(const Problem& p, std::span<const Key> keys, DecodeScratch& s) {
    place_by_affinity(p, keys, s.device_of);
    rank(p, keys, s);
    s.num_steps <= ReadySet<true>::kMaxSmall ? run_queue<true>(p, s) : run_queue<false>(p, s);
}

}  // namespace placewright
