// Evict on demand for Python.
#include "construct/eviction.hpp"

#include "arrays.hpp"

namespace placewright {

void bind_eviction(nb::module_& m) {
    using nb::arg;
    m.def(
        "with_evictions",
        [](const Problem& problem, ArrayIn<int32_t> device_of, ArrayIn<int32_t> ops, ArrayIn<int64_t> target) {
            const auto placement = as_placement(problem, device_of);
            const auto op_order = as_op_order(problem, ops);
            const auto bytes = as_vector(target);
            if (bytes.size() != size_t(problem.num_devices) || std::ranges::min(bytes) < 0)
                throw std::invalid_argument("target needs bytes per device");
            Eviction eviction(problem);
            const auto order = eviction.order(placement, op_order, bytes);
            return to_order(std::vector(order.begin(), order.end()));
        },
        arg("problem"), arg("device_of").noconvert(), arg("ops").noconvert(), arg("target").noconvert(),
        "A whole order: transfers late, but earlier where a device would exceed its target of bytes.");
}

}  // namespace placewright
