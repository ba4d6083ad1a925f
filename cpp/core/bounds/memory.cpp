#include "bounds/memory.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "construct/orders.hpp"
#include "problem/delays.hpp"
#include "support/minimum_cut.hpp"

namespace placewright {

namespace {

// Bytes that are in use somewhere from the start of `owner` until all `readers` have finished, or to the end.
struct Holding {
    int32_t owner;
    bool live_out;
    int64_t bytes;
    std::vector<int32_t> readers;
};

// Only the largest sizes in which ops read one storage count, at most this many, so that the time stays linear.
constexpr size_t kMaxLevels = 8;

// The most ops tried as additions to a set.
constexpr int64_t kMaxTried = 64;

// Returns the least that is held of each storage while ops still need it: all of it at home, or a copy of one of its
// tensors. So a tensor smaller than the storage counts only for its own bytes, and each byte is held for the readers
// that need at least that much.
std::vector<Holding> holdings_of(const Problem& p) {
    std::vector<std::vector<std::pair<int64_t, int32_t>>> readers_of(p.num_tensors);  // [storage] (bytes, reader)
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor) {
        const int32_t storage = p.storage[tensor];
        const int64_t home = p.allocated_bytes[storage];
        const int64_t bytes = p.num_devices == 1 ? home : std::min(home, p.copy_bytes[tensor]);
        for (int32_t reader : p.consumers[tensor]) readers_of[storage].emplace_back(bytes, reader);
    }
    std::vector<Holding> holdings;
    for (int32_t storage = 0; storage < p.num_tensors; ++storage) {
        auto& readers = readers_of[storage];
        if (p.live_out[storage]) {
            holdings.push_back({p.producer[storage], true, p.allocated_bytes[storage], {}});
            continue;
        }
        std::ranges::sort(readers, std::greater{});
        for (size_t i = 0, levels = 0; i < readers.size() && levels < kMaxLevels; ++i) {
            const int64_t less = i + 1 < readers.size() ? readers[i + 1].first : 0;
            if (readers[i].first == less) continue;
            Holding holding{p.producer[storage], false, readers[i].first - less, {}};
            for (size_t j = 0; j <= i; ++j) holding.readers.push_back(readers[j].second);
            std::ranges::sort(holding.readers);
            holding.readers.erase(std::ranges::unique(holding.readers).begin(), holding.readers.end());
            holdings.push_back(std::move(holding));
            ++levels;
        }
    }
    return holdings;
}

// Finds the op at whose start the most memory must be in use. When op v starts, the finished ops are a closed set: with
// each op it holds all ops that this one waits for. It holds v's ancestors, but neither v nor its descendants. A
// holding is in use if its owner is in the set and one of its readers is not. The least such sum over all closed sets
// is a minimum cut.
class LiveMemory {
    enum State : uint8_t { kFree, kDone, kLater };

  public:
    explicit LiveMemory(const Problem& problem)
        : p_(problem),
          before_(Delays(problem).before),
          holdings_(holdings_of(problem)),
          at_most_(problem.num_ops, INT64_MAX),
          state_(problem.num_ops),
          node_of_(problem.num_ops) {
        std::vector<std::vector<int32_t>> after(p_.num_ops), owned(p_.num_ops);
        for (int32_t op = 0; op < p_.num_ops; ++op)
            for (int32_t other : before_[op]) after[other].push_back(op);
        for (size_t h = 0; h < holdings_.size(); ++h) {
            owned[holdings_[h].owner].push_back(static_cast<int32_t>(h));
            arcs_ += static_cast<int64_t>(holdings_[h].readers.size()) + 1;
        }
        after_ = Csr::from_rows(after);
        owned_ = Csr::from_rows(owned);
        arcs_ += p_.num_ops + 2 * static_cast<int64_t>(before_.values.size());
    }

