// Conversion of arrays: C-contiguous views with exact types come in, arrays that own their memory go out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <vector>

#include "construct/orders.hpp"
#include "problem/problem.hpp"

namespace placewright {

namespace nb = nanobind;

template <class T, int kDimensions = 1>
using ArrayIn = nb::ndarray<const T, nb::ndim<kDimensions>, nb::c_contig, nb::device::cpu>;

template <class T, int kDimensions = 1>
using ArrayOut = nb::ndarray<nb::numpy, T, nb::ndim<kDimensions>, nb::c_contig>;

template <class Array>
auto as_vector(const Array& array) {
    return std::vector<std::remove_const_t<typename Array::Scalar>>(array.data(), array.data() + array.size());
}

// Hands the vector's memory to numpy.
template <class T>
ArrayOut<T> to_array(std::vector<T>&& values) {
    auto* owned = new std::vector<T>(std::move(values));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return ArrayOut<T>(owned->data(), {owned->size()}, owner);
}

// Input from Python is copied, so that it cannot change afterwards, and the copy is checked once, here; the core only
// asserts.
inline std::vector<int32_t> as_placement(const Problem& problem, const ArrayIn<int32_t>& device_of) {
    const auto exists = [&](int32_t device) { return device >= 0 && device < problem.num_devices; };
    std::vector<int32_t> placement = as_vector(device_of);
    if (placement.size() != size_t(problem.num_ops) || !std::ranges::all_of(placement, exists))
        throw std::invalid_argument("device_of needs one existing device per op");
    return placement;
}

inline std::vector<int32_t> as_op_order(const Problem& problem, const ArrayIn<int32_t>& array) {
    std::vector<int32_t> ops = as_vector(array);
    if (!is_valid_order(problem, ops)) throw std::invalid_argument("ops is not a valid order");
    return ops;
}

using OrderIn = nb::ndarray<const int32_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using OrderOut = nb::ndarray<nb::numpy, int32_t, nb::shape<-1, 2>, nb::c_contig>;

static_assert(sizeof(Step) == 2 * sizeof(int32_t));

inline std::vector<Step> as_order(const OrderIn& order) {
    std::vector<Step> steps;
    steps.reserve(order.shape(0));
    for (size_t row = 0; row < order.shape(0); ++row) steps.push_back({order(row, 0), order(row, 1)});
    return steps;
}

inline OrderOut to_order(std::vector<Step>&& steps) {
    auto* owned = new std::vector<Step>(std::move(steps));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<Step>*>(p); });
    return OrderOut(reinterpret_cast<int32_t*>(owned->data()), {owned->size(), 2}, owner);
}

}  // namespace placewright
