// The memory of one device along an order of ops, updated when the order changes.
#pragma once

#include <span>
#include <vector>

#include "improve/op_order.hpp"
#include "problem/problem.hpp"
#include "problem/storage_uses.hpp"
#include "support/max_tree.hpp"

namespace placewright {

// A change between two places moves no allocation or release across them, so the rest of the profile stays valid.
class MemoryProfile {
  public:
    explicit MemoryProfile(const Problem& problem);

    // Computes everything anew for this order.
    void assign(const OpOrder& order);

    // Updates the profile after ops within the window changed places. O(uses in the window + log ops); allocates
    // nothing.
    void change(const OpOrder& order, OpOrder::Window window);

    // Takes the last change back.
    void undo();

    // Counts excess above this threshold.
    void set_threshold(int64_t bytes);

    int64_t peak() const { return level_.max(); }
    // Sum over ops of the bytes above the threshold while they run.
    int64_t excess() const { return excess_; }
    // [place] bytes in use while the op there runs, residents included.
    const MaxTree& level() const { return level_; }

  private:
    void find_frees(const OpOrder& order, OpOrder::Window window);
    void write_levels(const OpOrder& order, OpOrder::Window window);
    int64_t excess_in(std::span<const int64_t> levels) const;

    const Problem& problem_;
    StorageUses uses_;
    int64_t resident_bytes_ = 0;
    int64_t threshold_ = INT64_MAX;
    int64_t excess_ = 0;
    MaxTree level_;
    std::vector<int64_t> in_use_;     // [place] after the op there has finished
    std::vector<int32_t> last_user_;  // [storage] the op whose finish frees it
    std::vector<int64_t> freed_;      // [place in the window]
    std::vector<int64_t> new_level_;  // [place in the window]
    std::vector<int64_t> seen_at_;    // [storage] the last pass_ that met it
    int64_t pass_ = 0;

    OpOrder::Window window_;  // of the last change, and what was there before it
    int64_t excess_before_ = 0;
    std::vector<int64_t> level_before_, in_use_before_;
    struct LastUser {
        int32_t storage, op;
    };
    std::vector<LastUser> last_user_before_;
};

}  // namespace placewright
