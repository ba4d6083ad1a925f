#include "improve/memory_profile.hpp"

#include <numeric>
#include <ranges>
#include <utility>

namespace placewright {

MemoryProfile::MemoryProfile(const Problem& problem)
    : problem_(problem),
      uses_(problem),
      level_(problem.num_ops),
      in_use_(problem.num_ops),
      last_user_(problem.num_tensors),
      freed_(problem.num_ops),
      new_level_(problem.num_ops),
      seen_at_(problem.num_tensors) {
    std::vector<uint8_t> read(problem.resident_bytes.size());
    for (int32_t resident : problem.residents.values)
        if (!std::exchange(read[resident], 1)) resident_bytes_ += problem.resident_bytes[resident];
    level_before_.reserve(problem.num_ops);
    in_use_before_.reserve(problem.num_ops);
    last_user_before_.reserve(problem.num_tensors);
}

void MemoryProfile::assign(const OpOrder& order) {
    for (int32_t storage = 0; storage < problem_.num_tensors; ++storage) {
        const auto users = uses_.users[storage];
        last_user_[storage] = -1;
        for (int32_t user : users)
            if (last_user_[storage] < 0 || order.place_of(user) > order.place_of(last_user_[storage]))
                last_user_[storage] = user;
    }
    const OpOrder::Window all{0, problem_.num_ops - 1};
    find_frees(order, all);
    write_levels(order, all);
    level_.assign(0, new_level_);
    excess_ = excess_in(new_level_);
    window_ = {};
}

void MemoryProfile::change(const OpOrder& order, OpOrder::Window window) {
    const auto size = static_cast<size_t>(window.last - window.first + 1);
    window_ = window;
    excess_before_ = excess_;
    in_use_before_.assign(in_use_.begin() + window.first, in_use_.begin() + window.last + 1);
    level_before_.resize(size);
    for (size_t i = 0; i < size; ++i) level_before_[i] = level_[window.first + static_cast<int32_t>(i)];
    find_frees(order, window);
    write_levels(order, window);
    const std::span<const int64_t> now(new_level_.data(), size);
    excess_ += excess_in(now) - excess_in(level_before_);
    level_.assign(window.first, now);
}

void MemoryProfile::undo() {
    if (window_.empty()) return;
    level_.assign(window_.first, level_before_);
    std::ranges::copy(in_use_before_, in_use_.begin() + window_.first);
    for (const LastUser& before : std::views::reverse(last_user_before_)) last_user_[before.storage] = before.op;
    excess_ = excess_before_;
    window_ = {};
}

void MemoryProfile::set_threshold(int64_t bytes) {
    threshold_ = bytes;
    excess_ = 0;
    for (int32_t place = 0; place < problem_.num_ops; ++place)
        excess_ += std::max<int64_t>(0, level_[place] - threshold_);
    window_ = {};
}

// Goes backwards through the window: a storage that was last used within it is freed by the first of its users that is
// met.
void MemoryProfile::find_frees(const OpOrder& order, OpOrder::Window window) {
    const auto ops = order.ops();
    ++pass_;
    last_user_before_.clear();
    for (int32_t place = window.last; place >= window.first; --place) {
        const int32_t op = ops[place];
        int64_t freed = problem_.workspace_bytes[op];
        for (int32_t storage : uses_.used[op]) {
            if (std::exchange(seen_at_[storage], pass_) == pass_ || problem_.live_out[storage]) continue;
            const int32_t last = order.place_of(last_user_[storage]);
            if (last > window.last || last < window.first) continue;
            freed += problem_.allocated_bytes[storage];
            if (last_user_[storage] == op) continue;
            last_user_before_.push_back({storage, last_user_[storage]});
            last_user_[storage] = op;
        }
        freed_[place - window.first] = freed;
    }
}

void MemoryProfile::write_levels(const OpOrder& order, OpOrder::Window window) {
    const auto ops = order.ops();
    int64_t in_use = window.first == 0 ? resident_bytes_ : in_use_[window.first - 1];
    for (int32_t place = window.first; place <= window.last; ++place) {
        in_use += problem_.output_bytes[ops[place]] + problem_.workspace_bytes[ops[place]];
        new_level_[place - window.first] = in_use;
        in_use_[place] = in_use -= freed_[place - window.first];
    }
}

int64_t MemoryProfile::excess_in(std::span<const int64_t> levels) const {
    return std::accumulate(levels.begin(), levels.end(), int64_t{0}, [this](int64_t sum, int64_t level) {
        return sum + std::max<int64_t>(0, level - threshold_);
    });
}

}  // namespace placewright
