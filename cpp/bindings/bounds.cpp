// Lower bounds for Python.
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "bounds_memory.hpp"
#include "bounds_time.hpp"

namespace placewright {

void bind_bounds(nb::module_& m) {
    m.def(
        "time_bounds",
        [](const Problem& problem, const ArrayIn<int64_t>& work, int64_t scale, int64_t budget) {
            if (work.size() != size_t(problem.num_ops)) throw std::invalid_argument("work needs one entry per op");
            if (scale < 1) throw std::invalid_argument("scale must be positive");
            nb::gil_scoped_release release;
            const TimeBounds bounds = time_bounds(problem, as_span(work), scale, budget);
            return std::tuple(bounds.path_ns, bounds.chain_ns, bounds.window_ns);
        },
        nb::arg("problem"), nb::arg("work"), nb::arg("scale"), nb::arg("budget"),
        "Bounds on the step time in ns: longest chain, the same with what must stand around each op, fullest window.");
    m.def(
        "live_memory_bound",
        [](const Problem& problem, int64_t budget) {
            nb::gil_scoped_release release;
            const LiveMemoryBound bound = live_memory_bound(problem, budget);
            return std::tuple(bound.bytes, bound.op, bound.exact);
        },
        nb::arg("problem"), nb::arg("budget"),
        "Bytes in use over all devices at some moment, the op whose start alone proves most, and whether none proves "
        "more.");
}

}  // namespace placewright
