// Annealing over supersteps for Python: a search that is advanced some evaluations at a time.
#include "improve/superstep_annealing.hpp"

#include <nanobind/stl/shared_ptr.h>

#include "arrays.hpp"
#include "search.hpp"

namespace placewright {

void bind_superstep(nb::module_& m) {
    using nb::arg;
    const auto init = [](SuperstepAnnealing* self, std::shared_ptr<Problem> problem, uint64_t seed,
                         int64_t evaluations) { new (self) SuperstepAnnealing(std::move(problem), evaluations, seed); };
    m.def("has_free_barriers", &has_free_barriers, arg("problem"),
          "True if there are several devices, transfers block and cost nothing, the step time is the objective and no "
          "host launches.");
    bind_search<SuperstepAnnealing>(
        m, "SuperstepAnnealing",
        "Annealing over supersteps; see placewright.search.metaheuristics.superstep_annealing.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("seed"), arg("evaluations"));
}

}  // namespace placewright
