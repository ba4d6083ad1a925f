// Simulated annealing for Python: a search that is advanced some evaluations at a time.
#include "improve/annealing.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "proposal.hpp"
#include "search.hpp"

namespace placewright {

void bind_annealing(nb::module_& m) {
    using nb::arg;
    const auto init = [](Annealing* self, std::shared_ptr<Problem> problem, uint64_t seed, int32_t keys_per_move,
                         double first_temperature, double last_temperature, const std::string& decoder,
                         std::shared_ptr<BetaTables> tables, std::optional<ArrayIn<uint16_t>> row) {
        const AnnealingConfig config{keys_per_move, first_temperature, last_temperature, decoder_named(decoder)};
        new (self) Annealing(std::move(problem), config, make_proposal(std::move(tables), row), seed);
    };
    bind_search<Annealing>(m, "Annealing", "Simulated annealing over keys; see placewright.lab.peers.annealing.")
        .def("__init__", init, nb::kw_only(), arg("problem"), arg("seed"), arg("keys_per_move"),
             arg("first_temperature"), arg("last_temperature"), arg("decoder") = "paper", arg("tables") = nb::none(),
             arg("row").noconvert() = nb::none())
        .def("best_keys",
             [](const Annealing& a) { return to_array(std::vector<Key>(a.best_keys().begin(), a.best_keys().end())); });
}

}  // namespace placewright
