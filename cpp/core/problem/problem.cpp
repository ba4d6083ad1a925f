#include "problem/problem.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace placewright {

namespace {

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

template <class T>
void require_size(const std::vector<T>& values, int64_t expected, const char* name) {
    if (int64_t(values.size()) != expected)
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(values.size()) +
                                    " entries, expected " + std::to_string(expected));
}

void require_csr(const Csr& csr, int32_t rows, int32_t bound, const char* name) {
    const bool shaped = csr.num_rows() == rows && csr.begin.front() == 0 &&
                        csr.begin.back() == int64_t(csr.values.size()) && std::ranges::is_sorted(csr.begin);
    const bool inside = std::ranges::all_of(csr.values, [&](int32_t v) { return v >= 0 && v < bound; });
    if (!shaped || !inside) throw std::invalid_argument(std::string(name) + " is not a valid list of rows");
    std::vector<int32_t> last_row(size_t(bound), -1);
    for (int32_t row = 0; row < rows; ++row)
        for (int32_t value : csr[row])
            if (std::exchange(last_row[size_t(value)], row) == row)
                throw std::invalid_argument(std::string(name) + " names one thing twice in a row");
}

void require_positive(const std::vector<int64_t>& values, const char* name) {
    if (std::ranges::any_of(values, [](int64_t value) { return value < 0; }))
        throw std::invalid_argument(std::string(name) + " holds a negative number");
}

// Checks that all numbers are nonnegative and that no sum that the core forms reaches 2^62.
void require_sums(const Problem& p) {
    require_positive(p.op_time_ns, "op_time_ns");
    require_positive(p.workspace_bytes, "workspace_bytes");
    require_positive(p.allocated_bytes, "allocated_bytes");
    require_positive(p.transfer_bytes, "transfer_bytes");
    require_positive(p.copy_bytes, "copy_bytes");
    require_positive(p.resident_bytes, "resident_bytes");
    require_positive(p.latency_ns, "latency_ns");
    require_positive(p.inverse_bandwidth, "inverse_bandwidth");
    require_positive(p.memory_limit, "memory_limit");
    require(std::ranges::max(p.memory_limit) <= Problem::kNoLimit, "memory_limit is above 2^62");
    using Wide = unsigned __int128;
    constexpr Wide kEnd = Wide{1} << 62;
    const auto plus = [](Wide sum, int64_t value) { return sum + Wide(value); };
    const Wide devices = Wide(p.num_devices);
    const Wide moved = std::accumulate(p.transfer_bytes.begin(), p.transfer_bytes.end(), Wide{0}, plus);
    Wide held = std::accumulate(p.workspace_bytes.begin(), p.workspace_bytes.end(), Wide{0}, plus);
    held = std::accumulate(p.resident_bytes.begin(), p.resident_bytes.end(), held, plus);
    for (size_t tensor = 0; tensor < p.allocated_bytes.size(); ++tensor)
        held += Wide(std::max(p.allocated_bytes[tensor], p.copy_bytes[tensor]));
    require(held * devices < kEnd, "the sizes add up to 2^62 bytes or more");
    Wide time = 0;
    for (auto own = p.op_time_ns.begin(); own != p.op_time_ns.end(); own += p.num_devices)
        time += Wide(*std::max_element(own, own + p.num_devices));
    // A transfer is launched once for each device it goes to.
    for (auto own = p.launches.begin(); own != p.launches.end(); own += p.num_devices)
        time += Wide(std::max(std::ranges::max(std::span(own, p.num_devices), {}, &Launch::host_ns).host_ns,
                              std::ranges::max(std::span(own, p.num_devices), {}, &Launch::lead_ns).lead_ns));
    if (p.has_hosts) time += devices * Wide(p.num_tensors) * Wide(std::ranges::max(p.launch_ns));
    const Wide waits = Wide(p.num_tensors) + (p.signals ? Wide(p.num_ops) : 0);
    time += devices * ((moved * Wide(std::ranges::max(p.inverse_bandwidth)) >> 32) +
                       waits * (1 + Wide(std::ranges::max(p.latency_ns))));
    require(time < kEnd, "the times of ops, transfers and launches add up to 2^62 ns or more");
}

// Checks that the storage of each tensor is made no later, owns its memory and is on the same device.
void require_storage(const Problem& p) {
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor) {
        const int32_t storage = p.storage[tensor];
        require(storage >= 0 && storage < p.num_tensors, "storage names no tensor");
        require(p.storage[storage] == storage, "storage names a tensor without memory of its own");
        require(p.producer[storage] <= p.producer[tensor], "storage names a tensor that is made later");
        require(p.group[p.producer[storage]] == p.group[p.producer[tensor]], "storage lies on another device");
        require(storage == tensor || p.allocated_bytes[tensor] == 0,
                "a tensor in another's memory has bytes of its own");
        require(p.live_out[tensor] <= 1, "live_out holds something else than 0 and 1");
    }
}

// Transposes row lists: for each value, the rows that hold it, ascending.
Csr transposed(const Csr& csr, int32_t num_values) {
    Csr result;
    result.begin.assign(num_values + 1, 0);
    for (int32_t value : csr.values) ++result.begin[value + 1];
    std::partial_sum(result.begin.begin(), result.begin.end(), result.begin.begin());
    result.values.resize(csr.values.size());
    std::vector<int32_t> next(result.begin.begin(), result.begin.end() - 1);
    for (int32_t row = 0; row < csr.num_rows(); ++row)
        for (int32_t value : csr[row]) result.values[next[value]++] = row;
    return result;
}

}  // namespace

