#include "construct/partial_placement.hpp"

#include <algorithm>
#include <bit>

namespace placewright {

namespace {

Csr residents_by_group(const Problem& problem) {
    std::vector<std::vector<int32_t>> rows(problem.num_ops);
    for (int32_t op = 0; op < problem.num_ops; ++op) {
        auto& row = rows[problem.group[op]];
        row.insert(row.end(), problem.residents[op].begin(), problem.residents[op].end());
    }
    for (auto& row : rows) {
        std::ranges::sort(row);
        row.erase(std::ranges::unique(row).begin(), row.end());
    }
    return Csr::from_rows(rows);
}

}  // namespace

PartialPlacement::PartialPlacement(const Problem& problem, bool with_memory)
    : problem_(problem),
      with_memory_(with_memory),
      device_of_(problem.num_ops),
      present_(problem.num_tensors),
      group_device_(problem.num_ops),
      uses_(problem),
      group_residents_(residents_by_group(problem)),
      users_left_(problem.num_tensors),
      readers_left_(problem.num_tensors),
      in_use_(problem.num_devices),
      peak_(problem.num_devices),
      resident_(problem.num_devices),
      resident_on_(problem.resident_bytes.size()) {
    reset();
}

void PartialPlacement::reset() {
    std::ranges::fill(device_of_, -1);
    std::ranges::fill(present_, 0);
    std::ranges::fill(group_device_, -1);
    if (!with_memory_) return;
    for (auto* bytes : {&in_use_, &peak_, &resident_}) std::ranges::fill(*bytes, 0);
    std::ranges::fill(resident_on_, 0);
    for (int32_t tensor = 0; tensor < problem_.num_tensors; ++tensor) {
        users_left_[tensor] = static_cast<int32_t>(uses_.users[tensor].size()) + problem_.live_out[tensor];
        readers_left_[tensor] = static_cast<int32_t>(problem_.consumers[tensor].size());
    }
}

int64_t PartialPlacement::missing_bytes(int32_t op, int32_t device) const {
    int64_t bytes = 0;
    for (int32_t tensor : problem_.inputs[op]) bytes += is_on(tensor, device) ? 0 : problem_.copy_bytes[tensor];
    return bytes;
}

int64_t PartialPlacement::missing_resident_bytes(int32_t op, int32_t device) const {
    const int32_t group = problem_.group[op];
    if (group_device_[group] >= 0) return 0;
    int64_t bytes = 0;
    for (int32_t resident : group_residents_[group])
        bytes += resident_on_[resident] >> device & 1 ? 0 : problem_.resident_bytes[resident];
    return bytes;
}

int64_t PartialPlacement::after_signals(int32_t op, int32_t device, int64_t start,
                                        const std::vector<int64_t>& finish) const {
    if (!problem_.signals) return start;
    for (int32_t previous : problem_.predecessors[op]) {
        const int32_t source = device_of(previous);
        const int64_t latency =
            source == device ? 0 : problem_.latency_ns[size_t(source) * problem_.num_devices + device];
        start = std::max(start, finish[previous] + latency);
    }
    return start;
}

int64_t PartialPlacement::resulting_peak(int32_t op, int32_t device) const {
    const int64_t running =
        in_use_[device] + missing_bytes(op, device) + problem_.output_bytes[op] + problem_.workspace_bytes[op];
    return std::max(peak_[device], running) + resident_[device] + missing_resident_bytes(op, device);
}

int64_t PartialPlacement::bytes_over_limit(int32_t op, int32_t device) const {
    return std::max<int64_t>(0, resulting_peak(op, device) - problem_.memory_limit[device]);
}

void PartialPlacement::hold_residents(int32_t op, int32_t device) {
    const int32_t group = problem_.group[op];
    if (group_device_[group] >= 0) return;
    resident_[device] += missing_resident_bytes(op, device);
    for (int32_t resident : group_residents_[group]) resident_on_[resident] |= uint64_t{1} << device;
}

void PartialPlacement::free_copies(int32_t tensor) {
    for (uint64_t left = present_[tensor] & ~(uint64_t{1} << home(tensor)); left != 0; left &= left - 1)
        in_use_[std::countr_zero(left)] -= problem_.copy_bytes[tensor];
}

void PartialPlacement::append(int32_t op, int32_t device) {
    if (with_memory_) hold(op, device);
    const uint64_t here = uint64_t{1} << device;
    for (int32_t tensor : problem_.inputs[op]) present_[tensor] |= here;
    for (int32_t tensor = problem_.output_begin[op]; tensor < problem_.output_begin[op + 1]; ++tensor)
        present_[tensor] |= here;
    device_of_[op] = group_device_[problem_.group[op]] = device;
    if (with_memory_) free_what_was_last_used_by(op);
}

void PartialPlacement::hold(int32_t op, int32_t device) {
    hold_residents(op, device);
    in_use_[device] += missing_bytes(op, device) + problem_.output_bytes[op];
    peak_[device] = std::max(peak_[device], in_use_[device] + problem_.workspace_bytes[op]);
}

void PartialPlacement::free_what_was_last_used_by(int32_t op) {
    for (int32_t tensor : problem_.inputs[op])
        if (--readers_left_[tensor] == 0) free_copies(tensor);
    for (int32_t storage : uses_.used[op])
        if (--users_left_[storage] == 0) in_use_[home(storage)] -= problem_.allocated_bytes[storage];
}

}  // namespace placewright
