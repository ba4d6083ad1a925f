// The order in which links serve transfers, when devices and the order of their ops are given.
#pragma once

#include <optional>
#include <span>

#include "problem/problem.hpp"

namespace placewright {

// The search for orders of links in one problem, in which transfers overlap and no host launches ops.
class LinkOrders {
  public:
    explicit LinkOrders(const Problem& problem) : problem_(problem) {}

    // Returns a solution that ends by limit_ns, in which devices run their ops in the order of `ops`. Returns nothing
    // if there is none, or if it was not found within max_orders partial orders; gave_up() tells which.
    std::optional<Solution> find(std::span<const int32_t> device_of, std::span<const int32_t> ops, int64_t limit_ns,
                                 int64_t max_orders);

    bool gave_up() const { return num_orders_ > max_orders_; }
    int64_t num_orders() const { return num_orders_; }

  private:
    struct Arc {
        int32_t from, to;  // steps: op i is step i; transfers follow
        int64_t wait_ns;   // between the end of `from` and the start of `to`
    };

    void add_ops(std::span<const int32_t> ops);
    void add_transfers();
    bool is_same_link(int32_t one, int32_t other) const;
    // start: the start times of the order that this one extends.
    bool extend(std::vector<int64_t> start);
    bool find_starts(std::vector<int64_t>& start) const;
    bool in_order(const std::vector<int64_t>& start);

    const Problem& problem_;
    std::span<const int32_t> device_of_;
    int64_t limit_ns_ = 0, num_orders_ = 0, max_orders_ = 0;
    std::vector<Step> steps_;
    std::vector<int64_t> duration_;  // [step]
    std::vector<Arc> arcs_;
    Solution found_;
};

}  // namespace placewright
