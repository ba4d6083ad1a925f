// What a list scheduler can know of a ready op and a device while ops are placed one after another: what a learned
// score reads in place of the earliest start alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "construct/partial_schedule.hpp"
#include "problem/problem.hpp"

namespace placewright {

// One number each. Of a time t it is log(1 + t), with the sign of t, in units of a 64th of all work. "Level" is the
// bottom level, with mean times.
enum class PairFeature : int32_t {
    start,        // when the op could start there, after the earliest start of any pair
    idle,         // how long the device would wait for it
    load,         // how much longer the device is busy than the least busy one
    finish,       // when it would end there, after its earliest end on any device
    level,        // the highest level of a ready op above its own
    path_end,     // earliest end of its longest path, before (negative) that of any ready op where each fits best
    time,         // of the op there
    slowdown,     // log2 of that over its least time on any device
    arrival,      // transfer times of the inputs that are missing there, over the links they would take
    inputs_here,  // share of its input bytes that are there; 1 where it reads nothing
    largest_input_here,  // 1 where its largest input was made there
    outputs,             // time to send all it makes over a mean link
    fixed_readers,       // time to send what it makes to readers elsewhere whose device is fixed by their group
    siblings_here,       // time to send what its readers also read and what was made there, over a mean link
    siblings_elsewhere,  // the same of what was made elsewhere
    fixed,               // 1 where the op has no other device
    memory,              // share of the device's limit that is then its peak; 0 without limits
    unused,              // 1 where nothing stands there yet
    // Of the problem or the moment, the same for all pairs.
    work_left,      // share of all work that is not placed
    devices,        // 1 over their number
    parallelism,    // log2 of all work over the highest level, a quarter of it
    communication,  // log2 of the time to send every tensor once over all work, a quarter of it
    count,
};
inline constexpr auto kPairFeatures = static_cast<size_t>(PairFeature::count);
using PairFeatures = std::array<float, kPairFeatures>;

struct OpOnDevice {
    int32_t op;
    int32_t device;
};

// Keeps what the features need beside a schedule.
class PairFeatureMaker {
  public:
    PairFeatureMaker(const Problem& problem, const PartialSchedule& schedule);

    // Of all pairs that are compared next; the pairs of an op stand together.
    void make(std::span<const OpOnDevice> pairs, std::vector<PairFeatures>& rows);

    // To be told right after the op was appended to the schedule.
    void placed(int32_t op, int32_t device);

    int64_t level(int32_t op) const { return level_[op]; }

  private:
    using Bytes = std::vector<int64_t>;
    void settle(int32_t op, int32_t device);
    float units(double ns) const;
    double mean_link_ns(int64_t bytes) const { return double(bytes) * mean_ns_per_byte_; }
    size_t at(int32_t op, int32_t device) const { return size_t(op) * size_t(problem_.num_devices) + size_t(device); }

    const Problem& problem_;
    const PartialSchedule& schedule_;
    std::vector<int64_t> level_;         // [op]
    std::vector<int64_t> output_bytes_;  // [op] that a transfer of each output would move
    std::vector<uint8_t> is_settled_;    // [op] its group stands somewhere
    std::vector<uint8_t> is_used_;       // [device]
    Bytes readers_;                      // [op][device] bytes it will send to readers settled there
    Bytes siblings_;                     // [op][device] bytes made there that its readers read too
    std::vector<int64_t> start_;         // scratch of make, [pair]
    double unit_ns_ = 1, work_ns_ = 0, work_left_ns_ = 0, mean_ns_per_byte_ = 0;
    float parallelism_ = 0, communication_ = 0;
};

}  // namespace placewright
