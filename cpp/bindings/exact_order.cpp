// The search for the least peak on one device, for Python: advanced some evaluations at a time.
#include "improve/exact_order.hpp"

#include <nanobind/stl/shared_ptr.h>

#include "arrays.hpp"
#include "search.hpp"

namespace placewright {

void bind_exact_order(nb::module_& m) {
    using nb::arg;
    const auto init = [](ExactOrder* self, std::shared_ptr<Problem> problem, ArrayIn<int32_t> start,
                         int64_t least_bytes) {
        if (problem->num_devices != 1) throw std::invalid_argument("there must be one device");
        auto ops = as_op_order(*problem, start);
        new (self) ExactOrder(std::move(problem), std::move(ops), least_bytes);
    };
    bind_search<ExactOrder>(m, "ExactOrder",
                            "The order of least peak on one device; see placewright.search.metaheuristics.peak_search.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("start"), arg("least_bytes"))
        .def_prop_ro("is_exhausted", &ExactOrder::is_exhausted)
        .def_prop_ro("bound_bytes", &ExactOrder::bound_bytes);
}

}  // namespace placewright
