// Problems without the inputs that share a device with other ops, for Python.
#include "construct/inputs_aside.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include "arrays.hpp"
#include "simulate/simulate.hpp"

namespace placewright {

namespace {

// Keeps alive the problem to which the inputs refer.
struct HeldInputsAside {
    std::shared_ptr<const Problem> whole;
    InputsAside inputs;
};

std::shared_ptr<HeldInputsAside> set_aside(std::shared_ptr<const Problem> problem, bool with_first_reader) {
    nb::gil_scoped_release release;
    InputsAside inputs(*problem, with_first_reader ? InputsFollow::first_reader : InputsFollow::group);
    if (!inputs.any()) return nullptr;
    return std::make_shared<HeldInputsAside>(HeldInputsAside{std::move(problem), std::move(inputs)});
}

}  // namespace

void bind_inputs_aside(nb::module_& m) {
    using nb::arg;
    nb::class_<HeldInputsAside>(m, "InputsAside", "Inputs that share their device with other ops, set aside.")
        .def_prop_ro(
            "rest", [](const HeldInputsAside& held) { return held.inputs.rest(); }, "The problem without them.")
        .def(
            "whole_ops",
            [](const HeldInputsAside& held, ArrayIn<int32_t> device_of, ArrayIn<int32_t> ops) {
                const Problem& rest = *held.inputs.rest();
                const auto devices = as_placement(rest, device_of), order = as_op_order(rest, ops);
                PlacementAndOrder placed{{devices.begin(), devices.end()}, {order.begin(), order.end()}};
                placed = held.inputs.whole(placed);
                return std::pair(to_array(std::move(placed.device_of)), to_array(std::move(placed.ops)));
            },
            arg("device_of").noconvert(), arg("ops").noconvert(),
            "Device and order of all ops, given those of the rest.")
        .def(
            "whole_order",
            [](const HeldInputsAside& held, ArrayIn<int32_t> device_of, OrderIn order) {
                const Problem& rest = *held.inputs.rest();
                const auto devices = as_placement(rest, device_of);
                const auto steps = as_order(order);
                check_order(rest, devices, steps);
                Solution placed{{devices.begin(), devices.end()}, {steps.begin(), steps.end()}};
                placed = held.inputs.whole(placed);
                return std::pair(to_array(std::move(placed.device_of)), to_order(std::move(placed.order)));
            },
            arg("device_of").noconvert(), arg("order").noconvert(),
            "Device of all ops and a whole order, given those of the rest.");
    m.def(
        "with_remote_inputs_first",
        [](const Problem& problem, ArrayIn<int32_t> device_of, OrderIn order) {
            const auto devices = as_placement(problem, device_of);
            const auto steps = as_order(order);
            check_order(problem, devices, steps);
            return to_order(with_remote_inputs_first(problem, devices, steps));
        },
        arg("problem"), arg("device_of").noconvert(), arg("order").noconvert(),
        "The order with the inputs that another device waits for at the beginning.");
    m.def("set_inputs_aside", &set_aside, arg("problem"), arg("with_first_reader"),
          "The inputs that share their device with other ops, set aside; None if there are none. with_first_reader: "
          "their first reader shares the device too.");
}

}  // namespace placewright
