// The search for ops that run again under a memory limit, for Python.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "rematerialize/search.hpp"

namespace placewright {

void bind_rematerialize(nb::module_& m) {
    using nb::arg;
    const auto init = [](RematerializationSearch* self, std::shared_ptr<Problem> problem, ArrayIn<int32_t> order,
                         ArrayIn<int32_t> again_before, uint64_t seed) {
        if (problem->num_devices != 1) throw std::invalid_argument("there must be one device");
        if (again_before.size() != size_t(problem->num_ops))
            throw std::invalid_argument("again_before needs one entry per op");
        const auto ops = as_op_order(*problem, order);
        new (self) RematerializationSearch(std::move(problem), ops, as_vector(again_before), seed);
    };
    nb::class_<RematerializationSearch>(m, "RematerializationSearch",
                                        "Runs of ops that keep a memory limit; see placewright.rematerialization.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("order"), arg("again_before"), arg("seed"))
        .def(
            "advance",
            [](RematerializationSearch& search, int64_t evaluations, int64_t at_most) {
                search.advance(evaluations, at_most);
            },
            arg("evaluations"), arg("at_most") = INT64_MAX, nb::call_guard<nb::gil_scoped_release>(),
            "Searches until `evaluations` in all are spent, at most `at_most` of them in this call.")
        .def_prop_ro("evaluations", &RematerializationSearch::evaluations)
        .def_prop_ro("best_objective", [](const RematerializationSearch& s) { return s.best_fitness().objective; })
        .def_prop_ro("best_bytes_over_limit",
                     [](const RematerializationSearch& s) { return s.best_fitness().bytes_over_limit; })
        .def_prop_ro("best_peak_bytes", [](const RematerializationSearch& s) { return s.best_fitness().other; })
        .def(
            "best",
            [](const RematerializationSearch& search) {
                std::vector<int32_t> ops;
                std::vector<uint64_t> kept;
                for (const OpRun& run : search.best()) {
                    ops.push_back(search.ops().op[run.place]);
                    kept.push_back(run.is_first ? OpRun::kAll : run.kept);
                }
                return std::tuple(to_array(std::move(ops)), to_array(std::move(kept)));
            },
            "The best so far: the op of each run, and which of the pieces of memory that it makes are kept, as bits; "
            "all of a first run.");
}

}  // namespace placewright