Csr Csr::from_rows(const std::vector<std::vector<int32_t>>& rows) {
    Csr csr;
    for (const auto& row : rows) {
        csr.values.insert(csr.values.end(), row.begin(), row.end());
        csr.begin.push_back(static_cast<int32_t>(csr.values.size()));
    }
    return csr;
}

namespace {

// The most that one device can hold: every tensor once, as original or copy, all residents and the largest workspace of
// one op.
int64_t max_memory(const Problem& p) {
    int64_t bytes = p.workspace_bytes.empty() ? 0 : std::ranges::max(p.workspace_bytes);
    for (int64_t resident : p.resident_bytes) bytes += resident;
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor)
        bytes += std::max(p.allocated_bytes[tensor], p.copy_bytes[tensor]);
    return bytes;
}

std::vector<Launch> launches_of_ops(const Problem& p) {
    std::vector<Launch> launches(size_t(p.num_ops) * size_t(p.num_devices));
    for (int32_t op = 0; op < p.num_ops; ++op)
        for (int32_t device = 0; device < p.num_devices; ++device)
            if (p.host_of[device] >= 0 && p.op_time(op, device) > 0)
                launches[size_t(op) * p.num_devices + device] = {p.launch_ns[device], p.launch_ns[device]};
    return launches;
}

}  // namespace

void Problem::finish() {
    require(num_ops >= 1 && num_devices >= 1 && num_devices <= 64, "a problem needs ops and 1 to 64 devices");
    const int64_t ops = num_ops, tensors = num_tensors, devices = num_devices;
    require_size(op_time_ns, ops * devices, "op_time_ns");
    require_size(workspace_bytes, ops, "workspace_bytes");
    require_size(output_begin, ops + 1, "output_begin");
    require_size(allocated_bytes, tensors, "allocated_bytes");
    require_size(transfer_bytes, tensors, "transfer_bytes");
    if (copy_bytes.empty()) copy_bytes = transfer_bytes;
    require_size(copy_bytes, tensors, "copy_bytes");
    require_size(storage, tensors, "storage");
    require_size(live_out, tensors, "live_out");
    require_size(group, ops, "group");
    require_size(allowed, ops, "allowed");
    require_size(latency_ns, devices * devices, "latency_ns");
    require_size(inverse_bandwidth, devices * devices, "inverse_bandwidth");
    require_size(memory_limit, devices, "memory_limit");
    if (host_of.empty()) {
        host_of.assign(num_devices, -1);
        launch_ns.assign(num_devices, 0);
    }
    require_size(host_of, devices, "host_of");
    require_size(launch_ns, devices, "launch_ns");
    has_hosts = std::ranges::any_of(host_of, [](int32_t host) { return host >= 0; });
    require(std::ranges::all_of(host_of, [&](int32_t host) { return host >= -1 && host < num_devices; }),
            "host_of names no host thread");
    require_positive(launch_ns, "launch_ns");
    if (has_hosts && launches.empty()) launches = launches_of_ops(*this);
    require_size(launches, has_hosts ? ops * devices : 0, "launches");
    require_csr(inputs, num_ops, num_tensors, "inputs");
    require_csr(controls, num_ops, num_ops, "controls");
    require_csr(residents, num_ops, static_cast<int32_t>(resident_bytes.size()), "residents");
    require(output_begin.front() == 0 && output_begin.back() == tensors && std::ranges::is_sorted(output_begin),
            "output_begin does not cover the tensors");
    require((ops + tensors) * devices + ops < INT32_MAX, "ops and tensors times devices reach 2^31");
    require_sums(*this);

    producer.resize(num_tensors);
    output_bytes.assign(num_ops, 0);
    for (int32_t op = 0; op < num_ops; ++op)
        for (int32_t tensor = output_begin[op]; tensor < output_begin[op + 1]; ++tensor) {
            producer[tensor] = op;
            output_bytes[op] += allocated_bytes[tensor];
        }
    consumers = transposed(inputs, num_tensors);
    predecessors = transposed(controls, num_ops);
    in_degree.resize(num_ops);
    for (int32_t op = 0; op < num_ops; ++op) {
        in_degree[op] = static_cast<int32_t>(inputs[op].size() + predecessors[op].size());
        if (in_degree[op] == 0) sources.push_back(op);
        require(group[op] >= 0 && group[op] <= op && group[group[op]] == group[op], "group does not name first ops");
        require(allowed[op] != 0 && (allowed[op] & ~everywhere()) == 0, "allowed names no device, or one too many");
        require(allowed[op] == allowed[group[op]], "allowed differs within a group");
        constrained |= group[op] != op || allowed[op] != everywhere();
        for (int32_t tensor : inputs[op]) require(producer[tensor] < op, "an op reads a tensor made after it");
        for (int32_t next : controls[op]) require(next > op, "a control dependency points backwards");
    }
    require_storage(*this);
    for (int32_t op = 0; op < num_ops; ++op) {
        for (int32_t tensor = output_begin[op]; tensor < output_begin[op + 1]; ++tensor) {
            tensor_edge_begin.push_back(static_cast<int32_t>(edges.values.size()));
            for (int32_t consumer : consumers[tensor]) {
                edges.values.push_back(2 * consumer);
                tensor_of_consumer.push_back(tensor);
            }
        }
        for (int32_t next : controls[op]) edges.values.push_back(2 * next + 1);
        edges.begin.push_back(static_cast<int32_t>(edges.values.size()));
    }
    std::vector<std::vector<int32_t>> members_of(num_ops);
    for (int32_t op = 0; op < num_ops; ++op) members_of[group[op]].push_back(op);
    members = Csr::from_rows(members_of);
    const int64_t most = max_memory(*this);
    needs_memory = minimize_memory || std::ranges::any_of(memory_limit, [&](int64_t limit) { return limit < most; });
}

}  // namespace placewright
