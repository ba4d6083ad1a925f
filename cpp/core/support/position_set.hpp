// A set of positions, as a bitmap with a summary. It suits users that empty it in one direction while they insert
// positions ahead.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace placewright {

class PositionSet {
  public:
    explicit PositionSet(int32_t size) : words_(size_t(size) / 64 + 1), summary_(words_.size() / 64 + 1) {}

    void insert(int32_t position) {
        const size_t word = size_t(position) >> 6;
        words_[word] |= uint64_t{1} << (position & 63);
        summary_[word >> 6] |= uint64_t{1} << (word & 63);
    }

    void erase(int32_t position) {
        const size_t word = size_t(position) >> 6;
        words_[word] &= ~(uint64_t{1} << (position & 63));
        if (words_[word] == 0) summary_[word >> 6] &= ~(uint64_t{1} << (word & 63));
    }

    // Returns the least position that is at least `from`, or -1.
    int32_t first(int32_t from = 0) const {
        size_t word = size_t(from) >> 6;
        if (const uint64_t rest = words_[word] >> (from & 63); rest != 0) return from + std::countr_zero(rest);
        size_t s = word >> 6;
        uint64_t open = summary_[s] & ~uint64_t{1} << (word & 63);
        while (open == 0) {
            if (++s == summary_.size()) return -1;
            open = summary_[s];
        }
        word = s * 64 + size_t(std::countr_zero(open));
        return int32_t(word * 64) + std::countr_zero(words_[word]);
    }

    // Returns the greatest position that is at most `from`, or -1.
    int32_t last(int32_t from) const {
        size_t word = size_t(from) >> 6;
        if (const uint64_t rest = words_[word] << (63 - (from & 63)); rest != 0) return from - std::countl_zero(rest);
        size_t s = word >> 6;
        uint64_t open = summary_[s] & ((uint64_t{1} << (word & 63)) - 1);
        while (open == 0) {
            if (s-- == 0) return -1;
            open = summary_[s];
        }
        word = s * 64 + 63 - size_t(std::countl_zero(open));
        return int32_t(word * 64) + 63 - std::countl_zero(words_[word]);
    }

    void clear() {
        for (int32_t position = first(); position >= 0; position = first(position)) {
            const size_t word = size_t(position) >> 6;
            words_[word] = 0;
            summary_[word >> 6] &= ~(uint64_t{1} << (word & 63));
        }
    }

  private:
    std::vector<uint64_t> words_, summary_;
};

}  // namespace placewright
