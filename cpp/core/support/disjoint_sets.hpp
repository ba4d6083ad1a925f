// Disjoint sets of numbers with union by size and path halving (Tarjan and van Leeuwen 1984).
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace placewright {

class DisjointSets {
  public:
    explicit DisjointSets(int32_t count) : parent_(count), size_(count, 1) {
        std::iota(parent_.begin(), parent_.end(), 0);
    }

    // Returns the root: the member that represents the whole set.
    int32_t find(int32_t member) {
        while (parent_[member] != member) member = parent_[member] = parent_[parent_[member]];
        return member;
    }

    // Joins two sets given by their roots; returns the new root.
    int32_t join(int32_t a, int32_t b) {
        if (size_[a] < size_[b]) std::swap(a, b);
        if (a != b) size_[a] += size_[b];
        parent_[b] = a;
        return a;
    }

  private:
    std::vector<int32_t> parent_, size_;
};

}  // namespace placewright
