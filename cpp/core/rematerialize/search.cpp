#include "rematerialize/search.hpp"

#include <array>
#include <cmath>
#include <numeric>

namespace placewright {

namespace {

constexpr std::array<EvictionExponents, 8> kEvictions{
    {{1, 1}, {1, 0.5}, {1, 0}, {0.5, 1}, {0.5, 0.5}, {2, 1}, {1, 2}, {2, 0}}};
// The starts are these and two repairs of runs in which each op runs once. With a host there is a third, which prefers
// moves, and if weights may be on the host a fourth, to which all of them come.
constexpr int64_t kStarts = kEvictions.size() + 2;
constexpr double kFirstTemperature = 0.002, kLastTemperature = 0.00002;  // relative to the time
constexpr double kPatience = 1.05;  // runs that take this many times the current ones are abandoned
constexpr double kMostTimes = 20;   // so are those that take this many times all ops run once
constexpr double kNoise = 0.7;
constexpr uint32_t kWaiting = 4;  // one in this many changes lets ops wait for moves

}  // namespace

RematerializationSearch::RematerializationSearch(std::shared_ptr<const Problem> problem, std::span<const int32_t> order,
                                                 std::span<const int32_t> again_before, uint64_t seed,
                                                 std::span<const uint8_t> may_move, const HostMemory& host)
    : problem_(std::move(problem)),
      ops_(*problem_, order, again_before, may_move, host),
      decoder_(ops_),
      judge_(ops_),
      repair_(ops_),
      seed_(seed),
      once_ns_(std::accumulate(ops_.time_ns.begin(), ops_.time_ns.end(), int64_t{1})) {}

void RematerializationSearch::advance(int64_t evaluations, int64_t at_most) {
    const int64_t end = std::min(evaluations, at_most < INT64_MAX - evaluations_ ? evaluations_ + at_most : INT64_MAX);
    for (; evaluations_ < end; ++evaluations_) {
        if (evaluations_ < kStarts + ops_.has_host() + (ops_.host.num_weights > 0)) {
            if (start(size_t(evaluations_))) settle(0);
        } else if (change()) {
            const double done = double(evaluations_) / double(evaluations);
            settle(kFirstTemperature * std::pow(kLastTemperature / kFirstTemperature, done));
        }
    }
}

bool RematerializationSearch::start(size_t number) {
    const auto longest = int64_t(kMostTimes * double(once_ns_));
    if (number < kEvictions.size()) return decoder_.decode(kEvictions[number], longest, tried_);
    tried_.clear();
    // In the last start weights come before each of their readers, and stay where that fits.
    const bool streams = int64_t(number) > kStarts;
    for (int32_t place = 0; place < ops_.num_ops(); ++place) {
        for (int32_t storage : ops_.reads[place])
            if (streams && ops_.is_weight(storage)) tried_.push_back({ops_.back_place(storage), false, 1});
        tried_.push_back({place, true, OpRun::kAll});
    }
    const RandomStream stream(seed_, uint64_t(evaluations_), 0, 0);
    const bool moves_first = int64_t(number) >= kStarts;
    repair_.repair(tried_, stream, number == kEvictions.size() ? 0 : kNoise, longest, moves_first, moves_first);
    return true;
}

bool RematerializationSearch::change() {
    if (current_.empty()) return false;
    const RandomStream stream(seed_, uint64_t(evaluations_), 0, 0), drawn(seed_, uint64_t(evaluations_), 0, 1);
    tried_ = current_;
    repair_.ruin(tried_, stream);
    const bool fits = current_fitness_.bytes_over_limit == 0;
    const double longest = fits ? kPatience * double(current_fitness_.objective) : kMostTimes * double(once_ns_);
    return repair_.repair(tried_, drawn, kNoise, int64_t(longest), stream.below(7, kWaiting) == 0);
}

void RematerializationSearch::settle(double temperature) {
    judge_.take_out_unread(tried_);
    RunsCost cost = judge_.cost(tried_);
    if (cost.peak_bytes <= ops_.limit) {
        judge_.keep_what_fits(tried_);
        cost = judge_.cost(tried_);
    }
    const int64_t over_host = std::max<int64_t>(0, cost.host_bytes - ops_.host.limit);
    const Fitness found{over_host + std::max<int64_t>(0, cost.peak_bytes - ops_.limit), cost.time_ns, cost.peak_bytes};
    if (found < best_fitness_) {
        best_fitness_ = found;
        best_ = tried_;
    }
    bool accepted = found <= current_fitness_;
    if (!accepted && temperature > 0 && found.bytes_over_limit == current_fitness_.bytes_over_limit) {
        const double worse = double(found.objective - current_fitness_.objective) / double(once_ns_);
        const RandomStream stream(seed_, uint64_t(evaluations_), 0, 2);
        accepted = uniform(stream.bits(0)) < std::exp(-worse / temperature);
    }
    if (!accepted) return;
    std::swap(current_, tried_);
    current_fitness_ = found;
}

}  // namespace placewright
