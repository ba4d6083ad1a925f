#include "construct/orders.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <queue>
#include <tuple>

#include "problem/readiness.hpp"
#include "problem/storage_uses.hpp"

namespace placewright {

namespace {

// The memory of one device, without residents, while ops run one after another.
class OneDeviceMemory {
  public:
    explicit OneDeviceMemory(const Problem& problem)
        : problem_(problem), uses_(problem), users_left_(problem.num_tensors), user_sum_(problem.num_tensors) {
        net_ = problem.output_bytes;
        for (int32_t storage = 0; storage < problem.num_tensors; ++storage) {
            const auto users = uses_.users[storage];
            users_left_[storage] = static_cast<int32_t>(users.size());
            user_sum_[storage] = std::accumulate(users.begin(), users.end(), int64_t{0});
            if (users.size() == 1 && !problem.live_out[storage]) net_[users[0]] -= problem.allocated_bytes[storage];
        }
    }

    int64_t in_use() const { return in_use_; }
    int64_t peak() const { return peak_; }
    // Bytes added while the op runs.
    int64_t need(int32_t op) const { return problem_.output_bytes[op] + problem_.workspace_bytes[op]; }
    // Bytes added by the op once it has finished: its outputs less all it uses last.
    const std::vector<int64_t>& net() const { return net_; }

    // Runs the op; calls net_fell(other) for each op that is now the last user of something.
    template <class F>
    void run(int32_t op, F&& net_fell) {
        peak_ = std::max(peak_, in_use_ + need(op));
        in_use_ += net_[op];
        for (int32_t storage : uses_.used[op]) {
            user_sum_[storage] -= op;
            if (--users_left_[storage] != 1 || problem_.live_out[storage]) continue;
            const auto last_user = static_cast<int32_t>(user_sum_[storage]);
            net_[last_user] -= problem_.allocated_bytes[storage];
            net_fell(last_user);
        }
    }

  private:
    const Problem& problem_;
    StorageUses uses_;
    std::vector<int32_t> users_left_;  // [storage] users that have not run
    std::vector<int64_t> user_sum_;    // [storage] sum of their indices: with one left, its index
    std::vector<int64_t> net_;
    int64_t in_use_ = 0;
    int64_t peak_ = 0;
};

// Ready ops sorted by need. Each node of a binary tree holds the least (net, op) below it, so both questions of LPMF
// take logarithmic time however wide the ready set is.
class ReadyByNeed {
  public:
    ReadyByNeed(const OneDeviceMemory& memory, int32_t num_ops)
        : memory_(memory), rank_(num_ops), need_(num_ops), leaves_(std::bit_ceil(size_t(num_ops))) {
        std::vector<int32_t> sorted(num_ops);
        std::iota(sorted.begin(), sorted.end(), 0);
        std::ranges::stable_sort(sorted, {}, [&](int32_t op) { return memory.need(op); });
        for (int32_t rank = 0; rank < num_ops; ++rank) {
            rank_[sorted[rank]] = rank;
            need_[rank] = memory.need(sorted[rank]);
        }
        best_.assign(2 * leaves_, kNone);
    }

    void insert(int32_t op) { set(rank_[op], op); }
    void erase(int32_t op) { set(rank_[op], kNone); }
    bool contains(int32_t op) const { return best_[leaves_ + rank_[op]] == op; }

    // Returns the ready op that LPMF takes when the peak is `slack` bytes above what is in use. The set must not be
    // empty.
    int32_t choose(int64_t slack) const {
        const auto fitting = std::ranges::upper_bound(need_, slack) - need_.begin();
        const int32_t op = best_in(0, size_t(fitting));
        if (op != kNone) return op;
        const auto [first, last] = std::ranges::equal_range(need_, need_[least_rank()]);
        return best_in(size_t(first - need_.begin()), size_t(last - need_.begin()));
    }

  private:
    static constexpr int32_t kNone = -1;

    int32_t better(int32_t a, int32_t b) const {
        if (a == kNone || b == kNone) return a == kNone ? b : a;
        const auto& net = memory_.net();
        return std::tie(net[a], a) < std::tie(net[b], b) ? a : b;
    }

    void set(int32_t rank, int32_t op) {
        size_t node = leaves_ + size_t(rank);
        best_[node] = op;
        while (node /= 2) best_[node] = better(best_[2 * node], best_[2 * node + 1]);
    }

    int32_t best_in(size_t first, size_t last) const {
        int32_t best = kNone;
        for (first += leaves_, last += leaves_; first < last; first /= 2, last /= 2) {
            if (first & 1) best = better(best, best_[first++]);
            if (last & 1) best = better(best, best_[--last]);
        }
        return best;
    }

