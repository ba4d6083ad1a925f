// List methods for Python.
#include "construct/list_schedule.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "construct/dispatch.hpp"
#include "construct/insertion.hpp"
#include "construct/orders.hpp"

namespace placewright {

namespace {

using Arrays = std::pair<ArrayOut<int32_t>, ArrayOut<int32_t>>;

template <class F>
Arrays placed_by(F&& method) {
    PlacementAndOrder placed;
    {
        nb::gil_scoped_release release;
        placed = method();
    }
    return {to_array(std::move(placed.device_of)), to_array(std::move(placed.ops))};
}

std::vector<int32_t> as_fixed_devices(const Problem& problem, const ArrayIn<int32_t>& fixed) {
    std::vector<int32_t> devices = as_vector(fixed);
    if (devices.size() != size_t(problem.num_ops)) throw std::invalid_argument("fixed needs a device or -1 per op");
    for (int32_t op = 0; op < problem.num_ops; ++op)
        if (devices[op] >= problem.num_devices || (devices[op] >= 0 && !(problem.allowed[op] >> devices[op] & 1)))
            throw std::invalid_argument("fixed names a device that the op may not use");
    return devices;
}

std::vector<int64_t> as_outlook(const Problem& problem, const ArrayIn<int64_t, 2>& costs) {
    if (costs.shape(0) != size_t(problem.num_ops) || costs.shape(1) != size_t(problem.num_devices))
        throw std::invalid_argument("costs need a row per op and a column per device");
    std::vector<int64_t> values = as_vector(costs);
    if (!std::ranges::all_of(values, [](int64_t ns) { return ns >= 0 && ns < Problem::kNoLimit; }))
        throw std::invalid_argument("costs must lie between 0 and 2^62 ns");
    return values;
}

ArrayOut<int64_t, 2> to_table(std::vector<int64_t>&& values, size_t columns) {
    auto* owned = new std::vector<int64_t>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
    return ArrayOut<int64_t, 2>(owned->data(), {owned->size() / columns, columns}, owner);
}

}  // namespace

void bind_list_schedule(nb::module_& m) {
    using nb::arg;
    nb::enum_<Outlook>(m, "Outlook", "The estimate for the time of an op or transfer while nothing is placed.")
        .value("mean", Outlook::mean, "The mean over all devices, or links.")
        .value("best", Outlook::best, "The least over all devices; no transfers.")
        .value("worst", Outlook::worst, "The largest over all devices, or links.")
        .value("pairs", Outlook::pairs,
               "The mean over all devices, or over all pairs of devices, each with itself included.");
    m.def(
        "bottom_levels",
        [](const Problem& problem, Outlook outlook) { return to_array(bottom_levels(problem, outlook)); },
        arg("problem"), arg("outlook") = Outlook::mean, "The ns along the longest path from each op to the end.");
    m.def(
        "bottom_level_order",
        [](const Problem& problem, Outlook outlook) { return to_array(bottom_level_order(problem, outlook)); },
        arg("problem"), arg("outlook") = Outlook::mean, "Ops by bottom level, highest first.");
    m.def(
        "list_schedule",
        [](const Problem& problem, ArrayIn<int32_t> ops, bool least_peak) {
            const auto order = as_op_order(problem, ops);
            const auto choice = least_peak ? DeviceChoice::least_peak : DeviceChoice::earliest_finish;
            return placed_by([&] { return list_schedule(problem, order, choice); });
        },
        arg("problem"), arg("ops").noconvert(), arg("least_peak"),
        "Device and order of ops placed one by one, each where it finishes first, or where the peak is least.");
    m.def(
        "earliest_task_first",
        [](const Problem& problem) { return placed_by([&] { return earliest_task_first(problem); }); }, arg("problem"),
        "Device and order of ops; next is always the pair of op and device that can start first.");
    m.def(
        "insertion_schedule",
        [](const Problem& problem, ArrayIn<int32_t> ops, bool links_queue, std::optional<ArrayIn<int32_t>> fixed,
           std::optional<ArrayIn<int64_t, 2>> outlook) {
            const auto order = as_op_order(problem, ops);
            const auto devices = fixed ? as_fixed_devices(problem, *fixed) : std::vector<int32_t>();
            const auto costs = outlook ? as_outlook(problem, *outlook) : std::vector<int64_t>();
            const InsertionRule rule{links_queue ? PlannedLinks::queueing : PlannedLinks::free, devices, costs};
            InsertionSchedule found;
            {
                nb::gil_scoped_release release;
                found = insertion_schedule(problem, order, rule);
            }
            return std::tuple(to_array(std::move(found.placed.device_of)), to_array(std::move(found.placed.ops)),
                              found.step_time_ns);
        },
        arg("problem"), arg("ops").noconvert(), arg("links_queue"), arg("fixed").noconvert() = nb::none(),
        arg("outlook").noconvert() = nb::none(),
        "Device and order of ops, inserted one by one where they finish first, and when the last of them finishes if "
        "links are as planned. fixed: a device per op, or -1. outlook: ns per op and device, added when devices are "
        "compared.");
    m.def(
        "optimistic_costs",
        [](const Problem& problem) { return to_table(optimistic_costs(problem), size_t(problem.num_devices)); },
        arg("problem"), "The ns that the longest path takes at least after each op on each device.");
    m.def(
        "optimistic_order",
        [](const Problem& problem, ArrayIn<int64_t, 2> costs) {
            return to_array(optimistic_order(problem, as_outlook(problem, costs)));
        },
        arg("problem"), arg("costs").noconvert(), "Ops by mean optimistic cost, highest first, in a valid order.");
    m.def(
        "critical_path_first",
        [](const Problem& problem) {
            CriticalPathFirst first = critical_path_first(problem);
            return std::pair(to_array(std::move(first.sequence)), to_array(std::move(first.fixed)));
        },
        arg("problem"),
        "Ops by the longest path through them, in a valid order; and for each op on the critical path the device of "
        "that path, else -1.");
    m.def(
        "dispatch_order",
        [](const Problem& problem, ArrayIn<int32_t> device_of) {
            const auto placement = as_placement(problem, device_of);
            return to_array(dispatch_order(problem, placement));
        },
        arg("problem"), arg("device_of").noconvert(),
        "Ops by start time if no device is idle while an op could start there, the highest bottom level first.");
}

}  // namespace placewright
