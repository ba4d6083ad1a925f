// BRKGA for Python: a search that is advanced a few generations at a time.
#include "improve/brkga.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "proposal.hpp"
#include "search.hpp"

namespace placewright {

namespace {

void init_brkga(Brkga* self, std::shared_ptr<Problem> problem, uint64_t seed, int32_t threads, int32_t population,
                int32_t elites, int32_t mutants, double elite_bias, int32_t populations, int32_t exchange_interval,
                int32_t exchanged, const std::string& decoder, const std::vector<ArrayIn<uint32_t>>& seeds,
                std::shared_ptr<BetaTables> tables, std::optional<ArrayIn<uint16_t>> row) {
    if (threads < 1 || threads > 1024) throw std::invalid_argument("threads must lie in [1, 1024]");
    std::vector<std::vector<Key>> chromosomes;
    for (const auto& keys : seeds) chromosomes.push_back(as_vector(keys));
    const BrkgaConfig config{
        population, elites, mutants, elite_bias, populations, exchange_interval, exchanged, decoder_named(decoder)};
    new (self)
        Brkga(std::move(problem), config, make_proposal(std::move(tables), row), std::move(chromosomes), seed, threads);
}

}  // namespace

void bind_brkga(nb::module_& m) {
    using nb::arg;
    bind_search<Brkga>(m, "Brkga", "Biased random-key genetic algorithm; see placewright.lab.peers.brkga.")
        .def("__init__", &init_brkga, nb::kw_only(), arg("problem"), arg("seed"), arg("threads"), arg("population"),
             arg("elites"), arg("mutants"), arg("elite_bias"), arg("populations"), arg("exchange_interval"),
             arg("exchanged"), arg("decoder") = "paper", arg("seeds").noconvert(), arg("tables") = nb::none(),
             arg("row").noconvert() = nb::none())
        .def("evolve", &Brkga::evolve, arg("generations"), nb::call_guard<nb::gil_scoped_release>(),
             "Advances by that many generations; the first is the rest of the current one.")
        .def_prop_ro("generation", &Brkga::generation)
        .def("best_keys",
             [](const Brkga& b) { return to_array(std::vector<Key>(b.best_keys().begin(), b.best_keys().end())); })
        .def(
            "mean_decisions",
            [](Brkga& b) {
                MeanDecisions mean;
                {
                    nb::gil_scoped_release release;
                    mean = b.mean_decisions();
                }
                return std::pair(to_array(std::move(mean.share)), to_array(std::move(mean.position)));
            },
            "Means over the individuals of the last complete generation: the share of them that has an op on a device, "
            "[op * device], and the position of each op in the order of ops, from 0 to 1, [op].");
}

}  // namespace placewright
