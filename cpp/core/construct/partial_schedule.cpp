#include "construct/partial_schedule.hpp"

#include <algorithm>
#include <bit>

namespace placewright {

PartialSchedule::PartialSchedule(const Problem& problem, bool with_memory)
    : problem_(problem),
      placement_(problem, with_memory),
      clock_(problem.num_devices),
      host_clock_(problem.has_hosts ? problem.num_devices : 0),
      link_free_(size_t(problem.num_devices) * size_t(problem.num_devices)),
      finish_(problem.num_ops),
      position_(problem.num_ops),
      last_barrier_(size_t(problem.num_devices) * size_t(problem.num_devices)),
      arrival_(problem.blocking ? 0 : size_t(problem.num_tensors) * size_t(problem.num_devices)) {
    ops_.reserve(problem.num_ops);
}

void PartialSchedule::reset() {
    placement_.reset();
    ops_.clear();
    std::ranges::fill(clock_, 0);
    std::ranges::fill(host_clock_, 0);
    std::ranges::fill(link_free_, 0);
    std::ranges::fill(last_barrier_, 0);
}

// Returns when the transfer has been launched.
int64_t PartialSchedule::launched_transfer(int32_t source, int32_t destination, int64_t time, Trial& trial) const {
    const int32_t launcher = problem_.launcher(source, destination);
    if (launcher < 0 || time == 0) return 0;
    return trial.host_clock[size_t(problem_.host_of[launcher])] += problem_.launch_ns[launcher];
}

int64_t& PartialSchedule::trial_time(Trial& trial, int32_t device, int64_t otherwise) const {
    if (!(trial.touched >> device & 1)) trial.free_at[device] = otherwise;
    trial.touched |= uint64_t{1} << device;
    return trial.free_at[device];
}

int64_t PartialSchedule::arrival_blocking(int32_t tensor, int32_t device, Trial& trial) const {
    const int32_t producer = problem_.producer[tensor], source = placement_.home(tensor);
    int64_t& sender = trial_time(trial, source, clock_[source]);
    int64_t& receiver = trial_time(trial, device, clock_[device]);
    const bool caught = trial.barriers >> source & 1 || position_[producer] < last_barrier_[at(source, device)];
    if (!caught) sender = receiver = std::max(sender, receiver);
    trial.barriers |= uint64_t{!caught} << source;
    const int64_t time = problem_.transfer_time(tensor, source, device);
    if (problem_.has_hosts) receiver = std::max(receiver, launched_transfer(source, device, time, trial));
    sender += time;
    return receiver += time;
}

int64_t PartialSchedule::arrival_overlapped(int32_t tensor, int32_t device, Trial& trial) const {
    const int32_t producer = problem_.producer[tensor], source = placement_.home(tensor);
    int64_t& link = trial_time(trial, source, link_free_[at(source, device)]);
    const int64_t time = problem_.transfer_time(tensor, source, device);
    int64_t start = std::max(link, finish_[producer]);
    if (problem_.has_hosts) start = std::max(start, launched_transfer(source, device, time, trial));
    return link = start + time;
}

template <class F>
int64_t PartialSchedule::start_after_transfers(int32_t op, int32_t device, Trial& trial, F&& on_transfer) const {
    int64_t start = clock_[device];
    if (problem_.has_hosts) std::ranges::copy(host_clock_, trial.host_clock.begin());
    for (int32_t tensor : problem_.inputs[op]) {
        const int32_t source = placement_.home(tensor);
        if (source == device) continue;
        if (placement_.is_on(tensor, device)) {
            if (!problem_.blocking) start = std::max(start, arrival_[at(tensor, device)]);
            continue;
        }
        const int64_t arrival =
            problem_.blocking ? arrival_blocking(tensor, device, trial) : arrival_overlapped(tensor, device, trial);
        start = std::max(start, arrival);
        on_transfer(tensor, arrival);
    }
    if (const int32_t host = problem_.host_of[device]; host >= 0 && problem_.launch(op, device).host_ns > 0) {
        start = std::max(start, trial.host_clock[size_t(host)] + problem_.launch(op, device).lead_ns);
        trial.host_clock[size_t(host)] += problem_.launch(op, device).host_ns;
    }
    return placement_.after_signals(op, device, start, finish_);
}

int64_t PartialSchedule::earliest_start(int32_t op, int32_t device) const {
    Trial trial;
    return start_after_transfers(op, device, trial, [](int32_t, int64_t) {});
}

// Takes over the result of a trial for the device.
void PartialSchedule::keep(const Trial& trial, int32_t device) {
    if (problem_.has_hosts) std::copy_n(trial.host_clock.begin(), host_clock_.size(), host_clock_.begin());
    for (uint64_t left = trial.touched; left != 0; left &= left - 1) {
        const int32_t other = std::countr_zero(left);
        (problem_.blocking ? clock_[other] : link_free_[at(other, device)]) = trial.free_at[other];
    }
    for (uint64_t left = trial.barriers; left != 0; left &= left - 1) {
        const int32_t other = std::countr_zero(left);
        last_barrier_[at(other, device)] = last_barrier_[at(device, other)] = static_cast<int32_t>(ops_.size());
    }
}

void PartialSchedule::append(int32_t op, int32_t device) {
    Trial trial;
    const int64_t start = start_after_transfers(op, device, trial, [&](int32_t tensor, int64_t arrival) {
        if (!problem_.blocking) arrival_[at(tensor, device)] = arrival;
    });
    keep(trial, device);
    clock_[device] = finish_[op] = start + problem_.op_time(op, device);
    position_[op] = static_cast<int32_t>(ops_.size());
    placement_.append(op, device);
    ops_.push_back(op);
}

}  // namespace placewright
