// One-device orders for Python.
#include "construct/orders.hpp"

#include "arrays.hpp"

namespace placewright {

namespace {

template <std::vector<int32_t> (*kOrder)(const Problem&)>
ArrayOut<int32_t> order_of(const Problem& problem) {
    std::vector<int32_t> order;
    {
        nb::gil_scoped_release release;
        order = kOrder(problem);
    }
    return to_array(std::move(order));
}

}  // namespace

void bind_orders(nb::module_& m) {
    using nb::arg;
    m.def("bfs_order", &order_of<bfs_order>, arg("problem"), "Ops in the sequence in which they become ready.");
    m.def("dfs_order", &order_of<dfs_order>, arg("problem"), "XLA's depth-first post-order.");
    m.def("lpmf_order", &order_of<lpmf_order>, arg("problem"), "Inductor's least-peak-memory-first order.");
    m.def("xla_list_order", &order_of<xla_list_order>, arg("problem"), "XLA's list order: most bytes freed first.");
    m.def("reverse_greedy_order", &order_of<reverse_greedy_order>, arg("problem"),
          "Greedy least memory, from the outputs backwards.");
}

}  // namespace placewright
