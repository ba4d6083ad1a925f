// Coarse problems for Python.
#include "coarsen/coarsening.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <functional>

#include "arrays.hpp"
#include "coarsen/chain_clusters.hpp"

namespace placewright {

namespace {

using Placed = std::pair<ArrayOut<int32_t>, ArrayOut<int32_t>>;

Placed to_arrays(PlacementAndOrder&& placed) {
    return {to_array(std::move(placed.device_of)), to_array(std::move(placed.ops))};
}

// Returns the clusters of a coarse problem after checking that each of its ops has an op of the fine problem.
std::vector<int32_t> as_clusters(const Problem& fine, const Problem& coarse, const ArrayIn<int32_t>& cluster_of) {
    std::vector<int32_t> clusters = as_vector(cluster_of);
    if (clusters.size() != size_t(fine.num_ops)) throw std::invalid_argument("cluster_of needs one entry per op");
    std::vector<uint8_t> has_ops(size_t(coarse.num_ops));
    for (const int32_t cluster : clusters) {
        if (cluster < 0 || cluster >= coarse.num_ops)
            throw std::invalid_argument("cluster_of names ops that the coarse problem does not have");
        has_ops[size_t(cluster)] = 1;
    }
    if (!std::ranges::all_of(has_ops, std::identity{}))
        throw std::invalid_argument("cluster_of leaves an op of the coarse problem without ops");
    return clusters;
}

using Coarsened = std::pair<std::shared_ptr<Problem>, ArrayOut<int32_t>>;

template <class F>
Coarsened coarsened_by(int32_t max_clusters, F&& coarsening) {
    if (max_clusters < 1) throw std::invalid_argument("max_clusters must be at least 1");
    Coarsening result;
    {
        nb::gil_scoped_release release;
        result = coarsening();
    }
    return {std::move(result.coarse), to_array(std::move(result.cluster_of))};
}

}  // namespace

void bind_coarsening(nb::module_& m) {
    using nb::arg;
    m.def(
        "coarsen",
        [](const Problem& problem, int32_t max_clusters) {
            return coarsened_by(max_clusters, [&] { return coarsen(problem, max_clusters); });
        },
        arg("problem"), arg("max_clusters"),
        "A problem whose ops are clusters of this one's ops, at most about max_clusters, and the cluster of each op.");
    m.def(
        "chain_clusters",
        [](const Problem& problem, int64_t cap_ns) {
            std::vector<int32_t> cluster_of;
            {
                nb::gil_scoped_release release;
                cluster_of = chain_clusters(problem, cap_ns);
            }
            return to_array(std::move(cluster_of));
        },
        arg("problem"), arg("cap_ns"),
        "The cluster of each op, numbered as coarse_problem takes it. Clusters grow along chains and take at most "
        "cap_ns of mean time.");
    m.def(
        "coarse_problem",
        [](const Problem& problem, ArrayIn<int32_t> cluster_of) {
            return coarse_problem(problem, as_vector(cluster_of));
        },
        arg("problem"), arg("cluster_of").noconvert(),
        "The problem whose ops are the given clusters, numbered so that dependencies go from lower to higher.");
    m.def(
        "expand",
        [](const Problem& fine, const Problem& coarse, ArrayIn<int32_t> cluster_of, ArrayIn<int32_t> device_of,
           ArrayIn<int32_t> ops) {
            const auto clusters = as_clusters(fine, coarse, cluster_of);
            return to_arrays(expand(fine, clusters, as_placement(coarse, device_of), as_op_order(coarse, ops)));
        },
        arg("fine"), arg("coarse"), arg("cluster_of").noconvert(), arg("device_of").noconvert(), arg("ops").noconvert(),
        "A solution of the coarse problem as device and order of the fine problem's ops.");
    m.def(
        "project",
        [](const Problem& fine, const Problem& coarse, ArrayIn<int32_t> cluster_of, ArrayIn<int32_t> device_of,
           ArrayIn<int32_t> ops) {
            const auto clusters = as_clusters(fine, coarse, cluster_of);
            return to_arrays(project(coarse, clusters, as_placement(fine, device_of), as_op_order(fine, ops)));
        },
        arg("fine"), arg("coarse"), arg("cluster_of").noconvert(), arg("device_of").noconvert(), arg("ops").noconvert(),
        "A solution of the fine problem as device and order of the coarse problem's ops, as close as possible.");
}

}  // namespace placewright
