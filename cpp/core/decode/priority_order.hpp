// The order of ops in which one queue of ready ops is emptied by falling priority, whatever devices the ops are on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/packed_keys.hpp"
#include "problem/problem.hpp"
#include "support/ready_set.hpp"

namespace placewright {

class PriorityOrder {
  public:
    explicit PriorityOrder(const Problem& problem);

    // Returns all ops by falling key, whether ready or not (the lower op first on ties); valid until the next call.
    std::span<const int32_t> ranked(std::span<const Key> key_of_op);

    // Returns a valid order of all ops: always the ready one of highest key. Valid until the next call.
    std::span<const int32_t> order(std::span<const Key> key_of_op);

  private:
    template <bool kSmall>
    void empty_queue();

    const Problem& problem_;
    PackedKeys keys_;
    std::vector<int32_t> op_of_rank_;
    std::vector<uint32_t> rank_of_op_;
    std::vector<int32_t> missing_;  // [op] inputs and control predecessors that were not taken yet
    ReadySetBuffers ready_;
    std::vector<int32_t> order_;
};

}  // namespace placewright
