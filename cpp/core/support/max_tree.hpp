// The maximum of numbers that change, and random places of numbers that reach a threshold.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "support/random.hpp"

namespace placewright {

// A complete binary tree; children of node i are 2i and 2i + 1. Numbers are not negative, and there is at least one.
class MaxTree {
  public:
    explicit MaxTree(int32_t size)
        : leaves_(static_cast<int32_t>(std::bit_ceil(size_t(size)))), largest_(2 * size_t(leaves_), kNone) {}

    int64_t max() const { return largest_[1]; }
    int64_t operator[](int32_t place) const { return largest_[leaves_ + place]; }

    // Sets the numbers from place `first` on. O(values + log size).
    void assign(int32_t first, std::span<const int64_t> values) {
        if (values.empty()) return;
        std::ranges::copy(values, largest_.begin() + leaves_ + first);
        int32_t from = leaves_ + first, to = from + static_cast<int32_t>(values.size()) - 1;
        while (from > 1) {
            from /= 2;
            to /= 2;
            for (int32_t node = from; node <= to; ++node)
                largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]);
        }
    }

    // Returns a random place whose number is at least `threshold`, which must be between 0 and max(). If both subtrees
    // have such a place, a random bit chooses.
    int32_t random_place(int64_t threshold, uint64_t bits) const {
        int32_t node = 1;
        while (node < leaves_) {
            const bool left = largest_[2 * node] >= threshold, right = largest_[2 * node + 1] >= threshold;
            node = 2 * node + (left && right ? static_cast<int32_t>(bits & 1) : right);
            bits >>= 1;
        }
        return node - leaves_;
    }

  private:
    static constexpr int64_t kNone = -1;  // value of places beyond the last

    int32_t leaves_;
    std::vector<int64_t> largest_;
};

}  // namespace placewright
