// Random problems in the manner of REGAL's synthetic graphs (A.1.4), for the core's tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "problem/problem.hpp"

namespace placewright {

struct RandomProblemConfig {
    int32_t num_ops = 150;
    int32_t num_devices = 2;
    double edges_per_op = 2.0;
    bool blocking = true;
    bool signals = false;
    bool minimize_memory = false;
    bool free_links = true;
    bool with_residents = false;
    bool with_views = false;     // a second output is a view of part of the first
    bool with_in_place = false;  // a result takes the memory of an input, and shares its device
    bool with_groups = false;
    bool with_forbidden = false;        // groups may not use every device
    bool with_empty_tensors = false;    // as control dependencies that are transferred
    bool with_inputs = false;           // every other op takes no time
    bool with_unequal_devices = false;  // times, limits and links differ
    int64_t memory_limit = Problem::kNoLimit;
    enum Launching { nobody, host_thread, device_threads } launching = nobody;
    int64_t launch_ns = 0;  // of the first device; 1 ns more for each further one, and every third launches itself
};

inline std::shared_ptr<const Problem> random_problem(const RandomProblemConfig& config, uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto uniform = [&](int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    const auto chance = [&](double p) { return std::bernoulli_distribution(p)(random); };
    auto p = std::make_shared<Problem>();
    const int32_t n = p->num_ops = config.num_ops;
    const int32_t d = p->num_devices = config.num_devices;
    p->blocking = config.blocking;
    p->signals = config.signals;
    p->minimize_memory = config.minimize_memory;

    p->output_begin = {0};
    std::vector<std::vector<int32_t>> inputs(n), controls(n), residents(n);
    for (int32_t op = 0; op < n; ++op) {
        const int64_t outputs = chance(0.8) ? 1 : (chance(0.5) ? 2 : 0);
        for (int64_t i = 0; i < outputs; ++i) {
            const auto tensor = static_cast<int32_t>(p->storage.size());
            int64_t size = std::max<int64_t>(1, std::lround(std::normal_distribution<>(50, 10)(random)));
            if (config.with_empty_tensors && chance(0.2)) size = 0;
            const bool view = config.with_views && i == 1;
            p->storage.push_back(view ? tensor - 1 : tensor);
            p->allocated_bytes.push_back(view ? 0 : size);
            p->transfer_bytes.push_back(view ? size / 2 : size);
            p->copy_bytes.push_back(tensor % 11 == 5 ? 0 : p->transfer_bytes.back());
            p->live_out.push_back(!view && chance(0.02));
        }
        p->output_begin.push_back(static_cast<int32_t>(p->storage.size()));
        int64_t reads =
            op == 0 ? 0 : std::min<int64_t>(op, std::poisson_distribution<int64_t>(config.edges_per_op)(random));
        std::vector<int32_t> before;
        for (; reads > 0; --reads) before.push_back(static_cast<int32_t>(uniform(std::max(0, op - 200), op - 1)));
        std::ranges::sort(before);
        before.erase(std::unique(before.begin(), before.end()), before.end());
        for (int32_t source : before) {
            const int32_t first = p->output_begin[source], last = p->output_begin[source + 1];
            if (first == last || chance(0.2))
                controls[source].push_back(op);
            else
                inputs[op].push_back(static_cast<int32_t>(uniform(first, last - 1)));
        }
        if (config.with_residents && chance(0.3)) residents[op].push_back(static_cast<int32_t>(uniform(0, 4)));
        p->workspace_bytes.push_back(chance(0.1) ? uniform(1, 50) : 0);
        p->group.push_back(config.with_groups && op > 0 && chance(0.2) ? p->group[size_t(uniform(0, op - 1))] : op);
        const int32_t result = p->output_begin[op];
        const bool alone = p->group[op] == op && result < p->output_begin[op + 1] && !inputs[op].empty();
        if (config.with_in_place && alone && chance(0.3)) {
            const int32_t storage = p->storage[inputs[op].front()];
            const auto owner = std::ranges::upper_bound(p->output_begin, storage) - p->output_begin.begin() - 1;
            for (int32_t t = result; t < p->output_begin[op + 1]; ++t)
                if (p->storage[t] == result) p->storage[t] = storage;
            p->allocated_bytes[result] = p->live_out[result] = 0;
            p->group[op] = p->group[size_t(owner)];
        }
    }
    p->num_tensors = static_cast<int32_t>(p->storage.size());
    p->inputs = Csr::from_rows(inputs);
    p->controls = Csr::from_rows(controls);
    p->residents = Csr::from_rows(residents);
    p->resident_bytes = {10, 20, 30, 40, 50};
    p->allowed.assign(n, d == 64 ? ~uint64_t{0} : (uint64_t{1} << d) - 1);
    for (int32_t op = 0; op < n; ++op) {
        if (p->group[op] != op)
            p->allowed[op] = p->allowed[p->group[op]];
        else if (config.with_forbidden && chance(0.3))
            p->allowed[op] &= random() | uint64_t{1} << uniform(0, d - 1);
    }
    for (int32_t op = 0; op < n; ++op) {
        int64_t bytes = 0;
        for (int32_t tensor : inputs[op]) bytes += p->transfer_bytes[tensor];
        for (int32_t tensor = p->output_begin[op]; tensor < p->output_begin[op + 1]; ++tensor)
            bytes += p->transfer_bytes[tensor];
        const int64_t time =
            std::max<int64_t>(0, std::lround(double(bytes) * std::normal_distribution<>(1.0, 0.1)(random)));
        const bool is_idle = config.with_inputs && op % 2 == 0;
        for (int32_t device = 0; device < d; ++device)
            p->op_time_ns.push_back(is_idle ? 0 : config.with_unequal_devices ? time * (device % 3 + 1) : time);
    }
    p->latency_ns.assign(size_t(d) * d, config.free_links ? 0 : 20);
    p->inverse_bandwidth.assign(size_t(d) * d, config.free_links ? 0 : int64_t{1} << 31);
    p->memory_limit.assign(d, config.memory_limit);
    if (config.with_unequal_devices) {
        for (int64_t& latency : p->latency_ns) latency += uniform(0, 9);
        for (int64_t& inverse : p->inverse_bandwidth) inverse += uniform(0, int64_t{1} << 33);
        for (int64_t& limit : p->memory_limit) limit = chance(0.5) ? Problem::kNoLimit : limit;
    }
    if (config.launching != RandomProblemConfig::nobody)
        for (int32_t device = 0; device < d; ++device) {
            const int32_t host = config.launching == RandomProblemConfig::host_thread ? 0 : device;
            p->host_of.push_back(device % 3 == 2 ? -1 : host);
            p->launch_ns.push_back(config.launch_ns + device);
        }
    p->finish();
    return p;
}

}  // namespace placewright