    size_t least_rank() const {
        size_t node = 1;
        while (node < leaves_) node = 2 * node + (best_[2 * node] == kNone);
        return node - leaves_;
    }

    const OneDeviceMemory& memory_;
    std::vector<int32_t> rank_;  // [op] its place among all ops by need
    std::vector<int64_t> need_;  // [rank]
    size_t leaves_;
    std::vector<int32_t> best_;  // [node] children of node i are 2i and 2i + 1
};

// Per op, what its DFS priority counts: itself and, once for every path, all it depends on.
struct History {
    std::vector<int64_t> extra_users;
    std::vector<int64_t> bytes;
};

// Returns the producers of the op's inputs and its control predecessors, each once.
std::vector<int32_t> operands(const Problem& problem, int32_t op) {
    std::vector<int32_t> result(problem.predecessors[op].begin(), problem.predecessors[op].end());
    for (int32_t tensor : problem.inputs[op]) result.push_back(problem.producer[tensor]);
    std::ranges::sort(result);
    result.erase(std::ranges::unique(result).begin(), result.end());
    return result;
}

int64_t num_users(const Problem& problem, int32_t op) {
    int64_t users = 0;
    for (int32_t tensor = problem.output_begin[op]; tensor < problem.output_begin[op + 1]; ++tensor)
        users += int64_t(problem.consumers[tensor].size());
    return users;
}

// Sums are capped at those of the whole graph, as in XLA, since shared history counts once per path.
History history(const Problem& problem) {
    History result{std::vector<int64_t>(problem.num_ops), problem.output_bytes};
    const int64_t max_bytes = std::accumulate(problem.output_bytes.begin(), problem.output_bytes.end(), int64_t{0});
    for (int32_t op = 0; op < problem.num_ops; ++op) {
        result.extra_users[op] = std::max<int64_t>(0, num_users(problem, op) - 1);
        for (int32_t operand : operands(problem, op)) {
            result.extra_users[op] =
                std::min<int64_t>(problem.num_ops, result.extra_users[op] + result.extra_users[operand]);
            result.bytes[op] = std::min(max_bytes, result.bytes[op] + result.bytes[operand]);
        }
    }
    return result;
}

// Returns the ops that nothing depends on.
std::vector<int32_t> sinks(const Problem& problem) {
    std::vector<int32_t> result;
    for (int32_t op = 0; op < problem.num_ops; ++op)
        if (num_users(problem, op) == 0 && problem.controls[op].empty()) result.push_back(op);
    return result;
}

// A queue of ready ops by a priority that may rise while they wait. Each rise adds an entry, and outdated entries are
// skipped when they surface.
template <class Priority>
class RisingQueue {
  public:
    void push(const Priority& priority, int32_t op) { entries_.push({priority, -op}); }

    // Removes and returns the op of highest priority, the first of equals. is_current(priority, op) identifies outdated
    // entries.
    template <class F>
    int32_t take(F&& is_current) {
        for (;;) {
            const auto [priority, negated] = entries_.top();
            entries_.pop();
            if (is_current(priority, -negated)) return -negated;
        }
    }

