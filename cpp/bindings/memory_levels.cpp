// Memory levels for Python: the problem, and maps evaluated in batches.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <tuple>

#include "arrays.hpp"
#include "memory_levels/problem.hpp"
#include "memory_levels/search.hpp"
#include "memory_levels/simulate.hpp"
#include "support/worker_pool.hpp"

namespace placewright {

namespace {

using memory_levels::Level;
using memory_levels::LevelProblem;
using memory_levels::LevelScratch;

std::shared_ptr<LevelProblem> make_level_problem(ArrayIn<int64_t> size, ArrayIn<int32_t> first, ArrayIn<int32_t> last,
                                                 ArrayIn<uint8_t> is_weight, ArrayIn<int64_t> capacity,
                                                 ArrayIn<int64_t> latency_ps, ArrayIn<int64_t> inverse_rate,
                                                 ArrayIn<uint8_t> is_prefetched, ArrayIn<int64_t> overhead_ps,
                                                 ArrayIn<int64_t> compute_ps, ArrayIn<int64_t, 2> fixed_ps,
                                                 ArrayIn<int32_t> use_begin, ArrayIn<int32_t> use_tensor,
                                                 ArrayIn<int64_t> use_bytes, ArrayIn<uint8_t> use_is_early) {
    if (fixed_ps.shape(0) != overhead_ps.size() || fixed_ps.shape(1) != capacity.size())
        throw std::invalid_argument("fixed_ps needs a row per op and a column per level");
    if (std::max({size.size(), overhead_ps.size(), use_tensor.size()}) > INT32_MAX / memory_levels::kMaxLevels)
        throw std::invalid_argument("a problem holds fewer than 2^28 ops, tensors and uses");
    auto p = std::make_shared<LevelProblem>();
    p->size = as_vector(size);
    p->first = as_vector(first);
    p->last = as_vector(last);
    p->is_weight = as_vector(is_weight);
    p->capacity = as_vector(capacity);
    p->latency_ps = as_vector(latency_ps);
    p->inverse_rate = as_vector(inverse_rate);
    p->is_prefetched = as_vector(is_prefetched);
    p->overhead_ps = as_vector(overhead_ps);
    p->compute_ps = as_vector(compute_ps);
    p->fixed_ps = as_vector(fixed_ps);
    p->use_begin = as_vector(use_begin);
    p->use_tensor = as_vector(use_tensor);
    p->use_bytes = as_vector(use_bytes);
    p->use_is_early = as_vector(use_is_early);
    p->finish();
    return p;
}

std::vector<Level> as_levels(const LevelProblem& problem, const ArrayIn<uint8_t>& array) {
    std::vector<Level> levels = as_vector(array);
    if (levels.size() != size_t(problem.num_tensors)) throw std::invalid_argument("a map needs one level per tensor");
    if (!std::ranges::all_of(levels, [&](Level level) { return level < problem.num_levels; }))
        throw std::invalid_argument("a map names a level that does not exist");
    return levels;
}

// Copies and checks the maps of a batch.
std::vector<Level> as_maps(const LevelProblem& problem, const ArrayIn<uint8_t, 2>& maps) {
    if (maps.shape(1) != size_t(problem.num_tensors)) throw std::invalid_argument("a map needs one level per tensor");
    std::vector<Level> levels(maps.data(), maps.data() + maps.size());
    if (!std::ranges::all_of(levels, [&](Level level) { return level < problem.num_levels; }))
        throw std::invalid_argument("a map names a level that does not exist");
    return levels;
}

// Evaluates batches of maps on threads that it keeps together with their scratch memory.
class LevelEvaluator {
  public:
    LevelEvaluator(std::shared_ptr<LevelProblem> problem, int32_t threads) : problem_(std::move(problem)) {
        if (threads < 1 || threads > 1024) throw std::invalid_argument("threads must lie in [1, 1024]");
        pool_ = std::make_unique<WorkerPool>(threads);
        scratch_.assign(size_t(threads), LevelScratch(*problem_));
    }

