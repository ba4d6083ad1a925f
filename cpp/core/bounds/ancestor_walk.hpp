// Walks through the ancestors of an op, with the least time between their end and its start.
#pragma once

#include <algorithm>
#include <vector>

#include "problem/delays.hpp"

namespace placewright {

// Takes ancestors from the highest number to the lowest, so all paths from an ancestor to the op are known when it is
// taken. If the two are on different devices, every path between them has a transfer.
class AncestorWalk {
  public:
    // Keeps the reference.
    explicit AncestorWalk(const Delays& delays)
        : delays_(delays), met_by_(delays.before.num_rows(), -1), rest_(met_by_.size()), apart_(met_by_.size()) {}

    void begin(int32_t op) {
        op_ = op;
        heap_.clear();
        reach_from(op, 0, Delays::kNever);
    }

    bool is_over() const { return heap_.empty(); }

    // Returns the number of ancestors that were met and not yet taken.
    size_t num_open() const { return heap_.size(); }

    int32_t take() {
        std::ranges::pop_heap(heap_);
        const int32_t taken = heap_.back();
        heap_.pop_back();
        return taken;
    }

    // Continues from an ancestor that was taken to the ops it waits for. time: that of the ancestor.
    void pass(int32_t taken, int64_t time) {
        reach_from(taken, time + rest(taken), std::min(time + apart(taken), Delays::kNever));
    }

    // The least time between the ancestor's end and the start of the op.
    int64_t rest(int32_t ancestor) const { return rest_[size_t(ancestor)]; }

    // The same if the two run on different devices.
    int64_t apart(int32_t ancestor) const { return apart_[size_t(ancestor)]; }

  private:
    void reach_from(int32_t of, int64_t rest, int64_t apart) {
        for (int32_t i = delays_.before.begin[of]; i < delays_.before.begin[of + 1]; ++i) {
            const int32_t other = delays_.before.values[i];
            if (met_by_[size_t(other)] != op_) {
                met_by_[size_t(other)] = op_;
                rest_[size_t(other)] = apart_[size_t(other)] = 0;
                heap_.push_back(other);
                std::ranges::push_heap(heap_);
            }
            rest_[size_t(other)] = std::max(rest_[size_t(other)], rest);
            apart_[size_t(other)] =
                std::max(apart_[size_t(other)], std::min({delays_.between_ns[i] + rest, apart, Delays::kNever}));
        }
    }

    const Delays& delays_;
    int32_t op_ = -1;
    std::vector<int32_t> met_by_;  // [op] the last op whose walk met it
    std::vector<int64_t> rest_, apart_;
    std::vector<int32_t> heap_;
};

}  // namespace placewright
