// The immutable problem: flat arrays over ops, tensors and devices. It is built once and read by everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace placewright {

// Rows of variable length: row i is values[begin[i] .. begin[i + 1]).
struct Csr {
    std::vector<int32_t> begin{0};
    std::vector<int32_t> values;

    std::span<const int32_t> operator[](int32_t row) const {
        return {values.data() + begin[row], static_cast<size_t>(begin[row + 1] - begin[row])};
    }
    int32_t num_rows() const { return static_cast<int32_t>(begin.size()) - 1; }
    static Csr from_rows(const std::vector<std::vector<int32_t>>& rows);
};

// One entry of an order: an op (destination < 0), or the transfer of tensor `id` to device `destination`.
struct Step {
    int32_t id;
    int32_t destination;

    bool is_op() const { return destination < 0; }
    static Step op(int32_t id) { return {id, -1}; }
};

// A placement and an order, before they are timed.
struct Solution {
    std::vector<int32_t> device_of;  // [op]
    std::vector<Step> order;
};

// The work of a host thread before an op can start: the thread is busy for host_ns, and the op may start lead_ns after
// the thread began. The two are equal for a single op; an op made of several may start before the last of them is
// launched.
struct Launch {
    int64_t host_ns = 0;
    int64_t lead_ns = 0;

    bool operator==(const Launch&) const = default;
};

// The cost of one schedule. Compared in this order: bytes over the limits, objective, the other objective.
struct Fitness {
    int64_t bytes_over_limit = INT64_MAX;
    int64_t objective = INT64_MAX;
    int64_t other = INT64_MAX;

    auto operator<=>(const Fitness&) const = default;
};

// Tensors are numbered by producer: op i owns tensors [output_begin[i], output_begin[i + 1]).
// Field meanings are those of placewright.problem.lowering.Lowered; times are ns, sizes bytes.
struct Problem {
    int32_t num_ops = 0;
    int32_t num_tensors = 0;
    int32_t num_devices = 0;

    std::vector<int64_t> op_time_ns;       // [op][device]
    std::vector<int64_t> workspace_bytes;  // [op]
    std::vector<int32_t> output_begin;     // [op + 1]
    std::vector<int64_t> allocated_bytes;  // [tensor] on its producer's device
    std::vector<int64_t> transfer_bytes;   // [tensor] moved by a transfer
    std::vector<int64_t> copy_bytes;       // [tensor] held by the copy a transfer makes; by default transfer_bytes
    std::vector<int32_t> storage;          // [tensor] the tensor that owns its memory on the producer's device
    std::vector<uint8_t> live_out;         // [tensor] 1: its memory stays allocated to the end
    Csr inputs;                            // op -> tensors it reads, each once
    Csr controls;                          // op -> ops that must follow it by a control dependency
    Csr residents;                         // op -> residents it reads
    std::vector<int64_t> resident_bytes;   // [resident]
    std::vector<int32_t> group;            // [op] the first op of its group, which shares one device
    std::vector<uint64_t> allowed;         // [op] bit mask of devices

    std::vector<int64_t> latency_ns;         // [source][destination]
    std::vector<int64_t> inverse_bandwidth;  // [source][destination] in 2^-32 ns per byte
    std::vector<int64_t> memory_limit;       // [device]; kNoLimit where there is none
    std::vector<int32_t> host_of;            // [device] the host thread that launches its work; -1: none does
    std::vector<int64_t> launch_ns;          // [device] time that its host needs for one launch
    bool blocking = false;
    bool signals = false;
    bool minimize_memory = false;

    // [op][device], where a host launches; by default launch_ns for ops that take time on that device.
    std::vector<Launch> launches;

    // Derived by finish().
    std::vector<int32_t> producer;      // [tensor]
    std::vector<int64_t> output_bytes;  // [op] sum of allocated_bytes
    std::vector<int32_t> in_degree;     // [op] input tensors plus control predecessors
    Csr consumers;                      // tensor -> ops reading it
    Csr predecessors;                   // op -> control predecessors
    Csr members;                        // first op of a group -> its ops
    std::vector<int32_t> sources;       // ops that depend on nothing
    // Everything that waits for an op: the consumers of its tensors, tensor by tensor, then its control successors. An
    // entry is 2 * op, plus 1 for a control dependency. A tensor's consumers start at tensor_edge_begin in
    // edges.values.
    Csr edges;
    std::vector<int32_t> tensor_edge_begin;   // [tensor]
    std::vector<int32_t> tensor_of_consumer;  // [place in consumers.values] the tensor of that row
    bool constrained = false;                 // some op shares a group or may not use every device
    bool needs_memory = false;                // memory is the objective, or some plan might exceed a limit
    bool has_hosts = false;                   // some device has a host thread that launches its work

    static constexpr int64_t kNoLimit = int64_t{1} << 62;

    // Fills the derived arrays. Throws std::invalid_argument where the arrays contradict each other.
    void finish();

    // The bit mask of all devices.
    uint64_t everywhere() const { return num_devices == 64 ? ~uint64_t{0} : (uint64_t{1} << num_devices) - 1; }

    std::span<const int32_t> tensor_edges(int32_t tensor) const {
        return {edges.values.data() + tensor_edge_begin[tensor], consumers[tensor].size()};
    }

    int64_t op_time(int32_t op, int32_t device) const { return op_time_ns[size_t(op) * num_devices + device]; }

    // latency + size / bandwidth rounded up, as placewright.machine.Link.transfer_time_ns.
    int64_t transfer_time(int32_t tensor, int32_t source, int32_t destination) const {
        const size_t link = size_t(source) * num_devices + destination;
        const auto scaled = static_cast<unsigned __int128>(transfer_bytes[tensor]) * uint64_t(inverse_bandwidth[link]);
        return latency_ns[link] + static_cast<int64_t>((scaled + 0xffffffffu) >> 32);
    }

    // Defined only if has_hosts. An op with host_ns 0 is not launched.
    const Launch& launch(int32_t op, int32_t device) const { return launches[size_t(op) * num_devices + device]; }
    // The device whose host launches transfers between the two: the source if it has a host, else the destination; -1
    // if neither has one.
    int32_t launcher(int32_t source, int32_t destination) const {
        return host_of[source] >= 0 ? source : host_of[destination] >= 0 ? destination : -1;
    }

    Fitness fitness(int64_t bytes_over_limit, int64_t step_time_ns, int64_t peak_memory_bytes) const {
        return minimize_memory ? Fitness{bytes_over_limit, peak_memory_bytes, step_time_ns}
                               : Fitness{bytes_over_limit, step_time_ns, peak_memory_bytes};
    }
};

}  // namespace placewright
