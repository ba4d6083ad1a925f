// The minimum cut of a directed graph with capacities, by Dinic's algorithm (1970): shortest augmenting paths, all of
// one length at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace placewright {

class MinimumCut {
  public:
    static constexpr int64_t kUncut = int64_t{1} << 62;

    // Forgets everything but its memory; nodes 0 (the source) and 1 (the sink) are there.
    void reset();
    int32_t add_node();
    void add_arc(int32_t from, int32_t to, int64_t capacity);

    // The value of the cut, or less when about `budget` arcs have been looked at: it takes from the budget what it
    // uses.
    int64_t solve(int64_t& budget);
    // Whether the value is that of the cut, and if so which nodes are on the source's side.
    bool finished() const { return finished_; }
    bool on_source_side(int32_t node) const { return level_[std::size_t(node)] >= 0; }

  private:
    struct Arc {
        int32_t to;
        int32_t next;  // arc of the same node, or -1
        int64_t left;
    };

    bool find_levels(int64_t& budget);
    int64_t block_flow(int64_t& budget);

    std::vector<Arc> arcs_;  // arc a and its reverse a ^ 1
    std::vector<int32_t> first_, current_, level_, queue_, path_;
    bool finished_ = false;
};

}  // namespace placewright
