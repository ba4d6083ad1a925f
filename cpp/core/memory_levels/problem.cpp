#include "memory_levels/problem.hpp"

#include <algorithm>
#include <stdexcept>

namespace placewright::memory_levels {

namespace {

constexpr int64_t kLimit = int64_t{1} << 62;

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

bool all_are_quantities(const std::vector<int64_t>& values) {
    return std::ranges::all_of(values, [](int64_t value) { return value >= 0 && value < kLimit; });
}

void check_lengths(const LevelProblem& p) {
    const auto ops = size_t(p.num_ops), tensors = size_t(p.num_tensors), levels = size_t(p.num_levels);
    require(p.num_ops >= 1, "a problem needs an op");
    require(p.num_levels >= 1 && p.num_levels <= kMaxLevels, "a problem has one to eight levels");
    require(p.first.size() == tensors && p.last.size() == tensors && p.is_weight.size() == tensors,
            "every tensor needs its first op, its last op and whether it is a weight");
    require(p.latency_ps.size() == levels && p.inverse_rate.size() == levels && p.is_prefetched.size() == levels,
            "every level needs its latency, its rate and whether it is fetched from early");
    require(p.compute_ps.size() == ops && p.fixed_ps.size() == ops * levels && p.use_begin.size() == ops + 1,
            "every op needs its times and its uses");
    require(p.use_bytes.size() == p.use_tensor.size() && p.use_is_early.size() == p.use_tensor.size(),
            "every use needs its bytes and whether it may come early");
    require(p.use_begin.front() == 0 && p.use_begin.back() == int32_t(p.use_tensor.size()) &&
                std::ranges::is_sorted(p.use_begin),
            "use_begin must rise from 0 to the number of uses");
}

void check_values(const LevelProblem& p) {
    for (const auto* values :
         {&p.size, &p.capacity, &p.latency_ps, &p.overhead_ps, &p.compute_ps, &p.fixed_ps, &p.use_bytes})
        require(all_are_quantities(*values), "times and sizes must lie in [0, 2^62)");
    require(std::ranges::all_of(p.inverse_rate, [](int64_t rate) { return rate > 0 && rate < kLimit; }),
            "a level needs a positive rate");
    require(std::ranges::is_sorted(p.inverse_rate), "levels must stand from the fastest to the slowest");
    for (size_t t = 0; t < p.size.size(); ++t) {
        require(p.first[t] >= 0 && p.first[t] <= p.last[t] && p.last[t] < p.num_ops,
                "a tensor is held from one op to the same or a later one");
        require(!p.is_weight[t] || (p.first[t] == 0 && p.last[t] == p.num_ops - 1), "a weight is held during all ops");
    }
    for (size_t use = 0; use < p.use_tensor.size(); ++use) {
        const int32_t tensor = p.use_tensor[use];
        require(tensor >= 0 && tensor < p.num_tensors, "an op uses a tensor that does not exist");
        require(!p.use_is_early[use] || p.is_weight[size_t(tensor)], "only weights come early");
    }
}

// The most that all tensors take together during an op.
int64_t peak_bytes(const LevelProblem& p) {
    std::vector<int64_t> change(size_t(p.num_ops) + 1);
    for (size_t t = 0; t < p.size.size(); ++t) {
        change[size_t(p.first[t])] += p.size[t];
        change[size_t(p.last[t]) + 1] -= p.size[t];
    }
    int64_t in_use = 0, peak = 0;
    for (const int64_t more : change) peak = std::max(peak, in_use += more);
    return peak;
}

// No sum of times may overflow, whatever the map.
void check_sums(const LevelProblem& p) {
    unsigned __int128 sum = 0;
    for (size_t op = 0; op < size_t(p.num_ops); ++op) {
        sum += uint64_t(p.overhead_ps[op]) + uint64_t(p.compute_ps[op]);
        for (size_t level = 0; level < size_t(p.num_levels); ++level)
            sum += uint64_t(p.fixed_ps[op * size_t(p.num_levels) + level]) + uint64_t(p.latency_ps[level]);
    }
    for (const int64_t bytes : p.use_bytes)
        sum += (static_cast<unsigned __int128>(bytes) * uint64_t(p.inverse_rate.back()) >> 20) + 1;
    require(sum < static_cast<unsigned __int128>(kLimit), "the times add up to more than an int64 holds");
}

}  // namespace

void LevelProblem::finish() {
    num_ops = int32_t(overhead_ps.size());
    num_tensors = int32_t(size.size());
    num_levels = int32_t(capacity.size());
    check_lengths(*this);
    check_values(*this);
    for (const int64_t bytes : size) {
        require(total_bytes < kLimit - bytes, "the sizes add up to more than an int64 holds");
        total_bytes += bytes;
    }
    check_sums(*this);
    require(peak_bytes(*this) <= capacity.back(), "the slowest level cannot hold all tensors");
    reader_begin.assign(size_t(num_tensors) + 1, 0);
    for (const int32_t tensor : use_tensor) ++reader_begin[size_t(tensor) + 1];
    for (size_t t = 0; t < size_t(num_tensors); ++t) reader_begin[t + 1] += reader_begin[t];
    reader_use.resize(use_tensor.size());
    op_of_use.resize(use_tensor.size());
    auto next = reader_begin;
    for (int32_t op = 0; op < num_ops; ++op)
        for (int32_t use = use_begin[size_t(op)]; use < use_begin[size_t(op) + 1]; ++use) {
            reader_use[size_t(next[size_t(use_tensor[size_t(use)])]++)] = use;
            op_of_use[size_t(use)] = op;
        }
    for (const int64_t bytes : use_bytes)
        for (int32_t level = 0; level < num_levels; ++level) use_ps.push_back(transfer_ps(bytes, level));
    require(!is_prefetched.front(), "nothing is fetched early from the fastest level");
    has_prefetch = std::ranges::any_of(is_prefetched, [](uint8_t is) { return is != 0; });
    has_latency = std::ranges::any_of(latency_ps, [](int64_t latency) { return latency > 0; });
}

}  // namespace placewright::memory_levels
