#include "simulate.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace placewright {

namespace {

// Counts, per (tensor, device), what must finish before its memory there is free. Views and in-place results count on
// their storage at home; a transfer is a consumer on the sending device.
void count_uses(const Problem& p, std::span<const int32_t> device_of, SimulationScratch& s) {
    const int32_t D = p.num_devices;
    std::ranges::fill(s.uses_left, 0);
    int32_t* uses = s.uses_left.data();
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor) {
        const int32_t home = device_of[p.producer[tensor]];
        int32_t* at_home = uses + size_t(p.storage[tensor]) * D + home;
        int32_t* copies = uses + size_t(tensor) * D;
        *at_home += p.kept[tensor];
        for (int32_t consumer : p.consumers[tensor]) {
            const int32_t device = device_of[consumer];
            const bool remote = device != home;
            *at_home += remote ? copies[device] == 0 : 1;
            copies[device] += remote;
        }
    }
}

// Sets in_use to the residents of each device.
void load_residents(const Problem& p, std::span<const int32_t> device_of, SimulationScratch& s) {
    std::ranges::fill(s.in_use, 0);
    if (p.residents.values.empty()) return;
    std::ranges::fill(s.resident_on, 0);
    for (int32_t op = 0; op < p.num_ops; ++op) {
        const int32_t device = device_of[op];
        const uint64_t here = uint64_t{1} << device;
        for (int32_t resident : p.residents[op]) {
            s.in_use[device] += s.resident_on[resident] & here ? 0 : p.resident_bytes[resident];
            s.resident_on[resident] |= here;
        }
    }
}

// Memory bookkeeping of one device event; the caller guarantees the order of events.
struct Memory {
    const Problem& p;
    std::span<const int32_t> device_of;
    SimulationScratch& s;

    void allocate(int32_t device, int64_t bytes) {
        s.in_use[device] += bytes;
        s.peak[device] = std::max(s.peak[device], s.in_use[device]);
    }
    void start_op(int32_t op, int32_t device) { allocate(device, p.output_bytes[op] + p.workspace_bytes[op]); }

    void release_home(int32_t tensor, int32_t home) {
        const int32_t storage = p.storage[tensor];
        if (--s.uses_left[size_t(storage) * p.num_devices + home] == 0) s.in_use[home] -= p.home_bytes[storage];
    }
    void finish_op(int32_t op, int32_t device) {
        int64_t freed = p.workspace_bytes[op];
        for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
            if (s.uses_left[size_t(tensor) * p.num_devices + device] == 0 && p.storage[tensor] == tensor)
                freed += p.home_bytes[tensor];
        for (int32_t tensor : p.inputs[op]) {
            const bool local = device_of[p.producer[tensor]] == device;
            const int32_t held = local ? p.storage[tensor] : tensor;
            const int64_t bytes = local ? p.home_bytes[held] : p.copy_bytes[held];
            freed += --s.uses_left[size_t(held) * p.num_devices + device] == 0 ? bytes : 0;
        }
        s.in_use[device] -= freed;
    }
    void start_transfer(const Step& step) { allocate(step.destination, p.copy_bytes[step.id]); }
    void finish_transfer(const Step& step) { release_home(step.id, device_of[p.producer[step.id]]); }
};

// Successors by control dependency start no earlier than `finish`, plus the latency to another device.
void signal(const Problem& p, std::span<const int32_t> device_of, SimulationScratch& s, int32_t op, int64_t finish) {
    const int32_t device = device_of[op];
    for (int32_t next : p.controls[op]) {
        const int32_t other = device_of[next];
        const int64_t latency = other == device ? 0 : p.latency_ns[size_t(device) * p.num_devices + other];
        s.earliest[next] = std::max(s.earliest[next], finish + latency);
    }
}

// A host thread launches steps in the order's order and never waits. When it has done so, 0 for what nobody launches.
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

