// Annealing of schedules for Python: a search that is advanced some evaluations at a time.
#include "improve/schedule_annealing.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "search.hpp"

namespace placewright {

void bind_schedule_annealing(nb::module_& m) {
    using nb::arg;
    using Start = std::pair<ArrayIn<int32_t>, ArrayIn<int32_t>>;
    const auto init = [](ScheduleAnnealing* self, std::shared_ptr<Problem> problem, uint64_t seed,
                         const std::vector<Start>& starts, double first_temperature, double last_temperature,
                         bool ignores_limits, const std::array<uint32_t, 4>& move_weights) {
        uint64_t weight = 0;
        for (uint32_t each : move_weights) weight += each;
        if (weight == 0 || weight > UINT32_MAX)
            throw std::invalid_argument("the weights of moves add up to none or too many");
        std::vector<PlacementAndOrder> placed;
        for (const auto& start : starts) {
            const auto device_of = as_placement(*problem, start.first);
            for (size_t op = 0; op < device_of.size(); ++op)
                if (device_of[op] != device_of[size_t(problem->group[op])])
                    throw std::invalid_argument("ops of one group need one device");
            placed.push_back({device_of, as_op_order(*problem, start.second)});
        }
        const ScheduleAnnealingConfig config{first_temperature, last_temperature, ignores_limits, move_weights};
        new (self) ScheduleAnnealing(std::move(problem), config, placed, seed);
    };
    bind_search<ScheduleAnnealing>(
        m, "ScheduleAnnealing",
        "Simulated annealing over schedules; see placewright.search.metaheuristics.schedule_annealing.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("seed"), arg("starts"), arg("first_temperature"),
             arg("last_temperature"), arg("ignores_limits") = false,
             arg("move_weights") = ScheduleAnnealingConfig{}.move_weights)
        .def_prop_ro("work", &ScheduleAnnealing::work, "The units of work done so far, the same on every machine.");
}

}  // namespace placewright
