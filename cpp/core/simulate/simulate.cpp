#include "simulate/simulate.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "simulate/memory.hpp"

namespace placewright {

namespace {

// Makes the control successors start no earlier than `finish`, plus the latency if they are on another device.
void signal(const Problem& p, std::span<const int32_t> device_of, SimulationScratch& s, int32_t op, int64_t finish) {
    const int32_t device = device_of[op];
    for (int32_t next : p.controls[op]) {
        const int32_t other = device_of[next];
        const int64_t latency = other == device ? 0 : p.latency_ns[size_t(device) * p.num_devices + other];
        s.earliest[next] = std::max(s.earliest[next], finish + latency);
    }
}

// Launches an op on its host thread. Hosts launch steps in the given order and never wait. Returns the time from which
// the op may start; 0 if it is not launched.
int64_t launched_op(const Problem& p, SimulationScratch& s, int32_t op, int32_t device) {
    if (p.host_of[device] < 0) return 0;
    const Launch& launch = p.launch(op, device);
    int64_t& clock = s.host_clock[p.host_of[device]];
    const int64_t begin = clock;
    clock += launch.host_ns;
    return launch.host_ns == 0 ? 0 : begin + launch.lead_ns;
}

int64_t launched_transfer(const Problem& p, SimulationScratch& s, int32_t source, int32_t destination, int64_t time) {
    const int32_t launcher = p.launcher(source, destination);
    if (launcher < 0 || time == 0) return 0;
    return s.host_clock[p.host_of[launcher]] += p.launch_ns[launcher];
}

// In the blocking model every device runs its steps in the given order, so memory can be counted exactly on the way.
template <bool kMemory, bool kHosts>
int64_t run_blocking(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                     SimulationScratch& s, std::span<int64_t> start, std::span<int64_t> finish) {
    const bool signals = p.signals && !p.controls.values.empty();
    Memory<> memory{p, device_of, s};
    int64_t* clock = s.clock.data();
    for (size_t k = 0; k < order.size(); ++k) {
        const Step step = order[k];
        int64_t begin, end;
        if (step.is_op()) {
            const int32_t device = device_of[step.id];
            begin = clock[device];
            if constexpr (kHosts) begin = std::max(begin, launched_op(p, s, step.id, device));
            if (signals) begin = std::max(begin, s.earliest[step.id]);
            end = begin + p.op_time(step.id, device);
            clock[device] = end;
            if (signals) signal(p, device_of, s, step.id, end);
            if constexpr (kMemory) {
                memory.start_op(step.id, device);
                memory.finish_op(step.id, device);
            }
        } else {
            const int32_t source = device_of[p.producer[step.id]];
            const int64_t time = p.transfer_time(step.id, source, step.destination);
            begin = std::max(clock[source], clock[step.destination]);
            if constexpr (kHosts) begin = std::max(begin, launched_transfer(p, s, source, step.destination, time));
            end = begin + time;
            clock[source] = clock[step.destination] = end;
            if constexpr (kMemory) {
                memory.start_transfer(step);
                memory.finish_transfer(step);
            }
        }
        if (!start.empty()) {
            start[k] = begin;
            finish[k] = end;
        }
    }
    return std::ranges::max(s.clock);
}

template <bool kHosts>
int64_t run_overlapped(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                       SimulationScratch& s, std::span<int64_t> start, std::span<int64_t> finish) {
    const int32_t D = p.num_devices;
    const bool signals = p.signals && !p.controls.values.empty();
    std::ranges::fill(s.link_free, 0);
    for (size_t k = 0; k < order.size(); ++k) {
        const Step step = order[k];
        int64_t begin, end;
        if (step.is_op()) {
            const int32_t device = device_of[step.id];
            begin = s.clock[device];
            if constexpr (kHosts) begin = std::max(begin, launched_op(p, s, step.id, device));
            if (signals) begin = std::max(begin, s.earliest[step.id]);
            for (int32_t tensor : p.inputs[step.id])
                if (device_of[p.producer[tensor]] != device)
                    begin = std::max(begin, s.arrival[size_t(tensor) * D + device]);
            end = begin + p.op_time(step.id, device);
            s.clock[device] = s.finish[step.id] = end;
            if (signals) signal(p, device_of, s, step.id, end);
        } else {
            const int32_t source = device_of[p.producer[step.id]];
            int64_t& link_free = s.link_free[size_t(source) * D + step.destination];
            const int64_t time = p.transfer_time(step.id, source, step.destination);
            begin = std::max(link_free, s.finish[p.producer[step.id]]);
            if constexpr (kHosts) begin = std::max(begin, launched_transfer(p, s, source, step.destination, time));
            end = begin + time;
            link_free = s.arrival[size_t(step.id) * D + step.destination] = end;
        }
        start[k] = begin;
        finish[k] = end;
    }
    return std::ranges::max(s.clock);
}

template <bool kMemory>
int64_t run_blocking(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                     SimulationScratch& s, std::span<int64_t> start, std::span<int64_t> finish) {
    return p.has_hosts ? run_blocking<kMemory, true>(p, device_of, order, s, start, finish)
                       : run_blocking<kMemory, false>(p, device_of, order, s, start, finish);
}

int64_t run_overlapped(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                       SimulationScratch& s, std::span<int64_t> start, std::span<int64_t> finish) {
    return p.has_hosts ? run_overlapped<true>(p, device_of, order, s, start, finish)
                       : run_overlapped<false>(p, device_of, order, s, start, finish);
}

void reset(const Problem& p, SimulationScratch& s) {
    std::ranges::fill(s.clock, 0);
    std::ranges::fill(s.host_clock, 0);
    if (p.signals) std::ranges::fill(s.earliest, 0);
}

Outcome outcome(const Problem& p, const SimulationScratch& s, int64_t step_time_ns) {
    Outcome result{step_time_ns, std::ranges::max(s.peak), 0};
    for (int32_t d = 0; d < p.num_devices; ++d)
        result.bytes_over_limit += std::max<int64_t>(0, s.peak[d] - p.memory_limit[d]);
    return result;
}

}  // namespace

SimulationScratch::SimulationScratch(const Problem& problem)
    : clock(problem.num_devices),
      host_clock(problem.num_devices),
      link_free(size_t(problem.num_devices) * problem.num_devices),
      earliest(problem.num_ops),
      finish(problem.num_ops),
      arrival(problem.blocking ? 0 : size_t(problem.num_tensors) * problem.num_devices),
      uses_left(size_t(problem.num_tensors) * problem.num_devices),
      in_use(problem.num_devices),
      peak(problem.num_devices),
      resident_on(problem.resident_bytes.size()),
      device_op_begin(problem.num_devices + 1),
      device_ops(problem.num_ops),
      link_event_begin(problem.num_devices + 1),
      next_of_device(problem.num_devices) {
    const size_t max_steps = problem.num_ops + size_t(problem.num_tensors) * (problem.num_devices - 1);
    if (!problem.blocking) {
        step_start.resize(max_steps);
        step_finish.resize(max_steps);
        link_events.resize(2 * max_steps);
    }
}

int64_t simulate_time(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                      SimulationScratch& s, std::span<int64_t> start, std::span<int64_t> finish) {
    reset(p, s);
    if (p.blocking) return run_blocking<false>(p, device_of, order, s, start, finish);
    if (start.empty()) {
        start = s.step_start;
        finish = s.step_finish;
    }
    return run_overlapped(p, device_of, order, s, start, finish);
}

Outcome simulate(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                 SimulationScratch& s, std::span<int64_t> start, std::span<int64_t> finish) {
    reset(p, s);
    prepare_memory(p, device_of, s);
    if (p.blocking) return outcome(p, s, run_blocking<true>(p, device_of, order, s, start, finish));
    if (start.empty()) {
        start = s.step_start;
        finish = s.step_finish;
    }
    const int64_t step_time = run_overlapped(p, device_of, order, s, start, finish);
    replay_memory(p, device_of, order, s, start, finish);
    return outcome(p, s, step_time);
}

Fitness evaluate(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                 SimulationScratch& s) {
    if (!p.needs_memory) return p.fitness(0, simulate_time(p, device_of, order, s), 0);
    const Outcome result = simulate(p, device_of, order, s);
    return p.fitness(result.bytes_over_limit, result.step_time_ns, result.peak_memory_bytes);
}

void check_order(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order) {
    const auto fail = [](const std::string& what) { throw std::invalid_argument(what); };
    if (device_of.size() != size_t(p.num_ops)) fail("device_of has not one entry per op");
    for (int32_t op = 0; op < p.num_ops; ++op) {
        const int32_t device = device_of[op];
        if (device < 0 || device >= p.num_devices || !(p.allowed[op] >> device & 1))
            fail("op " + std::to_string(op) + " stands on a device it may not use");
        if (device != device_of[p.group[op]]) fail("op " + std::to_string(op) + " stands apart from its group");
    }
    std::vector<uint8_t> done(p.num_ops);
    std::vector<uint64_t> present(p.num_tensors);
    for (const Step& step : order) {
        const std::string name = (step.is_op() ? "op " : "transfer of tensor ") + std::to_string(step.id);
        if (step.destination < -1) fail(name + " goes to a device that does not exist");
        if (step.id < 0 || step.id >= (step.is_op() ? p.num_ops : p.num_tensors)) fail(name + " does not exist");
        if (!step.is_op()) {
            const uint64_t bit = step.destination < p.num_devices ? uint64_t{1} << step.destination : 0;
            if (bit == 0) fail(name + " goes to a device that does not exist");
            if (!done[p.producer[step.id]]) fail(name + " stands before its producer");
            if (present[step.id] & bit) fail(name + " is not needed or repeated");
            if (std::ranges::none_of(p.consumers[step.id], [&](int32_t c) { return device_of[c] == step.destination; }))
                fail(name + " has no reader there");
            present[step.id] |= bit;
            continue;
        }
        if (done[step.id]) fail(name + " runs twice");
        for (int32_t tensor : p.inputs[step.id])
            if (!(present[tensor] >> device_of[step.id] & 1)) fail(name + " runs before an input is on its device");
        for (int32_t previous : p.predecessors[step.id])
            if (!done[previous]) fail(name + " runs before an op it must follow");
        done[step.id] = 1;
        for (int32_t tensor = p.output_begin[step.id]; tensor < p.output_begin[step.id + 1]; ++tensor)
            present[tensor] |= uint64_t{1} << device_of[step.id];
    }
    for (int32_t op = 0; op < p.num_ops; ++op)
        if (!done[op]) fail("op " + std::to_string(op) + " never runs");
}

}  // namespace placewright
