// A tree search for offsets in an arena of a given size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "offsets/arena.hpp"

namespace placewright {

enum class Answer { fits, fits_not, unknown };

// Places buffers in order of their offsets, each on those below it; if all fit, they also fit in such a way. A branch
// ends if the remaining buffers at some time no longer fit above what they can lie on. Parts that no remaining buffer
// connects are solved separately (both as in MiniMalloc; Moffitt, ASPLOS 2023). After some failures the search
// restarts, and the buffers that remained where it failed come first.
class Stacking {
  public:
    explicit Stacking(std::span<const TimedBuffer> buffers);

    // Subtracts from `effort` what it spends. What it learns about buffers is kept for further capacities.
    Answer search(int64_t capacity, int64_t& effort);

    // Returns the offset of each buffer, after the answer `fits`.
    std::vector<int64_t> offsets() const;

  private:
    // A buffer. It is alive at moments from `first` up to `last`. It is placed at `offset`, or it remains; then it
    // cannot be below `lowest`, the top of all placed buffers that are alive with it.
    struct Item {
        int64_t size, lowest, offset;
        int64_t failures;  // number of failures where it remained
        int32_t first, last, buffer;
    };
    // The time before some buffer ends, after others have begun. Buffers that are alive together are so at some moment.
    struct Moment {
        int64_t floor, left;  // top of what is placed; size of what remains
        int64_t passing;      // remaining buffers that are alive at the next moment, too
        int32_t start;        // the item that was found to lie low enough
    };
    // The remaining items from one moment up to another; of those at `level`, items before `from` had their turn.
    struct Part {
        int32_t begin, end;
        int64_t level;
        int32_t from;
        int32_t next, maker;                            // the part to solve afterwards; the choice that made it
        size_t first_member, num_members, num_to_come;  // all remaining items are among the members
    };
    struct Choice {
        int32_t part;
        size_t num_changes, num_parts, num_members;  // before it
        int64_t level;                               // of the item tried last
        int32_t from;
    };
    struct Change {
        int64_t* where;
        int64_t before;
    };

    Answer descend();
    int32_t next_item(const Part& part, const Choice& choice);
    int32_t split(const Part& part);
    void sift(Part& part);
    std::span<const int32_t> members(const Part& part) const;
    bool place(Item& item, const Part& part);
    bool has_start(const Part& part, int32_t moment);
    void blame(const Part& part, int32_t moment);
    void set(int64_t& value, int64_t to);
    void undo(size_t num_changes);

    int64_t capacity_ = 0, effort_ = 0;
    std::vector<Item> items_;  // in the order in which they are tried
    std::vector<Moment> moments_;
    std::vector<Part> parts_;
    std::vector<int32_t> members_;  // items
    std::vector<Choice> choices_;
    std::vector<Change> changes_;
};

}  // namespace placewright
