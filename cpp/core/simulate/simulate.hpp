// Simulation of a given order: times in both transfer models and exact memory (docs/semantics.md).
#pragma once

#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// Scratch memory of one thread, sized for one problem, so that an evaluation allocates nothing.
struct SimulationScratch {
    explicit SimulationScratch(const Problem& problem);

    std::vector<int64_t> clock;         // [device] time at which it is free
    std::vector<int64_t> host_clock;    // [host] time at which it has launched everything so far
    std::vector<int64_t> link_free;     // [source][destination]
    std::vector<int64_t> earliest;      // [op] earliest start that signals allow
    std::vector<int64_t> finish;        // [op], overlapped model
    std::vector<int64_t> arrival;       // [tensor][device], overlapped model
    std::vector<int32_t> uses_left;     // [tensor][device] uses that have not ended
    std::vector<int64_t> in_use;        // [device] bytes
    std::vector<int64_t> peak;          // [device] bytes
    std::vector<uint64_t> resident_on;  // [resident] mask of devices
    std::vector<int64_t> step_start;    // [step], overlapped model
    std::vector<int64_t> step_finish;   // [step], overlapped model
    struct Event {
        int64_t time;
        int64_t rank;  // 2 * position, plus 1 for a finish

        auto operator<=>(const Event&) const = default;
    };
    std::vector<int32_t> device_op_begin;   // [device + 1]
    std::vector<int32_t> device_ops;        // positions of the ops of each device
    std::vector<int32_t> link_event_begin;  // [device + 1]
    std::vector<Event> link_events;         // events of the transfers that touch each device, sorted
    std::vector<int32_t> next_of_device;    // [device] next free place while grouping
};

struct Outcome {
    int64_t step_time_ns = 0;
    int64_t peak_memory_bytes = 0;
    int64_t bytes_over_limit = 0;
};

// Returns the step time of an order; writes start and finish per step if the spans are not empty.
int64_t simulate_time(const Problem& problem, std::span<const int32_t> device_of, std::span<const Step> order,
                      SimulationScratch& scratch, std::span<int64_t> start = {}, std::span<int64_t> finish = {});

// Returns time and memory of an order; leaves the peak of each device in scratch.peak.
Outcome simulate(const Problem& problem, std::span<const int32_t> device_of, std::span<const Step> order,
                 SimulationScratch& scratch, std::span<int64_t> start = {}, std::span<int64_t> finish = {});

// Returns the value that a search compares. Computes memory only if it can decide (Problem::needs_memory); otherwise
// ties on memory are settled among final candidates, which are always simulated in full.
Fitness evaluate(const Problem& problem, std::span<const int32_t> device_of, std::span<const Step> order,
                 SimulationScratch& scratch);

// Throws std::invalid_argument unless `order` holds every op once and exactly the transfers that the placement needs,
// each once, every step comes after what it depends on, and every op is on an allowed device, that of its group.
void check_order(const Problem& problem, std::span<const int32_t> device_of, std::span<const Step> order);

}  // namespace placewright
