#include "improve/refuted_states.hpp"

#include <algorithm>
#include <numeric>

namespace placewright {

namespace {

constexpr int32_t kMaxRenamed = 4;  // devices; more have too many permutations
constexpr size_t kMaxNumbers = size_t{1} << 22;

bool are_the_same(const Problem& p, std::span<const int32_t> name) {
    const int32_t num_devices = p.num_devices;
    const auto link = [&](int32_t source, int32_t destination) { return size_t(source) * num_devices + destination; };
    for (int32_t one = 0; one < num_devices; ++one) {
        for (int32_t op = 0; op < p.num_ops; ++op)
            if (p.op_time(op, one) != p.op_time(op, name[one]) ||
                (p.allowed[op] >> one & 1) != (p.allowed[op] >> name[one] & 1))
                return false;
        for (int32_t other = 0; other < num_devices; ++other) {
            const size_t own = link(one, other), renamed = link(name[one], name[other]);
            if (one != other && (p.latency_ns[own] != p.latency_ns[renamed] ||
                                 p.inverse_bandwidth[own] != p.inverse_bandwidth[renamed]))
                return false;
        }
    }
    return true;
}

}  // namespace

RefutedStates::RefutedStates(const Problem& problem) : num_devices_(size_t(problem.num_devices)) {
    std::vector<int32_t> name(num_devices_);
    std::iota(name.begin(), name.end(), 0);
    do {
        if (are_the_same(problem, name)) names_.push_back(name);
    } while (problem.num_devices <= kMaxRenamed && std::ranges::next_permutation(name).found);
}

bool RefutedStates::covers(uint64_t done, std::span<const int64_t> state) const {
    const auto found = states_.find(done);
    return found != states_.end() &&
           std::ranges::any_of(found->second, [&](const auto& refuted) { return is_no_worse(refuted, state); });
}

void RefutedStates::add(uint64_t done, std::span<const int64_t> state) {
    if (num_kept_ + state.size() > kMaxNumbers) return;
    States& known = states_[done];
    num_kept_ -= state.size() * std::erase_if(known, [&](const auto& other) { return is_no_worse(state, other); });
    num_kept_ += state.size();
    known.emplace_back(state.begin(), state.end());
}

bool RefutedStates::is_no_worse(std::span<const int64_t> one, std::span<const int64_t> other) const {
    return std::ranges::any_of(names_, [&](const std::vector<int32_t>& name) {
        for (size_t row = 0; row < one.size(); row += num_devices_)
            for (size_t device = 0; device < num_devices_; ++device)
                if (one[row + device] > other[row + size_t(name[device])]) return false;
        return true;
    });
}

}  // namespace placewright
