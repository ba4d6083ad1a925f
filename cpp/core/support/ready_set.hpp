// The ready queue of the decoder: a set of ranks from which the least is taken first. It is a bitmap of words with
// summaries above. Insertion and removal take a few instructions each, without branches on the data. The topmost
// summary is a member, so a local ReadySet keeps it in a register.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace placewright {

// Memory of a ReadySet, reused from one evaluation to the next.
struct ReadySetBuffers {
    std::vector<uint64_t> words;    // one bit per rank
    std::vector<uint64_t> summary;  // one bit per word; padded so that the last group of summaries is complete

    explicit ReadySetBuffers(size_t max_ranks) : words((max_ranks >> 6) + 1), summary(2 * (words.size() >> 6) + 64) {}
};

// kSmall: at most kMaxSmall ranks, so the topmost summary is directly above the words.
template <bool kSmall>
class ReadySet {
  public:
    static constexpr size_t kMaxSmall = 4096;

    // Makes an empty set that can hold ranks below `bound`.
    ReadySet(ReadySetBuffers& buffers, size_t bound) : words_(buffers.words.data()), summary_(buffers.summary.data()) {
        const size_t num_words = (bound + 63) >> 6, num_summaries = (num_words + 63) >> 6;
        std::fill_n(words_, num_words, 0);
        while (num_summaries > size_t{64} << group_shift_) ++group_shift_;
        if constexpr (!kSmall) std::fill_n(summary_, num_summaries + (size_t{1} << group_shift_), 0);
    }

    // Adds the rank when `ready` is 1, does nothing when it is 0.
    void insert_if(uint32_t rank, uint64_t ready) {
        const uint32_t word = rank >> 6;
        words_[word] |= ready << (rank & 63);
        if constexpr (kSmall) {
            top_ |= ready << word;
        } else {
            summary_[word >> 6] |= ready << (word & 63);
            top_ |= ready << (word >> (6 + group_shift_));
        }
    }

    bool empty() const { return top_ == 0; }

    // Returns the least rank; the set must not be empty.
    uint32_t least() const {
        const uint32_t word = first_word();
        return (word << 6) + static_cast<uint32_t>(std::countr_zero(words_[word]));
    }

    // Removes and returns the least rank; the set must not be empty.
    uint32_t take_least() {
        const uint32_t word = first_word();
        const uint64_t bits = words_[word];
        const uint64_t rest = bits & (bits - 1);
        words_[word] = rest;
        forget_if(word, rest == 0);
        return (word << 6) + static_cast<uint32_t>(std::countr_zero(bits));
    }

  private:
    uint32_t first_word() const {
        const auto first = static_cast<uint32_t>(std::countr_zero(top_));
        if constexpr (kSmall) return first;
        uint32_t group = first << group_shift_;
        while (summary_[group] == 0) ++group;
        return (group << 6) + static_cast<uint32_t>(std::countr_zero(summary_[group]));
    }

    // Clears the summaries of a word that has become empty.
    void forget_if(uint32_t word, bool empty) {
        if constexpr (kSmall) {
            top_ &= ~(uint64_t{empty} << word);
        } else {
            const uint64_t left = summary_[word >> 6] &= ~(uint64_t{empty} << (word & 63));
            if (left != 0) return;
            const uint32_t first = word >> (6 + group_shift_);
            uint64_t any = 0;
            for (uint32_t group = first << group_shift_; group < (first + 1) << group_shift_; ++group)
                any |= summary_[group];
            top_ &= ~(uint64_t{any == 0} << first);
        }
    }

    uint64_t* words_;
    uint64_t* summary_;
    uint64_t top_ = 0;
    uint32_t group_shift_ = 0;
};

}  // namespace placewright
