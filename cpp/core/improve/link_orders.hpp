// In which order links can serve transfers, where devices and the order of their ops are given.
#pragma once

#include <optional>
#include <span>

#include "problem/problem.hpp"

namespace placewright {

// Of one problem whose transfers overlap and whose ops no host launches.
class LinkOrders {
  public:
    explicit LinkOrders(const Problem& problem) : problem_(problem) {}

    // A solution that ends by limit_ns, on whose devices the ops run in the order of `ops`. Where there is none, or it
    // has not been found within so many partial orders, nothing; gave_up() tells which.
    std::optional<Solution> find(std::span<const int32_t> device_of, std::span<const int32_t> ops, int64_t limit_ns,
                                 int64_t max_orders);

    bool gave_up() const { return num_orders_ > max_orders_; }
    int64_t num_orders() const { return num_orders_; }

  private:
    struct Arc {
        int32_t from, to;  // steps: op i is i, then follow the transfers
        int64_t wait_ns;   // between the end of one and the start of the other
    };

    void add_ops(std::span<const int32_t> ops);
    void add_transfers();
    bool is_same_link(int32_t one, int32_t other) const;
    // start: of an order that this one goes on from.
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
