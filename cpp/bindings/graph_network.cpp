// Layers of graph networks for Python: attention and pooling of copies of one graph.
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "graph_network/attention.hpp"
#include "graph_network/neighbours.hpp"

namespace placewright {

namespace {

using graph_network::Attention;
using graph_network::Neighbours;

std::span<const float> as_span(const ArrayIn<float>& array) { return {array.data(), array.size()}; }

Neighbours make_neighbours(ArrayIn<int64_t, 2> edges, int32_t nodes, int32_t copies) {
    if (edges.shape(0) != 2) throw std::invalid_argument("edges need a row of sources and one of targets");
    if (nodes < 1 || copies < 1 || copies > INT32_MAX / nodes)
        throw std::invalid_argument("copies of a graph need nodes, together fewer than 2^31");
    const auto count = edges.shape(1);
    const std::span<const int64_t> source(edges.data(), count), target(edges.data() + count, count);
    const auto exists = [&](int64_t node) { return node >= 0 && node < nodes; };
    if (!std::ranges::all_of(source, exists) || !std::ranges::all_of(target, exists))
        throw std::invalid_argument("an edge names a node that does not exist");
    return graph_network::side_by_side(source, target, nodes, copies);
}

// Returns the attention of a layer after checking that its weights and states fit each other.
Attention as_attention(const Neighbours& neighbours, const ArrayIn<float>& states, const ArrayIn<float>& of_source,
                       const ArrayIn<float>& of_target, const ArrayIn<float>& bias, int32_t heads) {
    const size_t width = of_source.size();
    if (heads < 1 || width == 0 || width % size_t(heads) != 0 || of_target.size() != width || bias.size() != width)
        throw std::invalid_argument("attention needs as many weights in each row, a multiple of its heads");
    if (states.size() != size_t(neighbours.size()) * width)
        throw std::invalid_argument("attention needs a row of states per node");
    return {heads, int32_t(width) / heads, as_span(of_source), as_span(of_target), as_span(bias)};
}

auto attend(const Neighbours& neighbours, ArrayIn<float> states, ArrayIn<float> of_source, ArrayIn<float> of_target,
            ArrayIn<float> bias, int32_t heads) {
    const Attention attention = as_attention(neighbours, states, of_source, of_target, bias, heads);
    std::vector<float> result(states.size()), shares(neighbours.source.size() * size_t(heads));
    {
        nb::gil_scoped_release release;
        graph_network::attend(neighbours, attention, as_span(states), result, shares);
    }
    return std::tuple(to_array(std::move(result)), to_array(std::move(shares)));
}

auto attend_back(const Neighbours& neighbours, ArrayIn<float> states, ArrayIn<float> of_source,
                 ArrayIn<float> of_target, ArrayIn<float> bias, int32_t heads, ArrayIn<float> result,
                 ArrayIn<float> shares, ArrayIn<float> by_result) {
    const Attention attention = as_attention(neighbours, states, of_source, of_target, bias, heads);
    if (result.size() != states.size() || by_result.size() != states.size() ||
        shares.size() != neighbours.source.size() * size_t(heads))
        throw std::invalid_argument("results and shares are not those of these states");
    graph_network::AttentionGradient by;
    {
        nb::gil_scoped_release release;
        by = graph_network::attend_back(neighbours, attention, as_span(states), as_span(result), as_span(shares),
                                        as_span(by_result));
    }
    return std::tuple(to_array(std::move(by.states)), to_array(std::move(by.of_source)),
                      to_array(std::move(by.of_target)), to_array(std::move(by.bias)));
}

auto pooled(const Neighbours& neighbours, ArrayIn<float> scores) {
    if (scores.size() != size_t(neighbours.size())) throw std::invalid_argument("pooling needs a score per node");
    auto found = graph_network::pooled(neighbours, as_span(scores));
    return std::tuple(to_array(std::move(found.kept)), std::move(found.neighbours));
}

}  // namespace

void bind_graph_network(nb::module_& m) {
    using nb::arg;
    nb::class_<Neighbours>(m, "Neighbours",
                           "Copies of a graph side by side, with the neighbours whose states each node reads.")
        .def(nb::new_(&make_neighbours), arg("edges").noconvert(), arg("nodes"), arg("copies") = 1)
        .def_ro("nodes", &Neighbours::nodes, "The nodes of one copy.")
        .def_ro("copies", &Neighbours::copies)
        .def(
            "lists",
            [](const Neighbours& of) {
                return std::tuple(to_array(std::vector(of.begin)), to_array(std::vector(of.source)));
            },
            "The begin of each node's list, and the nodes in the lists: each node comes first in its own.")
        .def("attend", &attend, arg("states").noconvert(), arg("of_source").noconvert(), arg("of_target").noconvert(),
             arg("bias").noconvert(), arg("heads"),
             "States after attention, with negative values set to 0, flat, and the weight of each neighbour by head, "
             "flat.")
        .def("attend_back", &attend_back, arg("states").noconvert(), arg("of_source").noconvert(),
             arg("of_target").noconvert(), arg("bias").noconvert(), arg("heads"), arg("result").noconvert(),
             arg("shares").noconvert(), arg("by_result").noconvert(),
             "The gradients by states, of_source, of_target and bias, flat.")
        .def("pooled", &pooled, arg("scores").noconvert(),
             "The half of each copy's nodes that has the highest scores, and their neighbours within two edges.");
}

}  // namespace placewright
