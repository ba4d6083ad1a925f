// The immutable problem of choosing a memory level for every tensor of one device. Times are ps, sizes bytes.
// docs/lab/memory-levels.md states the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace placewright::memory_levels {

constexpr int32_t kMaxLevels = 8;

// Level 0 is the fastest. The last one can hold all tensors at once, so it is never full.
struct LevelProblem {
    int32_t num_ops = 0;
    int32_t num_tensors = 0;
    int32_t num_levels = 0;

    // Tensors are in the order in which the rectifier looks at them: by op, weights before what the op makes.
    std::vector<int64_t> size;           // [tensor]
    std::vector<int32_t> first, last;    // [tensor] the ops during which it is held
    std::vector<uint8_t> is_weight;      // [tensor] held during all ops
    std::vector<int64_t> capacity;       // [level]
    std::vector<int64_t> latency_ps;     // [level] time before its first byte arrives
    std::vector<int64_t> inverse_rate;   // [level] in 2^-20 ps per byte
    std::vector<uint8_t> is_prefetched;  // [level] weights there may be fetched to level 0 one op earlier
    std::vector<int64_t> overhead_ps;    // [op]
    std::vector<int64_t> compute_ps;     // [op]
    std::vector<int64_t> fixed_ps;       // [op][level] traffic that no map changes
    std::vector<int32_t> use_begin;      // [op + 1]
    std::vector<int32_t> use_tensor;     // [use] tensors that an op reads or writes, each once per op
    std::vector<int64_t> use_bytes;      // [use]
    std::vector<uint8_t> use_is_early;   // [use] 1: of a weight that may be fetched while the op before runs

    // Derived by finish().
    std::vector<int64_t> use_ps;        // [use][level]
    std::vector<int32_t> reader_begin;  // [tensor + 1]
    std::vector<int32_t> reader_use;    // [place] uses, tensor by tensor
    std::vector<int32_t> op_of_use;     // [use]
    int64_t total_bytes = 0;            // of all tensors
    bool has_prefetch = false;
    bool has_latency = false;

    // Fills the derived arrays. Throws std::invalid_argument where the arrays contradict each other.
    void finish();

    int32_t last_level() const { return num_levels - 1; }
    // Returns the time of a transfer of `bytes` at a level, rounded up.
    int64_t transfer_ps(int64_t bytes, int32_t level) const {
        const auto scaled = static_cast<unsigned __int128>(bytes) * uint64_t(inverse_rate[size_t(level)]);
        return static_cast<int64_t>((scaled + 0xfffffu) >> 20);
    }
    std::span<const int32_t> uses_of(int32_t tensor) const {
        const auto begin = size_t(reader_begin[size_t(tensor)]), end = size_t(reader_begin[size_t(tensor) + 1]);
        return {reader_use.data() + begin, end - begin};
    }
};

}  // namespace placewright::memory_levels
