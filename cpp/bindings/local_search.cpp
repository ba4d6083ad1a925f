// Local search for Python: a search that is advanced some evaluations at a time.
#include "local_search.hpp"

#include <nanobind/stl/shared_ptr.h>

#include "arrays.hpp"

namespace placewright {

void bind_local_search(nb::module_& m) {
    using nb::arg;
    const auto init = [](LocalSearch* self, std::shared_ptr<Problem> problem, uint64_t seed,
                         int64_t evaluations_per_start, double device_share, int32_t reach, bool accept_equal) {
        const LocalSearchConfig config{evaluations_per_start, device_share, reach, accept_equal};
        new (self) LocalSearch(std::move(problem), config, seed);
    };
    nb::class_<LocalSearch>(m, "LocalSearch", "Greedy local search; see placewright.search.metaheuristics.local_search.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("seed"), arg("evaluations_per_start"),
             arg("device_share"), arg("reach"), arg("accept_equal"))
        .def("advance", &LocalSearch::advance, arg("evaluations"), arg("at_most") = INT64_MAX,
             nb::call_guard<nb::gil_scoped_release>(), "Searches until `evaluations` in all are spent.")
        .def_prop_ro("evaluations", &LocalSearch::evaluations)
        .def_prop_ro("best_objective", [](const LocalSearch& s) { return s.best_fitness().objective; })
        .def_prop_ro("best_bytes_over_limit", [](const LocalSearch& s) { return s.best_fitness().bytes_over_limit; })
        .def("best_device_of",
             [](const LocalSearch& s) {
                 return to_array(std::vector<int32_t>(s.best_device_of().begin(), s.best_device_of().end()));
             })
        .def(
            "best_ops",
            [](const LocalSearch& s) {
                return to_array(std::vector<int32_t>(s.best_ops().begin(), s.best_ops().end()));
            },
            "An order of all ops; each tensor leaves right after its producer.");
}

}  // namespace placewright
