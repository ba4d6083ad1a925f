// Items ranked by the keys of a chromosome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace placewright {

using Key = uint32_t;  // a random key in [0, 1), times 2^32

// Sorts by falling key, then rising item: the complement of the key above, the item below.
constexpr uint64_t pack(Key key, uint32_t item) { return uint64_t(~key) << 32 | item; }

// Packed keys and the buffers to sort them, for up to `max_items` items.
struct PackedKeys {
    explicit PackedKeys(size_t max_items) : packed(max_items), buffer(max_items), digit_counts(2 << 11) {}

    // Sorts the first `count` entries, whose items must already be ascending.
    void sort(size_t count);

    // Returns the item of that rank after sort(), highest key first.
    uint32_t item(size_t rank) const { return static_cast<uint32_t>(packed[rank]); }

    std::vector<uint64_t> packed;
    std::vector<uint64_t> buffer;
    std::vector<uint32_t> digit_counts;
};

}  // namespace placewright
