#include "decode/priority_order.hpp"

#include <algorithm>

namespace placewright {

PriorityOrder::PriorityOrder(const Problem& problem)
    : problem_(problem),
      keys_(problem.num_ops),
      op_of_rank_(problem.num_ops),
      rank_of_op_(problem.num_ops),
      missing_(problem.num_ops),
      ready_(problem.num_ops),
      order_(problem.num_ops) {}

std::span<const int32_t> PriorityOrder::ranked(std::span<const Key> key_of_op) {
    const auto count = static_cast<uint32_t>(problem_.num_ops);
    for (uint32_t op = 0; op < count; ++op) keys_.packed[op] = pack(key_of_op[op], op);
    keys_.sort(count);
    for (uint32_t rank = 0; rank < count; ++rank) op_of_rank_[rank] = static_cast<int32_t>(keys_.item(rank));
    return op_of_rank_;
}

template <bool kSmall>
void PriorityOrder::empty_queue() {
    ReadySet<kSmall> ready(ready_, order_.size());
    std::ranges::copy(problem_.in_degree, missing_.begin());
    for (int32_t op : problem_.sources) ready.insert_if(rank_of_op_[op], 1);
    for (int32_t& op : order_) {
        op = op_of_rank_[ready.take_least()];
        for (const int32_t edge : problem_.edges[op]) {
            const int32_t next = edge >> 1;
            ready.insert_if(rank_of_op_[next], uint64_t(--missing_[next] == 0));
        }
    }
}

std::span<const int32_t> PriorityOrder::order(std::span<const Key> key_of_op) {
    ranked(key_of_op);
    for (uint32_t rank = 0; rank < op_of_rank_.size(); ++rank) rank_of_op_[op_of_rank_[rank]] = rank;
    order_.size() <= ReadySet<true>::kMaxSmall ? empty_queue<true>() : empty_queue<false>();
    return order_;
}

}  // namespace placewright
