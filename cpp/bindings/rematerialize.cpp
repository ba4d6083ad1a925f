// The search for ops that run again, and memory that is moved to the host, under a memory limit, for Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "rematerialize/search.hpp"

namespace placewright {

void bind_rematerialize(nb::module_& m) {
    using nb::arg;
    const auto init = [](RematerializationSearch* self, std::shared_ptr<Problem> problem, ArrayIn<int32_t> order,
                         ArrayIn<int32_t> again_before, uint64_t seed, std::optional<ArrayIn<uint8_t>> may_move,
                         std::pair<int64_t, int64_t> link_there, std::pair<int64_t, int64_t> link_back,
                         int64_t host_limit, int32_t num_weights) {
        if (problem->num_devices != 1) throw std::invalid_argument("there must be one device");
        if (again_before.size() != size_t(problem->num_ops))
            throw std::invalid_argument("again_before needs one entry per op");
        if (may_move && may_move->size() != size_t(problem->num_tensors))
            throw std::invalid_argument("may_move needs one entry per tensor");
        if (num_weights < 0 || num_weights > problem->num_ops)
            throw std::invalid_argument("there are no more weights than ops");
        for (const auto& link : {link_there, link_back})
            if (link.first < 0 || link.second < 0) throw std::invalid_argument("a link takes a negative time");
        const HostMemory host{link_there.first, link_back.first, link_there.second,
                              link_back.second, host_limit,      num_weights};
        const auto ops = as_op_order(*problem, order);
        new (self) RematerializationSearch(std::move(problem), ops, as_vector(again_before), seed,
                                           may_move ? as_vector(*may_move) : std::vector<uint8_t>{}, host);
    };
    nb::class_<RematerializationSearch>(m, "RematerializationSearch",
                                        "Runs of ops that keep a memory limit; see placewright.rematerialization.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("order"), arg("again_before"), arg("seed"),
             arg("may_move") = nb::none(), arg("link_there") = std::pair(0, 0), arg("link_back") = std::pair(0, 0),
             arg("host_limit") = Problem::kNoLimit, arg("num_weights") = 0)
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
                std::vector<int32_t> ops, moved;
                std::vector<uint64_t> kept;
                const OrderedOps& in_order = search.ops();
                for (const OpRun& run : search.best()) {
                    const bool is_op = in_order.is_op(run.place);
                    ops.push_back(is_op ? in_order.op[run.place] : -1);
                    moved.push_back(is_op ? -1 : in_order.tensor[in_order.moved_storage(run.place)]);
                    kept.push_back(run.is_first ? OpRun::kAll : run.kept);
                }
                return std::tuple(to_array(std::move(ops)), to_array(std::move(kept)), to_array(std::move(moved)));
            },
            "The best so far, run by run: the op; the pieces of memory it makes that are kept, as bits, all for a "
            "first run; and the tensor that is moved, or -1. If the op is -1, the tensor has left the device (bits 0) "
            "or begins to come back (bits 1).");
}

}  // namespace placewright