    // Returns latency, moved bytes and rectified map of each row.
    auto evaluate(ArrayIn<uint8_t, 2> maps) {
        const size_t count = maps.shape(0), width = size_t(problem_->num_tensors);
        std::vector<Level> levels = as_maps(*problem_, maps);
        std::vector<int64_t> latency(count), moved(count);
        {
            nb::gil_scoped_release release;
            pool_->run(int32_t(count), [&](int32_t row, int32_t thread) {
                const std::span<Level> map(levels.data() + size_t(row) * width, width);
                const auto outcome = memory_levels::evaluate(*problem_, map, scratch_[size_t(thread)]);
                latency[size_t(row)] = outcome.latency_ps;
                moved[size_t(row)] = outcome.moved_bytes;
            });
        }
        return std::tuple(to_array(std::move(latency)), to_array(std::move(moved)), to_array(std::move(levels)));
    }

  private:
    std::shared_ptr<LevelProblem> problem_;
    std::unique_ptr<WorkerPool> pool_;
    std::vector<LevelScratch> scratch_;
};

// Returns the time of each op and the bytes in use by [level, op], without the last level, for a map that fits.
auto level_details(const LevelProblem& problem, ArrayIn<uint8_t> map) {
    std::vector<Level> levels = as_levels(problem, map);
    LevelScratch scratch(problem);
    if (memory_levels::rectify(problem, levels, scratch) > 0) throw std::invalid_argument("the map does not fit");
    std::vector<int64_t> time(size_t(problem.num_ops));
    memory_levels::op_times(problem, levels, scratch, time);
    for (size_t level = 0; level + 1 < size_t(problem.num_levels); ++level)
        for (size_t op = 0; op < size_t(problem.num_ops); ++op)
            scratch.in_use[level * size_t(problem.num_ops) + op] += scratch.weights[level];
    return std::tuple(to_array(std::move(time)), to_array(std::move(scratch.in_use)));
}

// Returns the latencies of maps that need not fit.
auto time_as_they_are(const LevelProblem& problem, ArrayIn<uint8_t, 2> maps) {
    const auto levels = as_maps(problem, maps);
    const size_t width = size_t(problem.num_tensors);
    std::vector<int64_t> latency(maps.shape(0));
    LevelScratch scratch(problem);
    for (size_t row = 0; row < latency.size(); ++row) {
        const std::span<const Level> map(levels.data() + row * width, width);
        memory_levels::count(problem, map, scratch);
        latency[row] = memory_levels::latency_of(problem, map, scratch);
    }
    return to_array(std::move(latency));
}

// Binds what all searches over maps have in common.
template <class T>
nb::class_<T> bind_level_search(nb::module_& m, const char* name, const char* what) {
    return nb::class_<T>(m, name, what)
        .def(
            "advance", [](T& search, int64_t evaluations, int64_t at_most) { search.advance(evaluations, at_most); },
            nb::arg("evaluations"), nb::arg("at_most") = INT64_MAX, nb::call_guard<nb::gil_scoped_release>(),
            "Searches until `evaluations` in all are spent, at most `at_most` of them in this call.")
        .def_prop_ro("evaluations", &T::evaluations)
        .def_prop_ro("best_objective", &T::best_latency_ps)
        .def_prop_ro("best_bytes_over_limit", [](const T&) { return 0; })
        .def(
            "best", [](const T& search) { return to_array(std::vector<Level>(search.best())); },
            "The best map so far.");
}

void bind_level_searches(nb::module_& m) {
    using nb::arg;
    bind_level_search<memory_levels::LevelLocalSearch>(
        m, "LevelLocalSearch", "Local search that changes a few levels and rectifies the map; it sees only latencies.")
        .def(
            "__init__",
            [](memory_levels::LevelLocalSearch* self, std::shared_ptr<LevelProblem> problem, ArrayIn<uint8_t> start,
               int32_t most_flips, uint64_t seed) {
                auto levels = as_levels(*problem, start);
                new (self) memory_levels::LevelLocalSearch(std::move(problem), std::move(levels), most_flips, seed);
            },
            nb::kw_only(), arg("problem"), arg("start").noconvert(), arg("most_flips"), arg("seed"));
    bind_level_search<memory_levels::LevelAnnealing>(m, "LevelAnnealing", "Annealing of maps that fit.")
        .def(
            "__init__",
            [](memory_levels::LevelAnnealing* self, std::shared_ptr<LevelProblem> problem, ArrayIn<uint8_t> start,
               double first_temperature, double last_temperature, uint64_t seed) {
                const auto levels = as_levels(*problem, start);
                const memory_levels::LevelAnnealingConfig config{first_temperature, last_temperature};
                new (self) memory_levels::LevelAnnealing(std::move(problem), levels, config, seed);
            },
            nb::kw_only(), arg("problem"), arg("start").noconvert(), arg("first_temperature"), arg("last_temperature"),
            arg("seed"));
    m.def(
        "level_savings",
        [](const LevelProblem& problem, ArrayIn<uint8_t> start) {
            return to_array(memory_levels::savings(problem, as_levels(problem, start)));
        },
        arg("problem"), arg("start").noconvert(),
        "The time that moving each tensor alone to each level would save, flat, whether or not it fits.");
    m.def(
        "drawn_near",
        [](const LevelProblem& problem, ArrayIn<uint8_t> start) {
            return to_array(memory_levels::drawn_near(problem, as_levels(problem, start)));
        },
        arg("problem"), arg("start").noconvert(),
        "The map with every tensor in the fastest level that has room for it and costs nothing.");
    m.def(
        "steepest_descent",
        [](const LevelProblem& problem, ArrayIn<uint8_t> start, bool per_byte, int64_t most_evaluations) {
            const auto levels = as_levels(problem, start);
            int64_t evaluations = 0;
            std::vector<Level> found;
            {
                nb::gil_scoped_release release;
                found = memory_levels::steepest_descent(problem, levels, per_byte, most_evaluations, evaluations);
            }
            return std::tuple(to_array(std::move(found)), evaluations);
        },
        arg("problem"), arg("start").noconvert(), arg("per_byte"), arg("most_evaluations"),
        "The map after repeated moves that save the most, and the number of moves scored.");
}

}  // namespace

void bind_memory_levels(nb::module_& m) {
    using nb::arg;
    nb::class_<LevelProblem>(m, "LevelProblem", "Tensors, levels and ops; see placewright.lab.memory_levels.problem.")
        .def(nb::new_(&make_level_problem), nb::kw_only(), arg("size").noconvert(), arg("first").noconvert(),
             arg("last").noconvert(), arg("is_weight").noconvert(), arg("capacity").noconvert(),
             arg("latency_ps").noconvert(), arg("inverse_rate").noconvert(), arg("is_prefetched").noconvert(),
             arg("overhead_ps").noconvert(), arg("compute_ps").noconvert(), arg("fixed_ps").noconvert(),
             arg("use_begin").noconvert(), arg("use_tensor").noconvert(), arg("use_bytes").noconvert(),
             arg("use_is_early").noconvert())
        .def_ro("num_ops", &LevelProblem::num_ops)
        .def_ro("num_tensors", &LevelProblem::num_tensors)
        .def_ro("num_levels", &LevelProblem::num_levels)
        .def_ro("total_bytes", &LevelProblem::total_bytes)
        .def("time_as_they_are", &time_as_they_are, arg("maps").noconvert(),
             "Latencies in ps of maps that need not fit.")
        .def("details", &level_details, arg("map").noconvert(),
             "Time of each op in ps, and bytes in use by level and op, flat, without the slowest level.");
    nb::class_<LevelEvaluator>(m, "LevelEvaluator", "Evaluates batches of maps on threads that it keeps.")
        .def(nb::init<std::shared_ptr<LevelProblem>, int32_t>(), arg("problem"), arg("threads") = 1)
        .def("evaluate", &LevelEvaluator::evaluate, arg("maps").noconvert(),
             "Latency in ps, bytes moved by the rectifier, and the rectified maps, flat.");
    bind_level_searches(m);
}

}  // namespace placewright
