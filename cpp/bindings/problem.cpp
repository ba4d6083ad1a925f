// Problem, simulation, decoder and transfer placement for Python.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "construct/transfers.hpp"
#include "decode/decoder.hpp"
#include "simulate/lifetimes.hpp"
#include "simulate/simulate.hpp"

namespace placewright {

namespace {

// The results of a simulation for Python.
struct SimulationResult {
    Outcome outcome;
    std::vector<int64_t> peak_bytes, start_ns, finish_ns;
};

std::shared_ptr<Problem> make_problem(
    int32_t num_devices, ArrayIn<int64_t, 2> op_time_ns, ArrayIn<int64_t> workspace_bytes,
    ArrayIn<int32_t> output_begin, ArrayIn<int64_t> transfer_bytes, ArrayIn<int64_t> copy_bytes,
    ArrayIn<int64_t> allocated_bytes, ArrayIn<int32_t> storage, ArrayIn<uint8_t> live_out, ArrayIn<int32_t> input_begin,
    ArrayIn<int32_t> inputs, ArrayIn<int32_t> control_begin, ArrayIn<int32_t> controls, ArrayIn<int32_t> resident_begin,
    ArrayIn<int32_t> residents, ArrayIn<int64_t> resident_bytes, ArrayIn<int32_t> group, ArrayIn<uint64_t> allowed,
    ArrayIn<int64_t, 2> latency_ns, ArrayIn<int64_t, 2> inverse_bandwidth, ArrayIn<int64_t> memory_limit,
    ArrayIn<int32_t> host_of, ArrayIn<int64_t> launch_ns, bool blocking, bool signals, bool minimize_memory) {
    const auto is_table = [&](const auto& array, size_t rows) {
        return array.shape(0) == rows && array.shape(1) == size_t(num_devices);
    };
    if (!is_table(op_time_ns, group.size()) || !is_table(latency_ns, size_t(num_devices)) ||
        !is_table(inverse_bandwidth, size_t(num_devices)))
        throw std::invalid_argument("a table needs one column per device, and one row per op or device");
    if (std::max(group.size(), transfer_bytes.size()) > INT32_MAX)
        throw std::invalid_argument("a problem holds fewer than 2^31 ops and tensors");
    auto p = std::make_shared<Problem>();
    p->num_ops = static_cast<int32_t>(group.size());
    p->num_tensors = static_cast<int32_t>(transfer_bytes.size());
    p->num_devices = num_devices;
    p->op_time_ns = as_vector(op_time_ns);
    p->workspace_bytes = as_vector(workspace_bytes);
    p->output_begin = as_vector(output_begin);
    p->transfer_bytes = as_vector(transfer_bytes);
    p->copy_bytes = as_vector(copy_bytes);
    p->allocated_bytes = as_vector(allocated_bytes);
    p->storage = as_vector(storage);
    p->live_out = as_vector(live_out);
    p->inputs = {as_vector(input_begin), as_vector(inputs)};
    p->controls = {as_vector(control_begin), as_vector(controls)};
    p->residents = {as_vector(resident_begin), as_vector(residents)};
    p->resident_bytes = as_vector(resident_bytes);
    p->group = as_vector(group);
    p->allowed = as_vector(allowed);
    p->latency_ns = as_vector(latency_ns);
    p->inverse_bandwidth = as_vector(inverse_bandwidth);
    p->memory_limit = as_vector(memory_limit);
    p->host_of = as_vector(host_of);
    p->launch_ns = as_vector(launch_ns);
    p->blocking = blocking;
    p->signals = signals;
    p->minimize_memory = minimize_memory;
    p->finish();
    return p;
}

SimulationResult simulate_checked(const Problem& problem, ArrayIn<int32_t> device_of, OrderIn order) {
    const auto placement = as_vector(device_of);
    const auto steps = as_order(order);
    nb::gil_scoped_release release;
    check_order(problem, placement, steps);
    SimulationResult result;
    SimulationScratch scratch(problem);
    result.start_ns.resize(steps.size());
    result.finish_ns.resize(steps.size());
    result.outcome = simulate(problem, placement, steps, scratch, result.start_ns, result.finish_ns);
    result.peak_bytes = scratch.peak;
    return result;
}

ArrayOut<int32_t, 2> lifetimes_checked(const Problem& problem, ArrayIn<int32_t> device_of, OrderIn order) {
    static_assert(sizeof(Lifetime) == 4 * sizeof(int32_t));
    const auto placement = as_vector(device_of);
    const auto steps = as_order(order);
    auto* held = new std::vector<Lifetime>;
    nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<Lifetime>*>(p); });
    {
        nb::gil_scoped_release release;
        check_order(problem, placement, steps);
        *held = lifetimes(problem, placement, steps);
    }
    return ArrayOut<int32_t, 2>(reinterpret_cast<int32_t*>(held->data()), {held->size(), 4}, owner);
}

std::pair<ArrayOut<int32_t>, OrderOut> decode_keys(const Problem& problem, ArrayIn<uint32_t> keys,
                                                   const std::string& name) {
    const DecoderKind kind = decoder_named(name);
    if (int64_t(keys.size()) != num_keys(problem, kind)) throw std::invalid_argument("keys has the wrong length");
    const std::vector<Key> chromosome = as_vector(keys);
    std::vector<int32_t> device_of;
    std::vector<Step> order;
    {
        nb::gil_scoped_release release;
        const auto decoder = make_decoder(problem, kind);
        const Decoded decoded = decoder->decode(chromosome);
        device_of.assign(decoded.device_of.begin(), decoded.device_of.end());
        order.assign(decoded.order.begin(), decoded.order.end());
    }
    return {to_array(std::move(device_of)), to_order(std::move(order))};
}

}  // namespace

