#include "problem/storage_uses.hpp"

namespace placewright {

StorageUses::StorageUses(const Problem& problem) {
    std::vector<std::vector<int32_t>> users_of(problem.num_tensors), used_by(problem.num_ops);
    const auto use = [&](int32_t op, int32_t tensor) {
        const int32_t storage = problem.storage[tensor];
        if (!users_of[storage].empty() && users_of[storage].back() == op) return;
        users_of[storage].push_back(op);
        used_by[op].push_back(storage);
    };
    for (int32_t op = 0; op < problem.num_ops; ++op) {
        for (int32_t tensor = problem.output_begin[op]; tensor < problem.output_begin[op + 1]; ++tensor)
            use(op, tensor);
        for (int32_t tensor : problem.inputs[op]) use(op, tensor);
    }
    users = Csr::from_rows(users_of);
    used = Csr::from_rows(used_by);
}

}  // namespace placewright
