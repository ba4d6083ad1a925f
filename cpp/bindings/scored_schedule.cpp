// List scheduling by a learned score for Python.
#include "construct/scored_schedule.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"

namespace placewright {

namespace {

using Placed = std::pair<ArrayOut<int32_t>, ArrayOut<int32_t>>;

Placed to_arrays(PlacementAndOrder&& placed) {
    return {to_array(std::move(placed.device_of)), to_array(std::move(placed.ops))};
}

PairScore as_score(const ArrayIn<float>& linear, const ArrayIn<float, 2>& hidden_weight,
                   const ArrayIn<float>& hidden_bias, const ArrayIn<float>& output) {
    const size_t width = hidden_bias.size();
    if (linear.size() != kPairFeatures || hidden_weight.shape(0) != kPairFeatures || hidden_weight.shape(1) != width ||
        output.size() != width || width > PairScore::kWidest)
        throw std::invalid_argument("a score's weights do not have its shapes");
    PairScore score{{}, as_vector(hidden_weight), as_vector(hidden_bias), as_vector(output)};
    std::copy_n(linear.data(), kPairFeatures, score.linear.begin());
    return score;
}

ArrayOut<float, 2> to_table(const std::vector<PairFeatures>& rows) {
    auto* owned = new std::vector<PairFeatures>(rows);
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<PairFeatures>*>(p); });
    return ArrayOut<float, 2>(reinterpret_cast<float*>(owned->data()), {owned->size(), kPairFeatures}, owner);
}

}  // namespace

void bind_scored_schedule(nb::module_& m) {
    using nb::arg;
    m.attr("NUM_PAIR_FEATURES") = kPairFeatures;
    m.attr("WIDEST_PAIR_SCORE") = PairScore::kWidest;
    m.def(
        "scored_schedule",
        [](const Problem& problem, ArrayIn<float> linear, ArrayIn<float, 2> hidden_weight, ArrayIn<float> hidden_bias,
           ArrayIn<float> output, int32_t window, std::optional<uint64_t> seed) {
            const PairScore score = as_score(linear, hidden_weight, hidden_bias, output);
            if (window < 1) throw std::invalid_argument("window must be at least 1");
            PlacementAndOrder placed;
            {
                nb::gil_scoped_release release;
                placed = scored_schedule(problem, {.score = score, .window = window, .seed = seed});
            }
            return to_arrays(std::move(placed));
        },
        arg("problem"), arg("linear").noconvert(), arg("hidden_weight").noconvert(), arg("hidden_bias").noconvert(),
        arg("output").noconvert(), arg("window"), arg("seed") = nb::none(),
        "Device and order of ops, of the ready ones and their devices always the pair of highest score; with a seed "
        "drawn by the softmax of scores.");
    m.def(
        "scored_steps",
        [](const Problem& problem, ArrayIn<int32_t> device_of, ArrayIn<int32_t> ops, int32_t window) {
            const auto devices = as_placement(problem, device_of);
            const auto order = as_op_order(problem, ops);
            if (window < 1) throw std::invalid_argument("window must be at least 1");
            for (int32_t op = 0; op < problem.num_ops; ++op)
                if (!(problem.allowed[op] >> devices[op] & 1) || devices[op] != devices[problem.group[op]])
                    throw std::invalid_argument("device_of breaks a constraint of the problem");
            ScoredSteps steps;
            {
                nb::gil_scoped_release release;
                const PairScore none;
                scored_schedule(
                    problem,
                    {.score = none, .window = window, .given_ops = order, .given_devices = devices, .steps = &steps});
            }
            return std::tuple(to_table(steps.rows), to_array(std::move(steps.begin)),
                              to_array(std::move(steps.chosen)));
        },
        arg("problem"), arg("device_of").noconvert(), arg("ops").noconvert(), arg("window"),
        "What would be compared where ops are placed so: features of all pairs, the first pair of each step and the "
        "end, and the pair that each step places.");
    m.def(
        "within_limits",
        [](const Problem& problem, ArrayIn<int32_t> device_of, ArrayIn<int32_t> ops) {
            const auto devices = as_placement(problem, device_of);
            const auto order = as_op_order(problem, ops);
            PlacementAndOrder placed;
            {
                nb::gil_scoped_release release;
                placed = within_limits(problem, devices, order);
            }
            return to_arrays(std::move(placed));
        },
        arg("problem"), arg("device_of").noconvert(), arg("ops").noconvert(),
        "The placement with ops elsewhere that would exceed a memory limit in that order, and the order.");
}

}  // namespace placewright
