#include "rematerialize/ordered_ops.hpp"

#include <algorithm>
#include <numeric>

namespace placewright {

namespace {

int64_t move_ns(int64_t bytes, int64_t latency_ns, int64_t inverse_bandwidth) {
    const auto scaled = static_cast<unsigned __int128>(bytes) * uint64_t(inverse_bandwidth);
    return latency_ns + static_cast<int64_t>((scaled + 0xffffffffu) >> 32);
}

}  // namespace

OrderedOps::OrderedOps(const Problem& problem, std::span<const int32_t> order, std::span<const int32_t> again_before,
                       std::span<const uint8_t> may_move, const HostMemory& host)
    : op(order.begin(), order.end()), host(host), limit(problem.memory_limit[0]) {
    std::vector<int32_t> place_of(problem.num_ops);
    for (int32_t place = 0; place < problem.num_ops; ++place) place_of[order[place]] = place;
    std::vector<int32_t> storage_of(problem.num_tensors, -1);  // by the tensor that owns the memory
    std::vector<std::vector<int32_t>> read(order.size()), made(order.size()), read_by;
    for (int32_t place = 0; place < num_ops(); ++place) {
        const int32_t own = op[place];
        time_ns.push_back(problem.op_time(own, 0));
        workspace.push_back(problem.workspace_bytes[own]);
        beside.push_back(0);
        const int32_t before = again_before[own];
        again_until.push_back(before < 0 ? -1 : before >= problem.num_ops ? num_ops() : place_of[before]);
        const auto reads_storage = [&](int32_t read_tensor) {
            const int32_t storage = storage_of[problem.storage[read_tensor]];
            if (std::ranges::find(read[place], storage) != read[place].end()) return;
            read[place].push_back(storage);
            read_by[storage].push_back(place);
        };
        for (int32_t input : problem.inputs[own]) reads_storage(input);
        for (int32_t output = problem.output_begin[own]; output < problem.output_begin[own + 1]; ++output) {
            const int32_t root = problem.storage[output];
            if (problem.producer[root] != own) {
                reads_storage(output);
                may_go[storage_of[root]] = 0;  // after a write in place it holds more than its maker made
            } else if (root == output) {
                storage_of[output] = num_storages();
                tensor.push_back(output);
                made[place].push_back(num_storages());
                maker.push_back(place);
                bytes.push_back(problem.allocated_bytes[output]);
                // Storages without bytes, such as control dependencies given as tensors, are never worth making again.
                if (problem.allocated_bytes[output] == 0) beside[place] += problem.copy_bytes[output];
                stays.push_back(problem.live_out[output] || problem.allocated_bytes[output] == 0);
                may_go.push_back(!stays.back() && again_until[place] > place + 1);
                read_by.emplace_back();
            }
        }
    }
    number_of_moved.assign(bytes.size(), -1);
    there_ns.assign(bytes.size(), 0);
    back_ns.assign(bytes.size(), 0);
    for (int32_t storage = 0; !may_move.empty() && storage < num_storages(); ++storage) {
        if (!may_move[tensor[storage]]) continue;
        const int64_t moves = problem.transfer_bytes[tensor[storage]];
        if (!is_weight(storage))
            there_ns[storage] = move_ns(moves, host.latency_there_ns, host.inverse_bandwidth_there);
        back_ns[storage] = move_ns(moves, host.latency_back_ns, host.inverse_bandwidth_back);
        number_of_moved[storage] = static_cast<int32_t>(moved.size());
        moved.push_back(storage);
        read.push_back({storage});
        made.emplace_back();
        read.emplace_back();
        made.push_back({storage});
    }
    for (std::vector<int64_t>* each : {&time_ns, &workspace, &beside}) each->resize(read.size(), 0);
    again_until.resize(read.size(), num_ops());
    reads = Csr::from_rows(read);
    makes = Csr::from_rows(made);
    readers = Csr::from_rows(read_by);
    resident_bytes = std::accumulate(problem.resident_bytes.begin(), problem.resident_bytes.end(), int64_t{0});
}

}  // namespace placewright
