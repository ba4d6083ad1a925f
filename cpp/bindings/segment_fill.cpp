// Segment-fill list scheduling for Python.
#include "construct/segment_fill.hpp"

#include <nanobind/stl/pair.h>

#include "arrays.hpp"

namespace placewright {

void bind_segment_fill(nb::module_& m) {
    m.def(
        "segment_fill",
        [](const Problem& problem, bool when_one_starves) {
            Solution result;
            {
                nb::gil_scoped_release release;
                result = segment_fill(
                    problem, when_one_starves ? BarrierTiming::when_one_starves : BarrierTiming::when_all_starve);
            }
            return std::pair(to_array(std::move(result.device_of)), to_order(std::move(result.order)));
        },
        nb::arg("problem"), nb::arg("when_one_starves"), "Device of each op and a whole order, transfers at barriers.");
}

}  // namespace placewright
