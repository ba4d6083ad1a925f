#include "construct/pair_features.hpp"

#include <algorithm>
#include <cmath>

#include "construct/list_schedule.hpp"

namespace placewright {

namespace {

constexpr double kUnitsOfWork = 64;

float quarter_log2(double ratio) {
    return ratio > 0 ? static_cast<float>(std::clamp(std::log2(ratio) / 4, -8.0, 8.0)) : -8;
}

double mean_ns_per_byte(const Problem& problem) {
    const int32_t D = problem.num_devices;
    double sum = 0;
    for (int32_t source = 0; source < D; ++source)
        for (int32_t destination = 0; destination < D; ++destination)
            if (source != destination) sum += double(problem.inverse_bandwidth[size_t(source * D + destination)]);
    return D == 1 ? 0 : sum / (D * (D - 1)) / 4294967296.0;
}

}  // namespace

PairFeatureMaker::PairFeatureMaker(const Problem& problem, const PartialSchedule& schedule)
    : problem_(problem),
      schedule_(schedule),
      level_(bottom_levels(problem)),
      output_bytes_(problem.num_ops),
      is_settled_(problem.num_ops),
      is_used_(problem.num_devices),
      readers_(size_t(problem.num_ops) * size_t(problem.num_devices)),
      siblings_(readers_.size()),
      mean_ns_per_byte_(mean_ns_per_byte(problem)) {
    int64_t bytes = 0;
    for (int32_t op = 0; op < problem.num_ops; ++op)
        for (int32_t tensor = problem.output_begin[op]; tensor < problem.output_begin[op + 1]; ++tensor)
            output_bytes_[op] += problem.transfer_bytes[tensor], bytes += problem.transfer_bytes[tensor];
    for (const int64_t time : stand_in_times(problem, Outlook::mean)) work_ns_ += double(time);
    work_left_ns_ = work_ns_;
    unit_ns_ = std::max(1.0, work_ns_ / kUnitsOfWork);
    const auto highest = level_.empty() ? 0 : *std::ranges::max_element(level_);
    parallelism_ = quarter_log2(work_ns_ / double(std::max<int64_t>(1, highest)));
    communication_ = quarter_log2(mean_link_ns(bytes) / std::max(1.0, work_ns_));
}

float PairFeatureMaker::units(double ns) const {
    return static_cast<float>(std::copysign(std::log1p(std::abs(ns) / unit_ns_), ns));
}

void PairFeatureMaker::make(std::span<const OpOnDevice> pairs, std::vector<PairFeatures>& rows) {
    const int32_t D = problem_.num_devices;
    rows.assign(pairs.size(), {});
    start_.resize(pairs.size());
    int64_t first_start = INT64_MAX, highest = 0, least_busy = INT64_MAX, latest_end = 0;
    for (int32_t device = 0; device < D; ++device) least_busy = std::min(least_busy, schedule_.clock(device));
    for (size_t begin = 0, end = 0; begin < pairs.size(); begin = end) {
        int64_t own_start = INT64_MAX;
        for (; end < pairs.size() && pairs[end].op == pairs[begin].op; ++end) {
            start_[end] = schedule_.earliest_start(pairs[end].op, pairs[end].device);
            own_start = std::min(own_start, start_[end]);
        }
        first_start = std::min(first_start, own_start);
        highest = std::max(highest, level_[pairs[begin].op]);
        latest_end = std::max(latest_end, own_start + level_[pairs[begin].op]);
    }
    for (size_t begin = 0, end = 0; begin < pairs.size(); begin = end) {
        const int32_t op = pairs[begin].op;
        int64_t least_time = INT64_MAX, first_finish = INT64_MAX, input_bytes = 0, largest = -1;
        int32_t largest_at = -1;
        for (int32_t device = 0; device < D; ++device) least_time = std::min(least_time, problem_.op_time(op, device));
        for (; end < pairs.size() && pairs[end].op == op; ++end)
            first_finish = std::min(first_finish, start_[end] + problem_.op_time(op, pairs[end].device));
        for (const int32_t tensor : problem_.inputs[op]) {
            input_bytes += problem_.transfer_bytes[tensor];
            if (problem_.transfer_bytes[tensor] <= largest) continue;
            largest = problem_.transfer_bytes[tensor];
            largest_at = schedule_.placement().home(tensor);
        }
        int64_t readers = 0, siblings = 0;
        for (int32_t device = 0; device < D; ++device) {
            readers += readers_[at(op, device)];
            siblings += siblings_[at(op, device)];
        }
        for (size_t pair = begin; pair < end; ++pair) {
            const int32_t device = pairs[pair].device;
            const int64_t start = start_[pair], time = problem_.op_time(op, device);
            int64_t here = 0, arrival = 0;
            for (const int32_t tensor : problem_.inputs[op]) {
                if (schedule_.placement().is_on(tensor, device))
                    here += problem_.transfer_bytes[tensor];
                else
                    arrival += problem_.transfer_time(tensor, schedule_.placement().home(tensor), device);
            }
            auto set = [&row = rows[pair]](PairFeature feature, float value) { row[size_t(feature)] = value; };
            set(PairFeature::start, units(double(start - first_start)));
            set(PairFeature::idle, units(double(start - schedule_.clock(device))));
            set(PairFeature::load, units(double(schedule_.clock(device) - least_busy)));
            set(PairFeature::finish, units(double(start + time - first_finish)));
            set(PairFeature::level, units(double(highest - level_[op])));
            set(PairFeature::path_end, units(double(start + level_[op] - latest_end)));
            set(PairFeature::time, units(double(time)));
            set(PairFeature::slowdown, least_time > 0 ? 4 * quarter_log2(double(time) / double(least_time)) : 0);
            set(PairFeature::arrival, units(double(arrival)));
            set(PairFeature::inputs_here, input_bytes > 0 ? float(double(here) / double(input_bytes)) : 1);
            set(PairFeature::largest_input_here, float(largest_at == device));
            set(PairFeature::outputs, units(mean_link_ns(output_bytes_[op])));
            set(PairFeature::fixed_readers, units(mean_link_ns(readers - readers_[at(op, device)])));
            set(PairFeature::siblings_here, units(mean_link_ns(siblings_[at(op, device)])));
            set(PairFeature::siblings_elsewhere, units(mean_link_ns(siblings - siblings_[at(op, device)])));
            set(PairFeature::fixed, float(end - begin == 1));
            if (problem_.needs_memory && problem_.memory_limit[device] < Problem::kNoLimit)
                set(PairFeature::memory,
                    float(std::min(8.0, double(schedule_.placement().resulting_peak(op, device)) /
                                            double(std::max<int64_t>(1, problem_.memory_limit[device])))));
            set(PairFeature::unused, float(!is_used_[size_t(device)]));
            set(PairFeature::work_left, work_ns_ > 0 ? float(work_left_ns_ / work_ns_) : 0);
            set(PairFeature::devices, 1.0f / float(D));
            set(PairFeature::parallelism, parallelism_);
            set(PairFeature::communication, communication_);
        }
    }
}

void PairFeatureMaker::placed(int32_t op, int32_t device) {
    double time = 0;
    for (int32_t other = 0; other < problem_.num_devices; ++other) time += double(problem_.op_time(op, other));
    work_left_ns_ -= std::floor(time / problem_.num_devices);
    is_used_[size_t(device)] = 1;
    for (int32_t tensor = problem_.output_begin[op]; tensor < problem_.output_begin[op + 1]; ++tensor)
        for (const int32_t reader : problem_.consumers[tensor])
            for (const int32_t other : problem_.inputs[reader])
                if (const int32_t sibling = problem_.producer[other]; schedule_.placement().device_of(sibling) < 0)
                    siblings_[at(sibling, device)] += problem_.transfer_bytes[tensor];
    if (!is_settled_[op])
        for (const int32_t member : problem_.members[problem_.group[op]]) settle(member, device);
}

// The op's device is fixed: whoever makes what it reads and has none yet would send that there.
void PairFeatureMaker::settle(int32_t op, int32_t device) {
    is_settled_[op] = 1;
    for (const int32_t tensor : problem_.inputs[op])
        if (const int32_t maker = problem_.producer[tensor]; schedule_.placement().device_of(maker) < 0)
            readers_[at(maker, device)] += problem_.transfer_bytes[tensor];
}

}  // namespace placewright
