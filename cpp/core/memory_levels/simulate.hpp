// The cost of a map, and the rectifier, which makes a map fit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory_levels/problem.hpp"

namespace placewright::memory_levels {

using Level = uint8_t;

// Buffers that are reused from map to map, so that no evaluation allocates.
struct LevelScratch {
    explicit LevelScratch(const LevelProblem& problem);

    std::vector<int64_t> in_use;          // [level][op] bytes of activations, for all levels but the last
    std::vector<int64_t> weights, peaks;  // [level] bytes of weights; the most that activations take
};

struct LevelOutcome {
    int64_t latency_ps = 0;
    int64_t moved_bytes = 0;  // by the rectifier; 0 exactly if the map fits as it is
};

// Goes through the tensors in order and moves each that does not fit in addition to those before it to the next slower
// level, until it fits. Returns the bytes of the tensors moved. The scratch then holds in_use, weights and peaks of the
// map.
int64_t rectify(const LevelProblem& problem, std::span<Level> levels, LevelScratch& scratch);

// Counts a map as it is, whether or not it fits, into the scratch.
void count(const LevelProblem& problem, std::span<const Level> levels, LevelScratch& scratch);

// Returns the latency of a map that fits. With prefetching the scratch must hold the counts of the map, from rectify or
// count.
int64_t latency_of(const LevelProblem& problem, std::span<const Level> levels, const LevelScratch& scratch);

// As latency_of, and writes the time of each op.
int64_t op_times(const LevelProblem& problem, std::span<const Level> levels, const LevelScratch& scratch,
                 std::span<int64_t> time_ps);

// Rectifies the map in place, then computes its latency.
LevelOutcome evaluate(const LevelProblem& problem, std::span<Level> levels, LevelScratch& scratch);

}  // namespace placewright::memory_levels
