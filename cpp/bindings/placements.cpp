// Placements of a given order, and the transfer rule, for Python.
#include "construct/placements.hpp"

#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "arrays.hpp"
#include "construct/first_come.hpp"
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

OrderOut first_come_of(const Problem& problem, ArrayIn<int32_t> device_of) {
    const auto placement = as_placement(problem, device_of);
    std::vector<Step> order;
    {
        nb::gil_scoped_release release;
        order = first_come_schedule(problem, placement);
    }
    return to_order(std::move(order));
}

using Measured = std::tuple<ArrayOut<int64_t>, ArrayOut<int64_t>, ArrayOut<int64_t>>;

Measured measure_of(const Problem& problem, ArrayIn<int32_t, 2> placements, int32_t threads) {
    if (placements.shape(1) != size_t(problem.num_ops))
        throw std::invalid_argument("a placement has not one device per op");
    if (threads < 1) throw std::invalid_argument("threads must be at least 1");
    const std::vector<int32_t> devices = as_vector(placements);
    if (!std::ranges::all_of(devices, [&](int32_t d) { return d >= 0 && d < problem.num_devices; }))
        throw std::invalid_argument("a placement names a device that does not exist");
    std::vector<Outcome> outcomes;
    {
        nb::gil_scoped_release release;
        outcomes = measure_placements(problem, devices, threads);
    }
    std::vector<int64_t> time, peak, over;
    for (const Outcome& outcome : outcomes) {
        time.push_back(outcome.step_time_ns);
        peak.push_back(outcome.peak_memory_bytes);
        over.push_back(outcome.bytes_over_limit);
    }
    return {to_array(std::move(time)), to_array(std::move(peak)), to_array(std::move(over))};
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
    m.def("first_come_schedule", &first_come_of, arg("problem"), arg("device_of").noconvert(),
          "The whole order with ops dispatched first come, first served: transfers early, or batched if they block.");
    m.def("measure_placements", &measure_of, arg("problem"), arg("placements").noconvert(), arg("threads"),
          "Step time, peak memory and bytes over the limits of each placement, scheduled first come, first served.");
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
