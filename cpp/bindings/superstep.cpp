// Annealing over supersteps for Python: a search that is advanced some evaluations at a time.
#include "superstep.hpp"

#include <nanobind/stl/shared_ptr.h>

#include "arrays.hpp"

namespace placewright {

void bind_superstep(nb::module_& m) {
    using nb::arg;
    const auto init = [](SuperstepAnnealing* self, std::shared_ptr<Problem> problem, uint64_t seed,
                         int64_t evaluations) { new (self) SuperstepAnnealing(std::move(problem), evaluations, seed); };
    m.def("has_free_barriers", &has_free_barriers, arg("problem"),
          "Whether transfers block and cost nothing and the step time is the objective.");
    nb::class_<SuperstepAnnealing>(m, "SuperstepAnnealing",
                                   "Annealing over supersteps; see placewright.search.metaheuristics.superstep_annealing.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("seed"), arg("evaluations"))
        .def("advance", &SuperstepAnnealing::advance, arg("evaluations"), arg("at_most") = INT64_MAX,
             nb::call_guard<nb::gil_scoped_release>(), "Searches until `evaluations` in all are spent.")
        .def_prop_ro("evaluations", &SuperstepAnnealing::evaluations)
        .def_prop_ro("best_objective", [](const SuperstepAnnealing& s) { return s.best_fitness().objective; })
        .def_prop_ro("best_bytes_over_limit",
                     [](const SuperstepAnnealing& s) { return s.best_fitness().bytes_over_limit; })
        .def("best_device_of",
             [](const SuperstepAnnealing& s) { return to_array(std::vector<int32_t>(s.best().device_of)); })
        .def("best_order", [](const SuperstepAnnealing& s) { return to_order(std::vector<Step>(s.best().order)); });
}

}  // namespace placewright
