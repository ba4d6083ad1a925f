#include "rematerialize/ordered_ops.hpp"

#include <algorithm>
#include <numeric>

namespace placewright {

OrderedOps::OrderedOps(const Problem& problem, std::span<const int32_t> order, std::span<const int32_t> again_before)
    : op(order.begin(), order.end()), limit(problem.memory_limit[0]) {
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
        again_until.push_back(before < 0 ? 0 : before >= problem.num_ops ? num_ops() : place_of[before]);
        const auto reads_storage = [&](int32_t tensor) {
            const int32_t storage = storage_of[problem.storage[tensor]];
            if (std::ranges::find(read[place], storage) != read[place].end()) return;
            read[place].push_back(storage);
            read_by[storage].push_back(place);
        };
        for (int32_t tensor : problem.inputs[own]) reads_storage(tensor);
        for (int32_t tensor = problem.output_begin[own]; tensor < problem.output_begin[own + 1]; ++tensor) {
            const int32_t root = problem.storage[tensor];
            if (problem.producer[root] != own) {
                reads_storage(tensor);
                may_go[storage_of[root]] = 0;  // what is written to in place holds more than its maker made
            } else if (root == tensor) {
                storage_of[tensor] = num_storages();
                made[place].push_back(num_storages());
                maker.push_back(place);
                bytes.push_back(problem.allocated_bytes[tensor]);
                // What takes no memory, a control dependency as a tensor among it, is never worth making again.
                if (problem.allocated_bytes[tensor] == 0) beside[place] += problem.copy_bytes[tensor];
                stays.push_back(problem.live_out[tensor] || problem.allocated_bytes[tensor] == 0);
                may_go.push_back(!stays.back() && again_until[place] > place + 1);
                read_by.emplace_back();
            }
        }
    }
    reads = Csr::from_rows(read);
    makes = Csr::from_rows(made);
    readers = Csr::from_rows(read_by);
    resident_bytes = std::accumulate(problem.resident_bytes.begin(), problem.resident_bytes.end(), int64_t{0});
}

}  // namespace placewright
