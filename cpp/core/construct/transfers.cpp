#include "construct/transfers.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace placewright {

namespace {

int64_t max_transfers(const Problem& problem) {
    int64_t most = 0;
    for (int32_t tensor = 0; tensor < problem.num_tensors; ++tensor)
        most += std::min<int64_t>(problem.num_devices - 1, int64_t(problem.consumers[tensor].size()));
    return most;
}

Csr members_of_storages(const Problem& problem) {
    Csr members;
    members.begin.assign(size_t(problem.num_tensors) + 1, 0);
    for (int32_t storage : problem.storage) ++members.begin[storage + 1];
    std::partial_sum(members.begin.begin(), members.begin.end(), members.begin.begin());
    members.values.resize(problem.storage.size());
    std::vector<int32_t> next(members.begin.begin(), members.begin.end() - 1);
    for (int32_t tensor = 0; tensor < problem.num_tensors; ++tensor)
        members.values[next[problem.storage[tensor]]++] = tensor;
    return members;
}

constexpr uint64_t bit(int32_t device) { return uint64_t{1} << device; }

}  // namespace

TransferPlacer::TransferPlacer(const Problem& problem)
    : problem_(problem),
      members_(members_of_storages(problem)),
      destinations_(problem.num_tensors),
      unsent_(problem.num_tensors),
      uses_left_(problem.num_tensors),
      links_(size_t(problem.num_devices) * size_t(problem.num_devices)),
      waiting_(size_t(max_transfers(problem))),
      order_(size_t(problem.num_ops) + waiting_.size()) {}

void TransferPlacer::find_destinations(std::span<const int32_t> device_of) {
    std::ranges::fill(destinations_, 0);
    std::ranges::fill(unsent_, 0);
    for (size_t i = 0; i < problem_.consumers.values.size(); ++i)
        destinations_[problem_.tensor_of_consumer[i]] |= bit(device_of[problem_.consumers.values[i]]);
    for (int32_t tensor = 0; tensor < problem_.num_tensors; ++tensor)
        destinations_[tensor] &= ~bit(device_of[problem_.producer[tensor]]);
}

void TransferPlacer::count_uses(std::span<const int32_t> device_of) {
    std::ranges::fill(uses_left_, 0);
    for (int32_t tensor = 0; tensor < problem_.num_tensors; ++tensor) {
        const int32_t home = device_of[problem_.producer[tensor]];
        int32_t uses = std::popcount(destinations_[tensor]) + problem_.live_out[tensor];
        for (int32_t consumer : problem_.consumers[tensor]) uses += device_of[consumer] == home;
        uses_left_[problem_.storage[tensor]] += uses;
    }
}

void TransferPlacer::wait(int32_t tensor, int32_t source, uint64_t destinations) {
    for (; destinations != 0; destinations &= destinations - 1) {
        const int32_t destination = std::countr_zero(destinations), item = static_cast<int32_t>(num_waiting_++);
        Link& line = link(source, destination);
        waiting_[item] = {{tensor, destination}, -1};
        (line.first < 0 ? line.first : waiting_[line.last].next) = item;
        line.last = item;
    }
}

void TransferPlacer::send_waiting(Link& link) {
    for (int32_t item = link.first; item >= 0; item = waiting_[item].next)
        send(waiting_[item].transfer.id, waiting_[item].transfer.destination);
    link.first = -1;
}

void TransferPlacer::send(int32_t tensor, int32_t destination) {
    order_[num_steps_++] = {tensor, destination};
    unsent_[tensor] &= ~bit(destination);
}

void TransferPlacer::use(int32_t storage) {
    if (--uses_left_[storage] == 1) free_by_sending(storage);
}

// Sends a tensor if that is the only use left of its storage and the tensor is made already.
void TransferPlacer::free_by_sending(int32_t storage) {
    for (int32_t tensor : members_[storage]) {
        if (unsent_[tensor] == 0) continue;
        --uses_left_[storage];
        return send(tensor, std::countr_zero(unsent_[tensor]));
    }
}

template <TransferTiming kTiming>
void TransferPlacer::run(std::span<const int32_t> device_of, std::span<const int32_t> ops) {
    for (int32_t op : ops) {
        const int32_t here = device_of[op];
        for (int32_t tensor : problem_.inputs[op]) {
            if (!(unsent_[tensor] & bit(here))) continue;
            const int32_t there = device_of[problem_.producer[tensor]];
            if (kTiming == TransferTiming::batched) {
                send_waiting(link(there, here));
                send_waiting(link(here, there));
            } else {
                send(tensor, here);
                if (kTiming == TransferTiming::early_free) use(problem_.storage[tensor]);
            }
        }
        order_[num_steps_++] = Step::op(op);
        for (int32_t tensor = problem_.output_begin[op]; tensor < problem_.output_begin[op + 1]; ++tensor) {
            unsent_[tensor] = destinations_[tensor];
            if (kTiming == TransferTiming::batched) wait(tensor, here, unsent_[tensor]);
            if (kTiming == TransferTiming::early)
                while (unsent_[tensor] != 0) send(tensor, std::countr_zero(unsent_[tensor]));
        }
        if (kTiming != TransferTiming::early_free) continue;
        for (int32_t tensor : problem_.inputs[op])
            if (device_of[problem_.producer[tensor]] == here) use(problem_.storage[tensor]);
        for (int32_t tensor = problem_.output_begin[op]; tensor < problem_.output_begin[op + 1]; ++tensor)
            if (uses_left_[problem_.storage[tensor]] == 1) free_by_sending(problem_.storage[tensor]);
    }
}

std::span<const Step> TransferPlacer::place(std::span<const int32_t> device_of, std::span<const int32_t> ops,
                                            TransferTiming timing) {
    num_steps_ = num_waiting_ = 0;
    find_destinations(device_of);
    if (timing == TransferTiming::early) run<TransferTiming::early>(device_of, ops);
    if (timing == TransferTiming::late) run<TransferTiming::late>(device_of, ops);
    if (timing == TransferTiming::batched) run<TransferTiming::batched>(device_of, ops);
    if (timing == TransferTiming::early_free) {
        count_uses(device_of);
        run<TransferTiming::early_free>(device_of, ops);
    }
    return {order_.data(), num_steps_};
}

std::vector<Step> with_transfers(const Problem& problem, std::span<const int32_t> device_of,
                                 std::span<const int32_t> ops, TransferTiming timing) {
    TransferPlacer placer(problem);
    const std::span<const Step> order = placer.place(device_of, ops, timing);
    return {order.begin(), order.end()};
}

}  // namespace placewright
