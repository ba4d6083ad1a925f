// Lower bounds for Python.
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "bounds/memory.hpp"
#include "bounds/time.hpp"

namespace placewright {

namespace {

void require_budget(int64_t budget) {
    if (budget < 0 || budget >= Problem::kNoLimit) throw std::invalid_argument("budget must lie in [0, 2^62)");
}

}  // namespace

void bind_bounds(nb::module_& m) {
    m.def(
        "time_bounds",
        [](const Problem& problem, const ArrayIn<int64_t>& array, int64_t scale, int64_t budget) {
            const std::vector<int64_t> work = as_vector(array);
            if (work.size() != size_t(problem.num_ops)) throw std::invalid_argument("work needs one entry per op");
            int64_t left = Problem::kNoLimit - 1;
            for (int64_t own : work) {
                if (own < 0 || own > left) throw std::invalid_argument("work is negative, or adds up to 2^62 or more");
                left -= own;
            }
            if (scale < 1 || scale >= Problem::kNoLimit) throw std::invalid_argument("scale must lie in [1, 2^62)");
            require_budget(budget);
            nb::gil_scoped_release release;
            const TimeBounds bounds = time_bounds(problem, work, scale, budget);
            return std::tuple(bounds.path_ns, bounds.chain_ns, bounds.window_ns, bounds.launch_ns);
        },
        nb::arg("problem"), nb::arg("work"), nb::arg("scale"), nb::arg("budget"),
        "Bounds on the step time in ns: longest chain, the same with what must stand around each op, fullest window, "
        "launches.");
    m.def(
        "live_memory_bound",
        [](const Problem& problem, int64_t budget) {
            require_budget(budget);
            nb::gil_scoped_release release;
            const LiveMemoryBound bound = live_memory_bound(problem, budget);
            return std::tuple(bound.bytes, bound.op, bound.exact);
        },
        nb::arg("problem"), nb::arg("budget"),
        "Bytes in use over all devices at some moment, the op whose start alone proves most, and whether none proves "
        "more.");
}

}  // namespace placewright