    // Lowers at_most_ to the memory in use when each op of a valid order starts.
    void follow(std::span<const int32_t> order) {
        std::vector<int32_t> left(holdings_.size());
        std::vector<std::vector<int32_t>> read(p_.num_ops);
        for (size_t h = 0; h < holdings_.size(); ++h) {
            left[h] = static_cast<int32_t>(holdings_[h].readers.size());
            for (int32_t reader : holdings_[h].readers) read[reader].push_back(static_cast<int32_t>(h));
        }
        int64_t in_use = 0;
        for (int32_t op : order) {
            at_most_[op] = std::min(at_most_[op], in_use + own_bytes(op));
            for (int32_t h : owned_[op]) in_use += holdings_[h].bytes;
            for (int32_t h : read[op])
                if (--left[h] == 0) in_use -= holdings_[h].bytes;
        }
    }

    LiveMemoryBound search(int64_t budget) {
        LiveMemoryBound best{0, 0, false};
        while (budget > 0) {
            const auto op = static_cast<int32_t>(std::ranges::max_element(at_most_) - at_most_.begin());
            if (at_most_[op] <= best.bytes) {
                best.exact = true;
                break;
            }
            const int64_t least = least_at(op, budget);
            if (least > best.bytes) best = {least, op, false};
            at_most_[op] = std::min(at_most_[op], least);
        }
        if (best.exact && p_.num_devices == 1) best.bytes = std::max(best.bytes, of_several(best, kDone, budget));
        if (best.exact) best.bytes = std::max(best.bytes, of_several(best, kLater, budget));
        return best;
    }

    // Bounds memory by sets of ops. One op of a set starts last, when the others have finished (kDone; on one device),
    // and one starts first, when they have not (kLater). The bound is the least, over the ops, of what must then be in
    // use. Ops that raise it join the set one by one.
    int64_t of_several(const LiveMemoryBound& best, State state, int64_t& budget) {
        std::vector<int32_t> ops{best.op}, candidates(size_t(p_.num_ops));
        int64_t most = best.bytes;
        std::iota(candidates.begin(), candidates.end(), 0);
        const auto num_tried = std::min<int64_t>(kMaxTried, p_.num_ops);
        std::ranges::partial_sort(candidates, candidates.begin() + num_tried, std::greater{},
                                  [&](int32_t op) { return at_most_[op]; });
        candidates.resize(size_t(num_tried));
        for (int32_t candidate : candidates) {
            if (candidate == best.op) continue;
            ops.push_back(candidate);
            int64_t least = INT64_MAX;
            for (size_t i = ops.size(); i-- > 0 && least > most;)
                least = std::min(least, least_at(ops[i], budget, ops, state));
            if (least > most)
                most = least;
            else
                ops.pop_back();
            if (budget <= 0) break;
        }
        return most;
    }

  private:
    int64_t own_bytes(int32_t op) const { return p_.output_bytes[op] + p_.workspace_bytes[op]; }

    // Gives `own` to one op, and `state` to all ops that it leads to and that have no state yet.
    void spread(int32_t from, const Csr& to, State own, State state) {
        state_[from] = own;
        queue_.assign(1, from);
        for (size_t i = 0; i < queue_.size(); ++i)
            for (int32_t other : to[queue_[i]])
                if (state_[other] == kFree) {
                    state_[other] = state;
                    queue_.push_back(other);
                }
    }

    // Returns the least that can be in use when op starts and the other ops have finished (or have not, for kLater);
    // less if the budget ends. INT64_MAX if that cannot be.
    int64_t least_at(int32_t op, int64_t& budget, std::span<const int32_t> others = {}, State state = kDone) {
        std::ranges::fill(state_, kFree);
        spread(op, before_, kLater, kDone);
        spread(op, after_, kLater, kLater);
        for (int32_t other : others) {
            if (other == op || state_[other] == state) continue;
            if (state_[other] != kFree) return INT64_MAX;
            spread(other, state == kDone ? before_ : after_, state, state);
        }
        const int64_t always = build_network();
        const int64_t in_use = always + cut_.solve(budget);
        budget -= 2 * arcs_;
        if (cut_.finished()) learn(in_use);
        return in_use + own_bytes(op);
    }

