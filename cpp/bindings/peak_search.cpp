// Peak search for Python: a search that is advanced some evaluations at a time.
#include "improve/peak_search.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "search.hpp"

namespace placewright {

void bind_peak_search(nb::module_& m) {
    using nb::arg;
    using Start = std::pair<ArrayIn<int32_t>, ArrayIn<int32_t>>;
    const auto init = [](PeakSearch* self, std::shared_ptr<Problem> problem, uint64_t seed, int64_t evaluations,
                         double first_temperature, double last_temperature, const std::vector<Start>& starts) {
        std::vector<PlacementAndOrder> placed;
        for (const auto& [device_of, ops] : starts)
            placed.push_back({as_placement(*problem, device_of), as_op_order(*problem, ops)});
        const PeakSearchConfig config{evaluations, first_temperature, last_temperature};
        new (self) PeakSearch(std::move(problem), config, std::move(placed), seed);
    };
    bind_search<PeakSearch>(m, "PeakSearch",
                            "Annealing for the least peak; see placewright.search.metaheuristics.peak_search.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("seed"), arg("evaluations"), arg("first_temperature"),
             arg("last_temperature"), arg("starts"));
}

}  // namespace placewright
