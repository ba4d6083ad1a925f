// Items ranked by the keys of a chromosome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace placewright {

using Key = uint32_t;  // a random key in [0, 1), times 2^32

// Falling key then rising item: the complement of the key above, the item below.
constexpr uint64_t pack(Key key, uint32_t item) { return uint64_t(~key) << 32 | item; }

// Packed keys and what it takes to sort them, for up to so many items.
struct PackedKeys {
    explicit PackedKeys(size_t max_items) : packed(max_items), buffer(max_items), digit_counts(2 << 11) {}

    // Sorts the first `count`, whose items must already rise.
    void sort(size_t count);

    // After sort(): the item of that rank, highest key first.
    uint32_t item(size_t rank) const { return static_cast<uint32_t>(packed[rank]); }

    std::vector<uint64_t> packed;
    std::vector<uint64_t> buffer;
    std::vector<uint32_t> digit_counts;
};

}  // namespace placewright
