// An order of ops that changes by moves: an op moves and takes along the ops that must stay before or after it.
#pragma once

#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

class OpOrder {
  public:
    // Places whose ops changed, both ends included; empty when last < first.
    struct Window {
        int32_t first = 0, last = -1;

        bool empty() const { return last < first; }
    };

    OpOrder(const Problem& problem, std::span<const int32_t> ops);

    std::span<const int32_t> ops() const { return ops_; }
    int32_t place_of(int32_t op) const { return place_of_[op]; }

    void assign(std::span<const int32_t> ops);

    // Moves the op to place `to`, or as near as the ops that go with it allow: earlier with its ancestors in between,
    // later with its descendants in between. The order is then valid again. Returns an empty window if nothing else is
    // in between. O(window and its edges).
    Window move(int32_t op, int32_t to);

    // Takes the last move back.
    void undo();

  private:
    Window move_earlier(int32_t from, int32_t to);
    Window move_later(int32_t from, int32_t to);
    void begin_marking(int32_t first, int32_t last);
    void mark(int32_t op) { marked_at_[op] = mark_; }
    bool is_marked(int32_t op) const { return marked_at_[op] == mark_; }
    void number(Window window);

    const Problem& problem_;
    std::vector<int32_t> ops_, place_of_;
    std::vector<int64_t> marked_at_;  // [op] the mark_ that was current when it was marked
    int64_t mark_ = 0;
    Window window_;                // of the last move
    std::vector<int32_t> before_;  // what was in it before
    std::vector<int32_t> apart_;   // while partitioning
};

}  // namespace placewright
