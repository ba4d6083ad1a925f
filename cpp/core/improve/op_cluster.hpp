// Ops that change their device together: neighbours in the graph that are on one device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/problem.hpp"
#include "support/random.hpp"

namespace placewright {

class OpCluster {
  public:
    enum class Direction { up, down, both };  // along dependencies

    explicit OpCluster(const Problem& problem);

    // Grows a cluster from `op` and its group to about `size` ops. Uses draws from index 100 of the stream on.
    void grow(const RandomStream& stream, std::span<const int32_t> device_of, int32_t op, int32_t size,
              Direction direction);
    std::span<const int32_t> members() const { return members_; }

    // Returns the device of a neighbour of the cluster on another device, drawn among a few; -1 if there is none.
    int32_t neighbouring_device(const RandomStream& stream, std::span<const int32_t> device_of) const;

    // The ops that share the device of `op`, itself among them.
    std::span<const int32_t> group(int32_t op) const { return problem_.members[problem_.group[op]]; }

  private:
    bool contains(int32_t op) const { return joined_in_[op] == number_; }
    void add_group(int32_t op);

    const Problem& problem_;
    std::vector<int32_t> members_;
    std::vector<uint32_t> joined_in_;  // [op] number of the last cluster it belonged to
    uint32_t number_ = 0;
};

}  // namespace placewright
