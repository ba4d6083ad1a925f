// Annealing of placements for Python: a search that is advanced some evaluations at a time.
#include "placement_annealing.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"

namespace placewright {

void bind_placement_annealing(nb::module_& m) {
    using nb::arg;
    const auto init = [](PlacementAnnealing* self, std::shared_ptr<Problem> problem, uint64_t seed,
                         const std::vector<ArrayIn<int32_t>>& starts, double first_temperature,
                         double last_temperature) {
        std::vector<std::vector<int32_t>> placements;
        for (const auto& start : starts) {
            const auto placement = as_placement(*problem, start);
            placements.emplace_back(placement.begin(), placement.end());
        }
        const PlacementAnnealingConfig config{first_temperature, last_temperature};
        new (self) PlacementAnnealing(std::move(problem), config, std::move(placements), seed);
    };
    nb::class_<PlacementAnnealing>(m, "PlacementAnnealing",
                                   "Simulated annealing over placements; see placewright.search.schedule_annealing.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("seed"), arg("starts"), arg("first_temperature"),
             arg("last_temperature"))
        .def("advance", &PlacementAnnealing::advance, arg("evaluations"), arg("at_most") = INT64_MAX,
             nb::call_guard<nb::gil_scoped_release>(), "Searches until `evaluations` in all are spent.")
        .def_prop_ro("evaluations", &PlacementAnnealing::evaluations)
        .def_prop_ro("best_objective", [](const PlacementAnnealing& a) { return a.best_fitness().objective; })
        .def_prop_ro("best_bytes_over_limit",
                     [](const PlacementAnnealing& a) { return a.best_fitness().bytes_over_limit; })
        .def("best_device_of", [](const PlacementAnnealing& a) {
            return to_array(std::vector<int32_t>(a.best_device_of().begin(), a.best_device_of().end()));
        });
}

}  // namespace placewright
