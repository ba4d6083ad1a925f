// The fastest schedule of few ops, for Python: advanced some evaluations at a time.
#include "improve/exact_schedule.hpp"

#include <nanobind/stl/shared_ptr.h>

#include "arrays.hpp"
#include "search.hpp"

namespace placewright {

void bind_exact_schedule(nb::module_& m) {
    using nb::arg;
    const auto init = [](ExactSchedule* self, std::shared_ptr<Problem> problem, ArrayIn<int32_t> device_of,
                         OrderIn order, int64_t divisor_ns) {
        Solution start{as_placement(*problem, device_of), as_order(order)};
        new (self) ExactSchedule(std::move(problem), std::move(start), divisor_ns);
    };
    bind_search<ExactSchedule>(m, "ExactSchedule",
                               "The fastest schedule of few ops; see placewright.search.metaheuristics.exact_schedule.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("device_of"), arg("order"), arg("divisor_ns"))
        .def_prop_ro("is_exhausted", &ExactSchedule::is_exhausted)
        .def_prop_ro("is_proven", &ExactSchedule::is_proven);
    m.def("has_exact_schedule", &ExactSchedule::applies_to, arg("problem"),
          "True if ExactSchedule takes the problem: few ops on several devices, transfers that overlap, no launches.");
}

}  // namespace placewright
