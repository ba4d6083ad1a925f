// The contents of placewright._core.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace placewright {
void bind_problem(nb::module_& m);
void bind_orders(nb::module_& m);
void bind_placements(nb::module_& m);
void bind_list_schedule(nb::module_& m);
void bind_inputs_aside(nb::module_& m);
void bind_segment_fill(nb::module_& m);
void bind_eviction(nb::module_& m);
void bind_beta(nb::module_& m);
void bind_brkga(nb::module_& m);
void bind_local_search(nb::module_& m);
void bind_annealing(nb::module_& m);
void bind_peak_search(nb::module_& m);
void bind_exact_order(nb::module_& m);
void bind_exact_schedule(nb::module_& m);
void bind_partition(nb::module_& m);
void bind_schedule_annealing(nb::module_& m);
void bind_coarsening(nb::module_& m);
void bind_superstep(nb::module_& m);
void bind_bounds(nb::module_& m);
void bind_rematerialize(nb::module_& m);
void bind_memory_levels(nb::module_& m);
void bind_graph_network(nb::module_& m);
void bind_offsets(nb::module_& m);
void bind_type_versions(nb::module_& m);
}  // namespace placewright

NB_MODULE(_core, m) {
    // Python keeps what modules and caches hold until it exits, which is no leak; the sanitizers look for leaks.
    nb::set_leak_warnings(false);
    m.doc() = "The C++ core: integers and arrays, and versions of Python classes.";
    placewright::bind_problem(m);
    placewright::bind_orders(m);
    placewright::bind_placements(m);
    placewright::bind_list_schedule(m);
    placewright::bind_inputs_aside(m);
    placewright::bind_segment_fill(m);
    placewright::bind_eviction(m);
    placewright::bind_beta(m);
    placewright::bind_brkga(m);
    placewright::bind_local_search(m);
    placewright::bind_annealing(m);
    placewright::bind_peak_search(m);
    placewright::bind_exact_order(m);
    placewright::bind_exact_schedule(m);
    placewright::bind_partition(m);
    placewright::bind_schedule_annealing(m);
    placewright::bind_coarsening(m);
    placewright::bind_superstep(m);
    placewright::bind_bounds(m);
    placewright::bind_rematerialize(m);
    placewright::bind_memory_levels(m);
    placewright::bind_graph_network(m);
    placewright::bind_offsets(m);
    placewright::bind_type_versions(m);
}
