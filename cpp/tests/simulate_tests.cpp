#include <set>
#include <tuple>

#include "cases.hpp"
#include "construct/transfers.hpp"
#include "oracle.hpp"
#include "simulate/lifetimes.hpp"

namespace placewright::testing {

namespace {

TEST("times and peaks equal those of the slow replay, in both transfer models") {
    for_each_problem(300, [](const auto& p, uint64_t seed) {
        DecodeScratch decoded(*p);
        decode(*p, random_keys(*p, seed), decoded);
        const auto order = decoded_order(decoded);
        if (order.size() > 2000) return;
        SimulationScratch scratch(*p);
        std::vector<int64_t> start(order.size()), finish(order.size());
        const Outcome outcome = simulate(*p, decoded.device_of, order, scratch, start, finish);
        const Times expected = ExpectedTimes(*p, decoded.device_of, order).times();
        CHECK(start == expected.start);
        CHECK(finish == expected.finish);
        CHECK(outcome.step_time_ns == expected.step_time_ns);
        const auto peaks = ExpectedPeaks(*p, decoded.device_of, order, expected).peaks();
        CHECK(scratch.peak == peaks);
        CHECK(outcome.peak_memory_bytes == std::ranges::max(peaks));
        int64_t over = 0;
        for (size_t d = 0; d < peaks.size(); ++d) over += std::max<int64_t>(0, peaks[d] - p->memory_limit[d]);
        CHECK(outcome.bytes_over_limit == over);
    });
}

// Returns the most bytes that tensors in memory, workspaces and residents take together on each device.
std::vector<int64_t> peaks_of(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                              std::span<const int64_t> start, std::span<const int64_t> finish) {
    using Event = std::tuple<int64_t, int64_t, int64_t>;  // time, 2 * place (+ 1 at the finish), bytes
    std::vector<std::vector<Event>> events(size_t(p.num_devices));
    const auto hold = [&](int32_t device, int64_t bytes, int32_t begin, int32_t end) {
        events[size_t(device)].push_back({start[size_t(begin)], 2 * begin, bytes});
        if (end >= 0) events[size_t(device)].push_back({finish[size_t(end)], 2 * end + 1, -bytes});
    };
    for (const auto& [tensor, device, begin, end] : lifetimes(p, device_of, order)) {
        const bool is_home = device == device_of[size_t(p.producer[size_t(tensor)])];
        hold(device, is_home ? p.allocated_bytes[size_t(tensor)] : p.copy_bytes[size_t(tensor)], begin, end);
    }
    std::set<std::pair<int32_t, int32_t>> residents;
    for (int32_t k = 0; k < int32_t(order.size()); ++k) {
        const int32_t op = order[size_t(k)].id;
        if (!order[size_t(k)].is_op()) continue;
        hold(device_of[size_t(op)], p.workspace_bytes[size_t(op)], k, k);
        for (int32_t resident : p.residents[op]) residents.insert({device_of[size_t(op)], resident});
    }
    std::vector<int64_t> peaks(size_t(p.num_devices));
    for (const auto& [device, resident] : residents) peaks[size_t(device)] += p.resident_bytes[size_t(resident)];
    for (size_t device = 0; device < peaks.size(); ++device) {
        std::ranges::sort(events[device]);
        int64_t in_use = peaks[device];
        for (const auto& [time, rank, bytes] : events[device]) peaks[device] = std::max(peaks[device], in_use += bytes);
    }
    return peaks;
}

TEST("what lies in memory from when to when makes up the peaks, in both transfer models") {
    for_each_problem(300, [](const auto& p, uint64_t seed) {
        DecodeScratch decoded(*p);
        decode(*p, random_keys(*p, seed), decoded);
        const auto order = decoded_order(decoded);
        SimulationScratch scratch(*p);
        std::vector<int64_t> start(order.size()), finish(order.size());
        simulate(*p, decoded.device_of, order, scratch, start, finish);
        CHECK(scratch.peak == peaks_of(*p, decoded.device_of, order, start, finish));
    });
}

TEST("time alone, time and memory, and what a search compares agree, also on used scratch") {
    for_each_problem(200, [](const auto& p, uint64_t seed) {
        DecodeScratch decoded(*p);
        SimulationScratch scratch(*p);
        for (uint64_t round = 0; round < 3; ++round) {
            decode(*p, random_keys(*p, seed + 1000 * round), decoded);
            const auto order = decoded_order(decoded);
            const Outcome whole = simulate(*p, decoded.device_of, order, scratch);
            CHECK(simulate_time(*p, decoded.device_of, order, scratch) == whole.step_time_ns);
            const Fitness found = evaluate(*p, decoded.device_of, order, scratch);
            const Fitness expected =
                p->fitness(whole.bytes_over_limit, whole.step_time_ns, p->needs_memory ? whole.peak_memory_bytes : 0);
            CHECK(found == expected);
            SimulationScratch fresh(*p);
            CHECK(simulate(*p, decoded.device_of, order, fresh).peak_memory_bytes == whole.peak_memory_bytes);
        }
    });
}

TEST("an order that lacks, repeats or misplaces a step is refused") {
    for_each_problem(150, [](const auto& p, uint64_t seed) {
        DecodeScratch decoded(*p);
        decode(*p, random_keys(*p, seed), decoded);
        const auto valid = decoded_order(decoded);
        if (valid.size() > 2000) return;
        const RandomStream random(seed, 2, 0, 0);
        const size_t at = random.below(0, uint32_t(valid.size()));
        const auto changed = [&](auto change) {
            std::vector<Step> order(valid.begin(), valid.end());
            change(order);
            return is_valid(*p, decoded.device_of, order);
        };
        CHECK(changed([](auto&) {}));
        CHECK(!changed([&](auto& order) { order.erase(order.begin() + ptrdiff_t(at)); }));
        CHECK(!changed([&](auto& order) { order.push_back(order[at]); }));
        CHECK(!changed([&](auto& order) { order[at] = Step::op(p->num_ops); }));
        CHECK(!changed([&](auto& order) { order[at] = {p->num_tensors, 0}; }));
        CHECK(!changed([&](auto& order) { order[at] = {-1, -1}; }));
        CHECK(!changed([&](auto& order) { order.insert(order.begin() + ptrdiff_t(at), {0, p->num_devices}); }));
        for (const Step& step : valid) {
            const int32_t op = step.is_op() ? step.id : p->producer[step.id];
            if (step.is_op() && p->inputs[op].empty() && p->predecessors[op].empty()) continue;
            CHECK(!changed([&](auto& order) {  // before all it depends on
                std::erase_if(order,
                              [&](const Step& s) { return s.id == step.id && s.destination == step.destination; });
                order.insert(order.begin(), step);
            }));
        }
        for (int32_t op = 0; op < p->num_ops; ++op) {
            if (p->group[op] == op || p->num_devices == 1) continue;
            auto apart = decoded.device_of;  // the transfers fit the placement, so only the group is wrong
            apart[size_t(op)] = (apart[size_t(op)] + 1) % p->num_devices;
            CHECK(!is_valid(*p, apart, with_transfers(*p, apart, ops_of(valid), TransferTiming::late)));
        }
        auto elsewhere = decoded.device_of;
        elsewhere.front() = p->num_devices;
        CHECK(!is_valid(*p, elsewhere, valid));
        elsewhere.front() = -1;
        CHECK(!is_valid(*p, elsewhere, valid));
        elsewhere.pop_back();
        CHECK(!is_valid(*p, elsewhere, valid));
    });
}

}  // namespace

}  // namespace placewright::testing