  private:
    std::priority_queue<std::pair<Priority, int32_t>> entries_;
};

}  // namespace

bool is_valid_order(const Problem& problem, std::span<const int32_t> ops) {
    if (ops.size() != size_t(problem.num_ops)) return false;
    std::vector<uint8_t> ready(problem.num_ops);
    Readiness readiness(problem);
    const auto became_ready = [&](int32_t op) { ready[op] = 1; };
    readiness.for_each_source(became_ready);
    for (int32_t op : ops) {
        if (op < 0 || op >= problem.num_ops || !ready[op]) return false;
        ready[op] = 0;
        readiness.finish(op, became_ready);
    }
    return true;
}

std::vector<int32_t> bfs_order(const Problem& problem) {
    std::vector<int32_t> order;
    order.reserve(problem.num_ops);
    Readiness readiness(problem);
    const auto append = [&](int32_t op) { order.push_back(op); };
    readiness.for_each_source(append);
    for (size_t position = 0; position < order.size(); ++position) readiness.finish(order[position], append);
    return order;
}

std::vector<int32_t> dfs_order(const Problem& problem) {
    enum State : uint8_t { unseen, opened, placed };
    const History before = history(problem);
    const auto visited_last = [&](int32_t a, int32_t b) {
        return std::tie(before.extra_users[a], before.bytes[a], b) <
               std::tie(before.extra_users[b], before.bytes[b], a);
    };
    std::vector<int32_t> order, stack = sinks(problem);
    std::ranges::sort(stack, visited_last);
    std::vector<State> state(problem.num_ops, unseen);
    while (!stack.empty()) {
        const int32_t op = stack.back();
        if (state[op] == unseen) {
            state[op] = opened;
            auto next = operands(problem, op);
            std::ranges::sort(next, visited_last);
            std::ranges::copy_if(next, std::back_inserter(stack), [&](int32_t o) { return state[o] == unseen; });
            continue;
        }
        stack.pop_back();
        if (state[op] == opened) order.push_back(op);
        state[op] = placed;
    }
    return order;
}

std::vector<int32_t> lpmf_order(const Problem& problem) {
    OneDeviceMemory memory(problem);
    ReadyByNeed ready(memory, problem.num_ops);
    Readiness readiness(problem);
    const auto insert = [&](int32_t op) { ready.insert(op); };
    const auto net_fell = [&](int32_t op) {
        if (ready.contains(op)) ready.insert(op);
    };
    readiness.for_each_source(insert);
    std::vector<int32_t> order(problem.num_ops);
    for (int32_t& op : order) {
        op = ready.choose(memory.peak() - memory.in_use());
        ready.erase(op);
        memory.run(op, net_fell);
        readiness.finish(op, insert);
    }
    return order;
}

std::vector<int32_t> xla_list_order(const Problem& problem) {
    OneDeviceMemory memory(problem);
    Readiness readiness(problem);
    std::vector<uint8_t> ready(problem.num_ops);
    RisingQueue<std::pair<int64_t, int64_t>> queue;
    const auto push = [&](int32_t op) { queue.push({-memory.net()[op], num_users(problem, op)}, op); };
    const auto became_ready = [&](int32_t op) {
        ready[op] = 1;
        push(op);
    };
    const auto net_fell = [&](int32_t op) {
        if (ready[op]) push(op);
    };
    const auto is_current = [&](const auto& priority, int32_t op) {
        return ready[op] && priority.first == -memory.net()[op];
    };
    readiness.for_each_source(became_ready);
    std::vector<int32_t> order(problem.num_ops);
    for (int32_t& op : order) {
        op = queue.take(is_current);
        ready[op] = 0;
        memory.run(op, net_fell);
        readiness.finish(op, became_ready);
    }
    return order;
}

std::vector<int32_t> reverse_greedy_order(const Problem& problem) {
    const StorageUses uses(problem);
    // Bytes in use before the op less those after it; decreases when a later user makes a storage alive.
    std::vector<int64_t> rise(problem.num_ops);
    std::vector<uint8_t> alive(problem.live_out);
    std::vector<int32_t> successors_left(problem.num_ops);
    std::vector<uint8_t> ready(problem.num_ops);
    // Among equals the op that was captured last goes last.
    RisingQueue<std::pair<int64_t, int32_t>> queue;
    const auto push = [&](int32_t op) { queue.push({-rise[op], op}, op); };
    const auto became_ready = [&](int32_t op) {
        ready[op] = 1;
        push(op);
    };
    const auto follower_placed = [&](int32_t op) {
        if (--successors_left[op] == 0) became_ready(op);
    };
    for (int32_t op = 0; op < problem.num_ops; ++op) {
        rise[op] = -problem.output_bytes[op];
        for (int32_t storage : uses.used[op]) rise[op] += alive[storage] ? 0 : problem.allocated_bytes[storage];
        successors_left[op] = static_cast<int32_t>(num_users(problem, op) + int64_t(problem.controls[op].size()));
    }
    for (int32_t op : sinks(problem)) became_ready(op);
    std::vector<int32_t> order(problem.num_ops);
    for (size_t position = order.size(); position-- > 0;) {
        const int32_t op = queue.take([&](const auto& priority, int32_t candidate) {
            return ready[candidate] && priority.first == -rise[candidate];
        });
        order[position] = op;
        ready[op] = 0;
        for (int32_t storage : uses.used[op]) {
            if (alive[storage]) continue;
            alive[storage] = 1;
            for (int32_t user : uses.users[storage]) {
                rise[user] -= problem.allocated_bytes[storage];
                if (ready[user]) push(user);
            }
        }
        for (int32_t tensor : problem.inputs[op]) follower_placed(problem.producer[tensor]);
        for (int32_t previous : problem.predecessors[op]) follower_placed(previous);
    }
    return order;
}

}  // namespace placewright
