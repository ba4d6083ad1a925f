// The binding of the core's searches, which are advanced some evaluations at a time and give their best.
#pragma once

#include <nanobind/stl/pair.h>

#include <utility>

#include "arrays.hpp"
#include "improve/search.hpp"

namespace placewright {

// Binds what all searches have in common; the caller binds constructors and anything else.
template <Search T>
nb::class_<T> bind_search(nb::module_& m, const char* name, const char* what) {
    return nb::class_<T>(m, name, what)
        .def(
            "advance", [](T& search, int64_t evaluations, int64_t at_most) { search.advance(evaluations, at_most); },
            nb::arg("evaluations"), nb::arg("at_most") = INT64_MAX, nb::call_guard<nb::gil_scoped_release>(),
            "Searches until `evaluations` in all are spent, at most `at_most` of them in this call.")
        .def_prop_ro("evaluations", &T::evaluations)
        .def_prop_ro("best_objective", [](const T& search) { return search.best_fitness().objective; })
        .def_prop_ro("best_bytes_over_limit", [](const T& search) { return search.best_fitness().bytes_over_limit; })
        .def(
            "best",
            [](const T& search) {
                Solution best = search.best();
                return std::pair(to_array(std::move(best.device_of)), to_order(std::move(best.order)));
            },
            "The best so far: device of each op, and the whole order.");
}

}  // namespace placewright
