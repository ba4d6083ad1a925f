#include "support/minimum_cut.hpp"

#include <algorithm>

namespace placewright {

void MinimumCut::reset() {
    arcs_.clear();
    first_.assign(2, -1);
    finished_ = false;
}

int32_t MinimumCut::add_node() {
    first_.push_back(-1);
    return static_cast<int32_t>(first_.size()) - 1;
}

void MinimumCut::add_arc(int32_t from, int32_t to, int64_t capacity) {
    arcs_.push_back({to, first_[size_t(from)], capacity});
    first_[size_t(from)] = static_cast<int32_t>(arcs_.size()) - 1;
    arcs_.push_back({from, first_[size_t(to)], 0});
    first_[size_t(to)] = static_cast<int32_t>(arcs_.size()) - 1;
}

int64_t MinimumCut::solve(int64_t& budget) {
    int64_t value = 0;
    while (budget > 0 && find_levels(budget)) value += block_flow(budget);
    return value;
}

// Computes distances from the source over arcs with capacity left, up to that of the sink. Returns whether the sink can
// be reached.
bool MinimumCut::find_levels(int64_t& budget) {
    level_.assign(first_.size(), -1);
    level_[0] = 0;
    queue_.assign(1, 0);
    for (size_t i = 0; i < queue_.size() && level_[1] < 0; ++i)
        for (int32_t a = first_[size_t(queue_[i])]; a >= 0; a = arcs_[size_t(a)].next) {
            const Arc& arc = arcs_[size_t(a)];
            --budget;
            if (arc.left == 0 || level_[size_t(arc.to)] >= 0) continue;
            level_[size_t(arc.to)] = level_[size_t(queue_[i])] + 1;
            queue_.push_back(arc.to);
        }
    finished_ = level_[1] < 0;
    return !finished_;
}

// Sends a blocking flow: all it can along paths on which the level rises by one with each arc.
int64_t MinimumCut::block_flow(int64_t& budget) {
    current_ = first_;
    path_.clear();
    int64_t sent = 0;
    for (int32_t node = 0;;) {
        if (node == 1) {
            int64_t least = kUncut;
            for (int32_t a : path_) least = std::min(least, arcs_[size_t(a)].left);
            sent += least;
            size_t back = path_.size();
            for (size_t i = path_.size(); i-- > 0;) {
                arcs_[size_t(path_[i])].left -= least;
                arcs_[size_t(path_[i] ^ 1)].left += least;
                if (arcs_[size_t(path_[i])].left == 0) back = i;
            }
            budget -= 2 * static_cast<int64_t>(path_.size());
            node = arcs_[size_t(path_[back] ^ 1)].to;
            path_.resize(back);
        }
        int32_t& a = current_[size_t(node)];
        while (a >= 0) {
            const Arc& arc = arcs_[size_t(a)];
            --budget;
            if (arc.left > 0 && level_[size_t(arc.to)] == level_[size_t(node)] + 1) break;
            a = arc.next;
        }
        if (a >= 0) {
            path_.push_back(a);
            node = arcs_[size_t(a)].to;
        } else if (path_.empty() || budget <= 0) {
            return sent;
        } else {
            const int32_t dead = path_.back();
            path_.pop_back();
            node = arcs_[size_t(dead ^ 1)].to;
            current_[size_t(node)] = arcs_[size_t(dead)].next;
        }
    }
}

}  // namespace placewright
