// A set of positions that is emptied in one direction while positions ahead are inserted: a bitmap with a summary.
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

    // The least position, or -1.
    int32_t first() const {
        for (size_t s = 0; s < summary_.size(); ++s)
            if (summary_[s] != 0) {
                const size_t word = s * 64 + size_t(std::countr_zero(summary_[s]));
                return int32_t(word * 64) + std::countr_zero(words_[word]);
            }
        return -1;
    }

    // The greatest position, or -1.
    int32_t last() const {
        for (size_t s = summary_.size(); s-- > 0;)
            if (summary_[s] != 0) {
                const size_t word = s * 64 + 63 - size_t(std::countl_zero(summary_[s]));
                return int32_t(word * 64) + 63 - std::countl_zero(words_[word]);
            }
        return -1;
    }

    void clear() {
        for (int32_t position = first(); position >= 0; position = first()) {
            const size_t word = size_t(position) >> 6;
            words_[word] = 0;
            summary_[word >> 6] &= ~(uint64_t{1} << (word & 63));
        }
    }

  private:
    std::vector<uint64_t> words_, summary_;
};

}  // namespace placewright
