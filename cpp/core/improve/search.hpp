// The interface of every search: it is advanced some evaluations at a time and gives its best whenever it pauses.
#pragma once

#include <concepts>
#include <cstdint>

#include "problem/problem.hpp"

namespace placewright {

// advance(evaluations, at_most) searches until `evaluations` in all are spent, at most `at_most` of them in this call;
// pauses do not change the result. Before the first evaluation there is no best.
template <class T>
concept Search = requires(T search, const T& paused, int64_t evaluations) {
    { search.advance(evaluations, evaluations) } -> std::same_as<void>;
    { paused.evaluations() } -> std::same_as<int64_t>;
    { paused.best_fitness() } -> std::convertible_to<Fitness>;
    { paused.best() } -> std::same_as<Solution>;
};

}  // namespace placewright
