// A tree search for offsets in an arena of a given size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "offsets/arena.hpp"

namespace placewright {

enum class Answer { fits, fits_not, unknown };

// Places buffers in order of their offsets, each on those below it; where all fit, they also fit in such a way. A
// branch ends where what is to come at some time no longer fits above what it can lie on, and what no buffer to come
// connects is solved apart (both as in MiniMalloc; Moffitt, ASPLOS 2023). After some failures the search starts again,
// and those buffers come first that were to come where it failed.
class Stacking {
  public:
    explicit Stacking(std::span<const TimedBuffer> buffers);

    // Takes from `effort` what it spends. What it learns about buffers stays for further capacities.
    Answer search(int64_t capacity, int64_t& effort);

    // Of each buffer, after the answer `fits`.
    std::vector<int64_t> offsets() const;

  private:
    // A buffer. It is alive at moments from `first` up to `last`, lies at `offset` or is to come, and then not below
    // `lowest`, the top of all that are placed and alive with it.
    struct Item {
        int64_t size, lowest, offset;
        int64_t failures;  // where it was to come
        int32_t first, last, buffer;
    };
    // The time before some buffer ends, after others have begun: whatever is alive together is so at some moment.
    struct Moment {
        int64_t floor, left;  // top of what is placed; how much is to come
        int64_t passing;      // buffers to come that are alive at the next moment, too
        int32_t start;        // the item that was found to lie low enough
    };
    // All that is to come from one moment up to another; of those at `level`, items before `from` had their turn.
    struct Part {
        int32_t begin, end;
        int64_t level;
        int32_t from;
        int32_t next, maker;                            // what is to be solved afterwards; the choice behind it
        size_t first_member, num_members, num_to_come;  // all that are to come are among the members
    };
    struct Choice {
        int32_t part;
        size_t num_changes, num_parts, num_members;  // before it
        int64_t level;                               // of the last item that was tried
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