    // Returns the bytes that are in use in any case.
    int64_t build_network() {
        cut_.reset();
        for (int32_t op = 0; op < p_.num_ops; ++op)
            if (state_[op] == kFree) node_of_[op] = cut_.add_node();
        int64_t always = 0;
        for (int32_t op = 0; op < p_.num_ops; ++op) {
            if (state_[op] == kLater) continue;
            int64_t once_done = 0;
            for (int32_t h : owned_[op]) once_done += add_holding(holdings_[h]);
            if (state_[op] == kDone) {
                always += once_done;
                continue;
            }
            if (once_done > 0) cut_.add_arc(node_of_[op], 1, once_done);
            for (int32_t other : before_[op])
                if (state_[other] == kFree) cut_.add_arc(node_of_[op], node_of_[other], MinimumCut::kUncut);
        }
        return always;
    }

    // Returns the bytes if they are in use whenever the owner has finished; otherwise adds arcs for the readers that
    // free them and returns 0.
    int64_t add_holding(const Holding& holding) {
        const auto in = [&](State state) { return [&, state](int32_t reader) { return state_[reader] == state; }; };
        if (holding.live_out || std::ranges::any_of(holding.readers, in(kLater))) return holding.bytes;
        const auto num_free = std::ranges::count_if(holding.readers, in(kFree));
        if (num_free == 0) return 0;
        const int32_t owner = state_[holding.owner] == kDone ? 0 : node_of_[holding.owner];
        const int32_t read_by_all = num_free == 1 ? -1 : cut_.add_node();
        if (read_by_all >= 0) cut_.add_arc(owner, read_by_all, holding.bytes);
        for (int32_t reader : holding.readers) {
            if (state_[reader] != kFree) continue;
            if (read_by_all >= 0)
                cut_.add_arc(read_by_all, node_of_[reader], MinimumCut::kUncut);
            else
                cut_.add_arc(owner, node_of_[reader], holding.bytes);
        }
        return 0;
    }

    // Lowers at_most_ of the ops that could start next in the state that the cut found: that state and their own bytes
    // suffice.
    void learn(int64_t in_use) {
        const auto done = [&](int32_t op) {
            return state_[op] == kDone || (state_[op] == kFree && cut_.on_source_side(node_of_[op]));
        };
        for (int32_t op = 0; op < p_.num_ops; ++op)
            if (!done(op) && std::ranges::all_of(before_[op], done))
                at_most_[op] = std::min(at_most_[op], in_use + own_bytes(op));
    }

    const Problem& p_;
    Csr before_, after_;
    std::vector<Holding> holdings_;
    Csr owned_;                     // op -> holdings
    std::vector<int64_t> at_most_;  // [op] the memory that must be in use when it starts is at most this
    int64_t arcs_ = 0;              // the most arcs that one network can have
    std::vector<State> state_;      // [op]
    std::vector<int32_t> node_of_;  // [op] its node if its state is kFree
    std::vector<int32_t> queue_;
    MinimumCut cut_;
};

}  // namespace

LiveMemoryBound live_memory_bound(const Problem& problem, int64_t budget) {
    LiveMemory memory(problem);
    std::vector<int32_t> captured(size_t(problem.num_ops));
    std::iota(captured.begin(), captured.end(), 0);
    memory.follow(captured);
    memory.follow(lpmf_order(problem));
    LiveMemoryBound bound = memory.search(budget);
    std::vector<uint8_t> resident(problem.resident_bytes.size());
    for (int32_t read : problem.residents.values)
        if (!std::exchange(resident[size_t(read)], uint8_t{1})) bound.bytes += problem.resident_bytes[size_t(read)];
    return bound;
}

}  // namespace placewright
