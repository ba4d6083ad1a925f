#include "bounds/heads.hpp"

#include <algorithm>
#include <utility>

#include "bounds/ancestor_walk.hpp"
#include "bounds/fork_join.hpp"

namespace placewright {

namespace {

class HeadSearch {
  public:
    HeadSearch(const Delays& delays, const Durations& durations, int64_t budget, std::vector<int64_t> least)
        : delays_(delays),
          durations_(durations),
          budget_(budget),
          head_(std::move(least)),
          seen_by_(delays.before.num_rows(), -1),
          walk_(delays),
          fork_join_(delays, durations, kBetween * budget) {
        head_.resize(size_t(delays.before.num_rows()));
    }

    std::vector<int64_t> run() {
        int64_t joins_left = 0;
        for (int32_t op = 0; op < delays_.before.num_rows(); ++op) joins_left += is_join(op);
        for (int32_t op = 0; op < delays_.before.num_rows(); ++op) {
            for (int32_t other : delays_.before[op]) head_[op] = std::max(head_[op], finish(other));
            if (!is_join(op)) continue;
            reach_ = std::max(kLeastReach, budget_ / (2 * joins_left));
            head_[op] = std::max(head_[op], after_shared_work(op));
            head_[op] = std::max(head_[op], after_sequence_or_transfer(op));
            head_[op] = std::max(head_[op], fork_join_.earliest_start(op, head_, joins_left--));
        }
        return std::move(head_);
    }

  private:
    // The head of a single predecessor already accounts for its ancestors.
    bool is_join(int32_t op) const { return delays_.before[op].size() > 1; }

    int64_t finish(int32_t op) const { return head_[op] + durations_.time_ns[op]; }

    // Bounds the start of op by shared work: the ancestors that start at R or later do all their work between R and the
    // start of op, over all devices. Takes them by descending head and stops at an ancestor through which all others
    // lead, because its own head accounts for those.
    int64_t after_shared_work(int32_t op) {
        int64_t earliest = 0, work = 0;
        by_head_.clear();
        const auto push = [&](int32_t of) {
            for (int32_t other : delays_.before[of]) {
                if (seen_by_[other] == op) continue;
                seen_by_[other] = op;
                by_head_.emplace_back(head_[other], other);
                std::ranges::push_heap(by_head_);
            }
        };
        push(op);
        for (int64_t count = 0; !by_head_.empty() && count < reach_; ++count) {
            --budget_;
            std::ranges::pop_heap(by_head_);
            const auto [head, other] = by_head_.back();
            by_head_.pop_back();
            work += durations_.work[other];
            earliest = std::max(earliest, head + (work + durations_.scale - 1) / durations_.scale);
            if (by_head_.empty() && count > 0) break;
            push(other);
        }
        return earliest;
    }

    struct Ancestor {
        int64_t arrival;  // op starts no earlier if they are on different devices
        int64_t head;
        int64_t time;
    };

    // Bounds the start of op by ancestors that run one after another. If op starts at T, every ancestor whose result
    // would arrive after T from another device runs on op's own device, so T is no less than the end of their sequence.
    int64_t after_sequence_or_transfer(int32_t op) {
        find_late_ancestors(op);
        std::ranges::sort(late_, [](const Ancestor& a, const Ancestor& b) { return a.arrival > b.arrival; });
        by_head_.clear();
        for (size_t i = 0; i < late_.size(); ++i) {
            const auto next = std::pair(late_[i].head, static_cast<int32_t>(i));
            by_head_.insert(std::ranges::upper_bound(by_head_, next), next);
            const int64_t sequence = sequence_end();
            if (i + 1 == late_.size() || sequence >= late_[i + 1].arrival) return std::min(late_[i].arrival, sequence);
        }
        return head_[op];
    }

    // Returns the end of the ancestors in by_head_ if they run one after another, none before its head.
    int64_t sequence_end() const {
        int64_t end = 0;
        for (const auto& [head, i] : by_head_) end = std::max(end, head) + late_[size_t(i)].time;
        return end;
    }

    // Collects the ancestors whose arrival is after op's head.
    void find_late_ancestors(int32_t op) {
        late_.clear();
        walk_.begin(op);
        for (int64_t count = 0; !walk_.is_over() && count < reach_ && late_.size() < kMaxLate; ++count) {
            --budget_;
            const int32_t other = walk_.take();
            const int64_t arrival = finish(other) + walk_.apart(other), time = durations_.time_ns[other];
            if (arrival <= head_[op]) continue;
            late_.push_back({arrival, head_[other], time});
            walk_.pass(other, time);
        }
    }

    static constexpr int64_t kLeastReach = 8;
    static constexpr size_t kMaxLate = 64;
    static constexpr int64_t kBetween = 3;  // fork-join dependencies looked at per ancestor of the budget

    const Delays& delays_;
    const Durations& durations_;
    int64_t budget_;     // ancestors that may still be looked at
    int64_t reach_ = 0;  // limit of each search from this join; what one leaves unused, later ones may use
    std::vector<int64_t> head_;
    std::vector<int32_t> seen_by_;  // [op] the last op whose search met it
    std::vector<std::pair<int64_t, int32_t>> by_head_;
    AncestorWalk walk_;
    std::vector<Ancestor> late_;
    ForkJoin fork_join_;
};

}  // namespace

std::vector<int64_t> heads(const Delays& delays, const Durations& durations, int64_t budget,
                           std::vector<int64_t> least) {
    return HeadSearch(delays, durations, budget, std::move(least)).run();
}

}  // namespace placewright
