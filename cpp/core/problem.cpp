#include "problem.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

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
}

// Row lists the other way round: for each value the rows that hold it, ascending.
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

// No device ever holds more: every tensor once, at home or as a copy, all residents and the workspace of one op.
int64_t most_memory(const Problem& p) {
    int64_t bytes = p.workspace_bytes.empty() ? 0 : std::ranges::max(p.workspace_bytes);
    for (int64_t resident : p.resident_bytes) bytes += resident;
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor)
        bytes += std::max(p.home_bytes[tensor], p.copy_bytes[tensor]);
    return bytes;
}

}  // namespace

void Problem::finish() {
    require(num_ops >= 1 && num_devices >= 1 && num_devices <= 64, "a problem needs ops and 1 to 64 devices");
    const int64_t ops = num_ops, tensors = num_tensors, devices = num_devices;
    require_size(op_time_ns, ops * devices, "op_time_ns");
    require_size(workspace_bytes, ops, "workspace_bytes");
    require_size(output_begin, ops + 1, "output_begin");
    require_size(home_bytes, tensors, "home_bytes");
    require_size(remote_bytes, tensors, "remote_bytes");
    if (copy_bytes.empty()) copy_bytes = remote_bytes;
    require_size(copy_bytes, tensors, "copy_bytes");
    require_size(storage, tensors, "storage");
    require_size(kept, tensors, "kept");
    require_size(group, ops, "group");
    require_size(allowed, ops, "allowed");
    require_size(latency_ns, devices * devices, "latency_ns");
    require_size(inverse_bandwidth, devices * devices, "inverse_bandwidth");
    require_size(memory_limit, devices, "memory_limit");
    require_csr(inputs, num_ops, num_tensors, "inputs");
    require_csr(controls, num_ops, num_ops, "controls");
    require_csr(residents, num_ops, static_cast<int32_t>(resident_bytes.size()), "residents");
    require(output_begin.front() == 0 && output_begin.back() == tensors && std::ranges::is_sorted(output_begin),
            "output_begin does not cover the tensors");
    require(num_keys() < INT32_MAX, "the problem has more keys than 2^31");

    producer.resize(num_tensors);
    output_bytes.assign(num_ops, 0);
    for (int32_t op = 0; op < num_ops; ++op)
        for (int32_t tensor = output_begin[op]; tensor < output_begin[op + 1]; ++tensor) {
            producer[tensor] = op;
            output_bytes[op] += home_bytes[tensor];
        }
    consumers = transposed(inputs, num_tensors);
    predecessors = transposed(controls, num_ops);
    in_degree.resize(num_ops);
    for (int32_t op = 0; op < num_ops; ++op) {
        in_degree[op] = static_cast<int32_t>(inputs[op].size() + predecessors[op].size());
        if (in_degree[op] == 0) sources.push_back(op);
        require(group[op] >= 0 && group[op] <= op && group[group[op]] == group[op], "group does not name first ops");
        require((allowed[op] & everywhere()) != 0 && allowed[op] == allowed[group[op]], "allowed leaves no device");
        constrained |= group[op] != op || (allowed[op] & everywhere()) != everywhere();
        for (int32_t tensor : inputs[op]) require(producer[tensor] < op, "an op reads a tensor made after it");
        for (int32_t next : controls[op]) require(next > op, "a control dependency points backwards");
    }
    for (int32_t tensor = 0; tensor < num_tensors; ++tensor)
        require(storage[tensor] >= 0 && storage[tensor] < num_tensors, "storage names no tensor");
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
    const int64_t most = most_memory(*this);
    needs_memory = minimize_memory || std::ranges::any_of(memory_limit, [&](int64_t limit) { return limit < most; });
}

}  // namespace placewright
