// Placements of a given order, and the transfer rule, for Python.
#include "construct/placements.hpp"

#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "arrays.hpp"
#include "construct/orders.hpp"

namespace placewright {

namespace {

using Evaluated = std::tuple<OrderOut, std::tuple<int64_t, int64_t, int64_t>, int64_t>;

Evaluated best_transfers_of(const Problem& problem, ArrayIn<int32_t> device_of, ArrayIn<int32_t> ops,
                            int64_t evaluations_left) {
    const auto placement = as_placement(problem, device_of);
    const auto sequence = as_op_order(problem, ops);
    WholeOrder whole;
    {
        nb::gil_scoped_release release;
        whole = best_transfers(problem, placement, sequence, evaluations_left);
    }
    const auto [over, objective, other] = whole.fitness;
    return {to_order(std::move(whole.order)), {over, objective, other}, whole.evaluations};
}

void require_device(const Problem& problem, int32_t device) {
    if (device < 0 || device >= problem.num_devices) throw std::invalid_argument("the device does not exist");
}

}  // namespace

void bind_placements(nb::module_& m) {
    using nb::arg;
    m.def("best_transfers", &best_transfers_of, arg("problem"), arg("device_of").noconvert(), arg("ops").noconvert(),
          arg("evaluations_left"),
          "The best of early, late and batched transfers for a valid order of ops, each one evaluation: the order, its "
          "fitness (bytes over the limit, objective, other objective) and the evaluations spent.");
    m.def(
        "all_on",
        [](const Problem& problem, int32_t device) {
            require_device(problem, device);
            return to_array(all_on(problem, device));
        },
        arg("problem"), arg("device"), "Everything on one device, except what may not go there.");
    m.def(
        "runs_filling_memory",
        [](const Problem& problem) { return to_array(contiguous_runs(problem, problem.memory_limit)); }, arg("problem"),
        "The captured order cut into runs that fill one device after another up to its limit.");
    m.def(
        "runs_balancing_memory",
        [](const Problem& problem) { return to_array(contiguous_runs(problem, balanced_shares(problem))); },
        arg("problem"), "The captured order cut into runs that divide the memory in proportion to the limits.");
}

}  // namespace placewright
