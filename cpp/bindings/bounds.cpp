// Lower bounds for Python.
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"
#include "bounds/memory.hpp"
#include "bounds/remaking.hpp"
#include "bounds/time.hpp"

namespace placewright {

namespace {

void require_budget(int64_t budget) {
    if (budget < 0 || budget >= Problem::kNoLimit) throw std::invalid_argument("budget must lie in [0, 2^62)");
}

void require_index(const std::vector<int32_t>& values, size_t size) {
    if (std::ranges::any_of(values, [&](int32_t value) { return value < 0 || size_t(value) >= size; }))
        throw std::invalid_argument("an index is out of range");
}

void require_same_size(bool same) {
    if (!same) throw std::invalid_argument("arrays differ in length");
}

}  // namespace

void bind_bounds(nb::module_& m) {
    m.def(
        "time_bounds",
        [](const Problem& problem, const ArrayIn<int64_t>& array, int64_t scale, int64_t heaviest, int64_t budget) {
            const std::vector<int64_t> work = as_vector(array);
            if (work.size() != size_t(problem.num_ops)) throw std::invalid_argument("work needs one entry per op");
            int64_t left = Problem::kNoLimit - 1;
            for (int64_t own : work) {
                if (own < 0 || own > left) throw std::invalid_argument("work is negative, or adds up to 2^62 or more");
                left -= own;
            }
            if (scale < 1 || scale >= Problem::kNoLimit) throw std::invalid_argument("scale must lie in [1, 2^62)");
            if (heaviest < 1 || heaviest > scale) throw std::invalid_argument("heaviest must lie in [1, scale]");
            require_budget(budget);
            nb::gil_scoped_release release;
            const TimeBounds bounds = time_bounds(problem, work, scale, heaviest, budget);
            return std::tuple(bounds.path_ns, bounds.chain_ns, bounds.window_ns, bounds.launch_ns);
        },
        nb::arg("problem"), nb::arg("work"), nb::arg("scale"), nb::arg("heaviest"), nb::arg("budget"),
        "Lower bounds on the step time in ns: the longest chain of op times, the longest chain with what must precede "
        "and follow each op, the fullest window, and launches.");
    m.def(
        "live_memory_bound",
        [](const Problem& problem, int64_t budget) {
            require_budget(budget);
            nb::gil_scoped_release release;
            const LiveMemoryBound bound = live_memory_bound(problem, budget);
            return std::tuple(bound.bytes, bound.op, bound.exact);
        },
        nb::arg("problem"), nb::arg("budget"),
        "A lower bound on the bytes in use over all devices at some moment, the op whose start alone proves most, and "
        "whether no other op alone proves more.");
    m.def(
        "remaking_bound",
        [](const ArrayIn<int64_t>& room, const ArrayIn<int32_t>& moment, const ArrayIn<int64_t>& bytes,
           const ArrayIn<uint8_t>& is_way, const ArrayIn<uint8_t>& may_go, const ArrayIn<int32_t>& way_from,
           const ArrayIn<int32_t>& way_to, const ArrayIn<int32_t>& made, const ArrayIn<int32_t>& run,
           const ArrayIn<int64_t>& time_ns, const ArrayIn<double>& prices, int32_t steps, int64_t budget) {
            const Remaking remaking{as_vector(room),   as_vector(moment),   as_vector(bytes),  as_vector(is_way),
                                    as_vector(may_go), as_vector(way_from), as_vector(way_to), as_vector(made),
                                    as_vector(run),    as_vector(time_ns)};
            const size_t nodes = remaking.moment.size();
            require_same_size(remaking.bytes.size() == nodes && remaking.is_way.size() == nodes &&
                              remaking.may_go.size() == nodes && remaking.way_from.size() == remaking.way_to.size() &&
                              remaking.made.size() == remaking.run.size() && prices.size() == remaking.room.size());
            require_index(remaking.moment, remaking.room.size());
            require_index(remaking.way_from, nodes);
            require_index(remaking.way_to, nodes);
            require_index(remaking.made, nodes);
            require_index(remaking.run, remaking.time_ns.size());
            require_budget(budget);
            nb::gil_scoped_release release;
            return remaking_bound(remaking, as_vector(prices), steps, budget);
        },
        nb::kw_only(), nb::arg("room"), nb::arg("moment"), nb::arg("bytes"), nb::arg("is_way"), nb::arg("may_go"),
        nb::arg("way_from"), nb::arg("way_to"), nb::arg("made"), nb::arg("run"), nb::arg("time_ns"), nb::arg("prices"),
        nb::arg("steps"), nb::arg("budget"),
        "A lower bound on the time to make memory again, in ns; see cpp/core/bounds/remaking.hpp.");
}

}  // namespace placewright