// In the blocking model every device works through its steps in the order's order, so memory is exact on the way.
template <bool kMemory, bool kHosts>
int64_t run_blocking(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                     SimulationScratch& s, std::span<int64_t> start, std::span<int64_t> finish) {
    const bool signals = p.signals && !p.controls.values.empty();
    Memory memory{p, device_of, s};
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

// Positions of the ops of each device, ascending: in time order too, since a device runs them one by one.
void group_ops_by_device(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                         SimulationScratch& s) {
    std::ranges::fill(s.device_op_begin, 0);
    for (int32_t op = 0; op < p.num_ops; ++op) ++s.device_op_begin[device_of[op] + 1];
    for (int32_t d = 0; d < p.num_devices; ++d) s.device_op_begin[d + 1] += s.device_op_begin[d];
    std::ranges::copy(s.device_op_begin.begin(), s.device_op_begin.end() - 1, s.next_of_device.begin());
    for (size_t k = 0; k < order.size(); ++k)
        if (order[k].is_op()) s.device_ops[s.next_of_device[device_of[order[k].id]]++] = static_cast<int32_t>(k);
}

// Starts of the transfers into each device and finishes of those out of it, sorted.
void group_link_events_by_device(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                                 SimulationScratch& s, std::span<const int64_t> start,
                                 std::span<const int64_t> finish) {
    const auto each_event = [&](auto&& visit) {
        for (size_t k = 0; k < order.size(); ++k) {
            if (order[k].is_op()) continue;
            visit(order[k].destination, SimulationScratch::Event{start[k], int64_t(2 * k)});
            visit(device_of[p.producer[order[k].id]], SimulationScratch::Event{finish[k], int64_t(2 * k + 1)});
        }
    };
    std::ranges::fill(s.link_event_begin, 0);
    each_event([&](int32_t device, const auto&) { ++s.link_event_begin[device + 1]; });
    for (int32_t d = 0; d < p.num_devices; ++d) s.link_event_begin[d + 1] += s.link_event_begin[d];
    std::ranges::copy(s.link_event_begin.begin(), s.link_event_begin.end() - 1, s.next_of_device.begin());
    each_event([&](int32_t device, const auto& event) { s.link_events[s.next_of_device[device]++] = event; });
    for (int32_t d = 0; d < p.num_devices; ++d)
        std::sort(s.link_events.begin() + s.link_event_begin[d], s.link_events.begin() + s.link_event_begin[d + 1]);
}

// Memory in the overlapped model: per device its ops' events, already in time order, are merged with the sorted events
// of the transfers that touch it. Devices do not share counters, so one after the other is exact.
void replay_memory(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                   SimulationScratch& s, std::span<const int64_t> start, std::span<const int64_t> finish) {
    Memory memory{p, device_of, s};
    group_ops_by_device(p, device_of, order, s);
    group_link_events_by_device(p, device_of, order, s, start, finish);
    using Event = SimulationScratch::Event;
    for (int32_t device = 0; device < p.num_devices; ++device) {
        const Event* next = s.link_events.data() + s.link_event_begin[device];
        const Event* const end = s.link_events.data() + s.link_event_begin[device + 1];
        const auto catch_up = [&](const Event& until) {
            for (; next != end && *next < until; ++next) {
                const Step& step = order[size_t(next->rank / 2)];
                next->rank % 2 == 0 ? memory.start_transfer(step) : memory.finish_transfer(step);
            }
        };
        for (int32_t i = s.device_op_begin[device]; i < s.device_op_begin[device + 1]; ++i) {
            const int32_t k = s.device_ops[i];
            catch_up({start[k], int64_t(2) * k});
            memory.start_op(order[k].id, device);
            catch_up({finish[k], int64_t(2) * k + 1});
            memory.finish_op(order[k].id, device);
        }
        catch_up({INT64_MAX, INT64_MAX});
    }
}

void reset(const Problem& p, SimulationScratch& s) {
    std::ranges::fill(s.clock, 0);
    std::ranges::fill(s.host_clock, 0);
    if (p.signals) std::ranges::fill(s.earliest, 0);
}

void prepare_memory(const Problem& p, std::span<const int32_t> device_of, SimulationScratch& s) {
    count_uses(p, device_of, s);
    load_residents(p, device_of, s);
    std::ranges::copy(s.in_use, s.peak.begin());
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
    const size_t most_steps = problem.num_ops + size_t(problem.num_tensors) * (problem.num_devices - 1);
    if (!problem.blocking) {
        step_start.resize(most_steps);
        step_finish.resize(most_steps);
        link_events.resize(2 * most_steps);
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
