#include "simulate/lifetimes.hpp"

#include "simulate/memory.hpp"

namespace placewright {

namespace {

constexpr int32_t kNever = -1;

struct Span {
    int32_t begin = kNever, end = kNever;
};

// Records the positions at which memory is allocated and freed.
struct Log {
    std::span<Span> spans;  // [tensor][device]
    int32_t num_devices;
    int32_t place = 0;

    void at(int64_t step) { place = static_cast<int32_t>(step); }
    void begin(int32_t tensor, int32_t device) { spans[index(tensor, device)].begin = place; }
    void end(int32_t tensor, int32_t device) { spans[index(tensor, device)].end = place; }
    size_t index(int32_t tensor, int32_t device) const { return size_t(tensor) * size_t(num_devices) + size_t(device); }
};

}  // namespace

// Blocking transfers are replayed like overlapped ones: on every device the events are in time order, and events at
// equal times are in the order of their steps.
std::vector<Lifetime> lifetimes(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order) {
    SimulationScratch scratch(p);
    scratch.link_events.resize(2 * order.size());
    std::vector<int64_t> start(order.size()), finish(order.size());
    simulate_time(p, device_of, order, scratch, start, finish);
    std::vector<Span> spans(size_t(p.num_tensors) * size_t(p.num_devices));
    const Log log{spans, p.num_devices};
    prepare_memory(p, device_of, scratch);
    replay_memory(p, device_of, order, scratch, start, finish, log);
    std::vector<Lifetime> result;
    const auto add = [&](int32_t tensor, int32_t device) {
        const auto [begin, end] = spans[log.index(tensor, device)];
        result.push_back({tensor, device, begin, end});
    };
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor)
        if (p.allocated_bytes[tensor] > 0) add(tensor, device_of[p.producer[tensor]]);
    for (const Step& step : order)
        if (!step.is_op()) add(step.id, step.destination);
    return result;
}

}  // namespace placewright
