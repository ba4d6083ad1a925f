// Local search for Python: a search that is advanced some evaluations at a time.
#include "improve/local_search.hpp"

#include <nanobind/stl/shared_ptr.h>

#include "arrays.hpp"
#include "search.hpp"

namespace placewright {

void bind_local_search(nb::module_& m) {
    using nb::arg;
    const auto init = [](LocalSearch* self, std::shared_ptr<Problem> problem, uint64_t seed,
                         int64_t evaluations_per_start, double device_share, int32_t reach, bool accept_equal) {
        const LocalSearchConfig config{evaluations_per_start, device_share, reach, accept_equal};
        new (self) LocalSearch(std::move(problem), config, seed);
    };
    bind_search<LocalSearch>(m, "LocalSearch", "Greedy local search; see placewright.lab.peers.local_search.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("seed"), arg("evaluations_per_start"),
             arg("device_share"), arg("reach"), arg("accept_equal"));
}

}  // namespace placewright
