// The minimum cut of a directed graph with capacities by Dinic's algorithm (1970): each phase sends a blocking flow
// along the shortest augmenting paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace placewright {

class MinimumCut {
  public:
    static constexpr int64_t kUncut = int64_t{1} << 62;

    // Removes all nodes and arcs but keeps the buffers; nodes 0 (the source) and 1 (the sink) exist afterwards.
    void reset();
    int32_t add_node();
    void add_arc(int32_t from, int32_t to, int64_t capacity);

    // Returns the value of the cut, or less if the budget ends first. Subtracts the arcs it looks at from the budget.
    int64_t solve(int64_t& budget);
    // Returns whether the value is that of the cut; only then does on_source_side describe the cut.
    bool finished() const { return finished_; }
    bool on_source_side(int32_t node) const { return level_[std::size_t(node)] >= 0; }

  private:
    struct Arc {
        int32_t to;
        int32_t next;  // next arc from the same node, or -1
        int64_t left;
    };

    bool find_levels(int64_t& budget);
    int64_t block_flow(int64_t& budget);

    std::vector<Arc> arcs_;  // arc a and its reverse a ^ 1
    std::vector<int32_t> first_, current_, level_, queue_, path_;
    bool finished_ = false;
};

}  // namespace placewright
