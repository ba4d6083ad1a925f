// List methods for Python.
#include "list_schedule.hpp"

#include <nanobind/stl/pair.h>

#include "arrays.hpp"
#include "dispatch.hpp"
#include "orders.hpp"

namespace placewright {

namespace {

using Arrays = std::pair<ArrayOut<int32_t>, ArrayOut<int32_t>>;

template <class F>
Arrays placed_by(F&& method) {
    PlacedOrder placed;
    {
        nb::gil_scoped_release release;
        placed = method();
    }
    return {to_array(std::move(placed.device_of)), to_array(std::move(placed.ops))};
}

}  // namespace

void bind_list_schedule(nb::module_& m) {
    using nb::arg;
    nb::enum_<Outlook>(m, "Outlook", "What stands for a time while nothing is placed.")
        .value("mean", Outlook::mean, "The mean over all devices, or links.")
        .value("best", Outlook::best, "The least over all devices; no transfers.")
        .value("worst", Outlook::worst, "The largest over all devices, or links.");
    m.def(
        "bottom_levels",
        [](const Problem& problem, Outlook outlook) { return to_array(bottom_levels(problem, outlook)); },
        arg("problem"), arg("outlook") = Outlook::mean, "Per op the ns along its longest path to the end.");
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
        "Device and order of ops, the one that can start first next.");
    m.def(
        "dispatch_order",
        [](const Problem& problem, ArrayIn<int32_t> device_of) {
            const auto placement = as_placement(problem, device_of);
            return to_array(dispatch_order(problem, placement));
        },
        arg("problem"), arg("device_of").noconvert(),
        "Ops by start time where no device stands idle while one could start, the highest bottom level first.");
}

}  // namespace placewright
