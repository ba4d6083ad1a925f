// Memory in use while a simulation runs: the bytes that count on each device, and the interval in which they count.
// docs/semantics.md has the rules.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>

#include "simulate/simulate.hpp"

namespace placewright {

// Counts, per (tensor, device), the uses that must end before its memory there is freed. Views and in-place results
// count on their storage on the producer's device; a transfer is a consumer on the sending device. A live-out tensor
// has one more use, which never ends.
inline void count_uses(const Problem& p, std::span<const int32_t> device_of, SimulationScratch& s) {
    const int32_t D = p.num_devices;
    std::ranges::fill(s.uses_left, 0);
    int32_t* uses = s.uses_left.data();
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor) {
        const int32_t home = device_of[p.producer[tensor]];
        int32_t* at_home = uses + size_t(p.storage[tensor]) * D + home;
        int32_t* copies = uses + size_t(tensor) * D;
        *at_home += p.live_out[tensor];
        for (int32_t consumer : p.consumers[tensor]) {
            const int32_t device = device_of[consumer];
            const bool remote = device != home;
            *at_home += remote ? copies[device] == 0 : 1;
            copies[device] += remote;
        }
    }
}

// Sets in_use to the bytes of the residents on each device.
inline void load_residents(const Problem& p, std::span<const int32_t> device_of, SimulationScratch& s) {
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

// A log that ignores all events.
struct NoLog {
    void at(int64_t) {}
    void begin(int32_t, int32_t) {}
    void end(int32_t, int32_t) {}
};

// Memory bookkeeping of one device event; the caller guarantees the order of events. The log receives the positions in
// the order at which a tensor's memory on a device is allocated and freed.
template <class Log = NoLog>
struct Memory {
    const Problem& p;
    std::span<const int32_t> device_of;
    SimulationScratch& s;
    [[no_unique_address]] Log log{};
    static constexpr bool kLogs = !std::is_same_v<Log, NoLog>;

    void allocate(int32_t device, int64_t bytes) {
        s.in_use[device] += bytes;
        s.peak[device] = std::max(s.peak[device], s.in_use[device]);
    }
    void start_op(int32_t op, int32_t device) {
        allocate(device, p.output_bytes[op] + p.workspace_bytes[op]);
        if constexpr (kLogs)
            for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
                log.begin(tensor, device);
    }

    void release_home(int32_t tensor, int32_t home) {
        const int32_t storage = p.storage[tensor];
        if (--s.uses_left[size_t(storage) * p.num_devices + home] > 0) return;
        s.in_use[home] -= p.allocated_bytes[storage];
        log.end(storage, home);
    }
    void finish_op(int32_t op, int32_t device) {
        int64_t freed = p.workspace_bytes[op];
        for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
            if (s.uses_left[size_t(tensor) * p.num_devices + device] == 0 && p.storage[tensor] == tensor) {
                freed += p.allocated_bytes[tensor];
                log.end(tensor, device);
            }
        for (int32_t tensor : p.inputs[op]) {
            const bool local = device_of[p.producer[tensor]] == device;
            const int32_t held = local ? p.storage[tensor] : tensor;
            const int64_t bytes = local ? p.allocated_bytes[held] : p.copy_bytes[held];
            const bool is_last = --s.uses_left[size_t(held) * p.num_devices + device] == 0;
            freed += is_last ? bytes : 0;
            if constexpr (kLogs)
                if (is_last) log.end(held, device);
        }
        s.in_use[device] -= freed;
    }
    void start_transfer(const Step& step) {
        allocate(step.destination, p.copy_bytes[step.id]);
        log.begin(step.id, step.destination);
    }
    void finish_transfer(const Step& step) { release_home(step.id, device_of[p.producer[step.id]]); }
};

inline void prepare_memory(const Problem& p, std::span<const int32_t> device_of, SimulationScratch& s) {
    count_uses(p, device_of, s);
    load_residents(p, device_of, s);
    std::ranges::copy(s.in_use, s.peak.begin());
}

// Collects the positions of the ops of each device, ascending. This is also time order, since a device runs them one by
// one.
inline void group_ops_by_device(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                                SimulationScratch& s) {
    std::ranges::fill(s.device_op_begin, 0);
    for (int32_t op = 0; op < p.num_ops; ++op) ++s.device_op_begin[device_of[op] + 1];
    for (int32_t d = 0; d < p.num_devices; ++d) s.device_op_begin[d + 1] += s.device_op_begin[d];
    std::ranges::copy(s.device_op_begin.begin(), s.device_op_begin.end() - 1, s.next_of_device.begin());
    for (size_t k = 0; k < order.size(); ++k)
        if (order[k].is_op()) s.device_ops[s.next_of_device[device_of[order[k].id]]++] = static_cast<int32_t>(k);
}

// Collects the starts of the transfers into each device and the finishes of those out of it, sorted by time.
inline void group_link_events_by_device(const Problem& p, std::span<const int32_t> device_of,
                                        std::span<const Step> order, SimulationScratch& s,
                                        std::span<const int64_t> start, std::span<const int64_t> finish) {
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

// Replays memory in the overlapped model: per device, merges the events of its ops, already in time order, with the
// sorted events of the transfers that touch it. Devices share no counters, so replaying one after another is exact.
template <class Log = NoLog>
void replay_memory(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                   SimulationScratch& s, std::span<const int64_t> start, std::span<const int64_t> finish,
                   Log log = {}) {
    Memory<Log> memory{p, device_of, s, log};
    group_ops_by_device(p, device_of, order, s);
    group_link_events_by_device(p, device_of, order, s, start, finish);
    using Event = SimulationScratch::Event;
    for (int32_t device = 0; device < p.num_devices; ++device) {
        const Event* next = s.link_events.data() + s.link_event_begin[device];
        const Event* const end = s.link_events.data() + s.link_event_begin[device + 1];
        const auto catch_up = [&](const Event& until) {
            for (; next != end && *next < until; ++next) {
                const Step& step = order[size_t(next->rank / 2)];
                memory.log.at(next->rank / 2);
                next->rank % 2 == 0 ? memory.start_transfer(step) : memory.finish_transfer(step);
            }
        };
        for (int32_t i = s.device_op_begin[device]; i < s.device_op_begin[device + 1]; ++i) {
            const int32_t k = s.device_ops[i];
            catch_up({start[k], int64_t(2) * k});
            memory.log.at(k);
            memory.start_op(order[k].id, device);
            catch_up({finish[k], int64_t(2) * k + 1});
            memory.log.at(k);
            memory.finish_op(order[k].id, device);
        }
        catch_up({INT64_MAX, INT64_MAX});
    }
}

}  // namespace placewright
