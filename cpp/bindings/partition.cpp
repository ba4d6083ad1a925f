// Placement by graph partitioning for Python.
#include "construct/partition.hpp"

#include "arrays.hpp"

namespace placewright {

void bind_partition(nb::module_& m) {
    m.def(
        "partition",
        [](const Problem& problem, double imbalance, int32_t passes) {
            std::vector<int32_t> device_of;
            {
                nb::gil_scoped_release release;
                device_of = partition(problem, {imbalance, passes});
            }
            return to_array(std::move(device_of));
        },
        nb::arg("problem"), nb::arg("imbalance"), nb::arg("passes"),
        "Device of each op: few bytes between devices, time balanced; see "
        "placewright.lab.peers.graph_partition.");
}

}  // namespace placewright
