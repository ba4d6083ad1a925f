// Tables of Beta distributions for Python, which searches share.
#include "decode/beta.hpp"

#include <nanobind/stl/shared_ptr.h>

#include "arrays.hpp"

namespace placewright {

void bind_beta(nb::module_& m) {
    using nb::arg;
    const auto init = [](BetaTables* self, ArrayIn<double> alpha, ArrayIn<double> beta) {
        new (self) BetaTables(as_vector(alpha), as_vector(beta));
    };
    const auto draw = [](const BetaTables& tables, uint32_t row, ArrayIn<uint32_t> uniforms) {
        if (row >= tables.num_rows()) throw std::invalid_argument("there is no such row");
        std::vector<uint32_t> keys;
        for (uint32_t uniform : as_vector(uniforms)) keys.push_back(tables.draw(row, uniform));
        return to_array(std::move(keys));
    };
    nb::class_<BetaTables>(m, "BetaTables", "Quantiles of Beta distributions, a row for each.")
        .def("__init__", init, arg("alpha").noconvert(), arg("beta").noconvert())
        .def("draw", draw, arg("row"), arg("uniforms").noconvert(),
             "Keys that a distribution gives for uniform draws.");
}

}  // namespace placewright