void bind_problem(nb::module_& m) {
    nb::class_<SimulationResult>(m, "Simulation", "Times, peaks and limits of one simulated order.")
        .def_prop_ro("step_time_ns", [](const SimulationResult& r) { return r.outcome.step_time_ns; })
        .def_prop_ro("peak_memory_bytes", [](const SimulationResult& r) { return r.outcome.peak_memory_bytes; })
        .def_prop_ro("bytes_over_limit", [](const SimulationResult& r) { return r.outcome.bytes_over_limit; })
        .def_prop_ro(
            "peak_bytes", [](const SimulationResult& r) { return to_array(std::vector(r.peak_bytes)); },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "start_ns", [](const SimulationResult& r) { return to_array(std::vector(r.start_ns)); },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "finish_ns", [](const SimulationResult& r) { return to_array(std::vector(r.finish_ns)); },
            nb::rv_policy::automatic);

    nb::class_<Problem>(m, "Problem", "The immutable problem; see placewright.problem.Problem.core for the arrays.")
        .def(nb::new_(&make_problem), nb::kw_only(), nb::arg("num_devices"), nb::arg("op_time_ns").noconvert(),
             nb::arg("workspace_bytes").noconvert(), nb::arg("output_begin").noconvert(),
             nb::arg("transfer_bytes").noconvert(), nb::arg("copy_bytes").noconvert(),
             nb::arg("allocated_bytes").noconvert(), nb::arg("storage").noconvert(), nb::arg("live_out").noconvert(),
             nb::arg("input_begin").noconvert(), nb::arg("inputs").noconvert(), nb::arg("control_begin").noconvert(),
             nb::arg("controls").noconvert(), nb::arg("resident_begin").noconvert(), nb::arg("residents").noconvert(),
             nb::arg("resident_bytes").noconvert(), nb::arg("group").noconvert(), nb::arg("allowed").noconvert(),
             nb::arg("latency_ns").noconvert(), nb::arg("inverse_bandwidth").noconvert(),
             nb::arg("memory_limit").noconvert(), nb::arg("host_of").noconvert(), nb::arg("launch_ns").noconvert(),
             nb::arg("blocking"), nb::arg("signals"), nb::arg("minimize_memory"))
        .def_ro("num_ops", &Problem::num_ops)
        .def_ro("num_tensors", &Problem::num_tensors)
        .def_ro("num_devices", &Problem::num_devices)
        .def_prop_ro("num_keys", [](const Problem& problem) { return num_keys(problem, DecoderKind::paper); })
        .def_ro("needs_memory", &Problem::needs_memory)
        .def_ro("has_hosts", &Problem::has_hosts)
        .def("simulate", &simulate_checked, nb::arg("device_of").noconvert(), nb::arg("order").noconvert(),
             "Checks, then simulates an order. Raises ValueError when the order is not valid.")
        .def("lifetimes", &lifetimes_checked, nb::arg("device_of").noconvert(), nb::arg("order").noconvert(),
             "The lifetimes of tensors in memory, a row for each: tensor, device, the position of the step at whose "
             "start it begins, and that of the step at whose finish it ends, -1 if it stays to the end. Tensors with "
             "memory of their own on their producer's device come first, then copies by position of the transfer.")
        .def(
            "check_order",
            [](const Problem& problem, ArrayIn<int32_t> device_of, OrderIn order) {
                check_order(problem, as_vector(device_of), as_order(order));
            },
            nb::arg("device_of").noconvert(), nb::arg("order").noconvert(),
            "Raises ValueError when the order is not valid for the placement.")
        .def(
            "num_keys_of",
            [](const Problem& problem, const std::string& decoder) {
                return num_keys(problem, decoder_named(decoder));
            },
            nb::arg("decoder"), "Length of a chromosome of that decoder; `num_keys` is that of \"paper\".")
        .def("decode", &decode_keys, nb::arg("keys").noconvert(), nb::arg("decoder") = "paper",
             "Placement and order that a decoder makes of a chromosome; see placewright.decoder.")
        .def(
            "encode",
            [](const Problem& problem, ArrayIn<int32_t> device_of, OrderIn order, const std::string& decoder) {
                const auto placement = as_vector(device_of);
                const auto steps = as_order(order);
                check_order(problem, placement, steps);
                return to_array(encode(problem, placement, steps, decoder_named(decoder)));
            },
            nb::arg("device_of").noconvert(), nb::arg("order").noconvert(), nb::arg("decoder") = "paper",
            "A chromosome that decodes to the given solution, or as close to it as the decoder comes.")
        .def(
            "with_transfers",
            [](const Problem& problem, ArrayIn<int32_t> device_of, ArrayIn<int32_t> ops, bool early) {
                return to_order(with_transfers(problem, as_placement(problem, device_of), as_op_order(problem, ops),
                                               early ? TransferTiming::early : TransferTiming::late));
            },
            nb::arg("device_of").noconvert(), nb::arg("ops").noconvert(), nb::arg("early"),
            "A whole order: transfers right after their producers, or right before their first consumers.");
}

}  // namespace placewright
