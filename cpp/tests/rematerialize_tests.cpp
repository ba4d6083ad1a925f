#include "cases.hpp"
#include "rematerialize/search.hpp"

namespace placewright::testing {

namespace {

constexpr double kShares[] = {0.9, 0.75, 0.6, 0.45};

bool writes_in_place(const Problem& p, int32_t op) {
    for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
        if (p.producer[p.storage[tensor]] != op) return true;
    return false;
}

// Ops that write in place run once, and so does every seventh; no op that reads what they overwrite can run again
// afterwards.
std::vector<int32_t> again_before(const Problem& p) {
    std::vector<int32_t> found(size_t(p.num_ops), p.num_ops);
    for (int32_t op = 0; op < p.num_ops; ++op) {
        if (op % 7 == 3 || writes_in_place(p, op)) found[size_t(op)] = -1;
        for (int32_t later = op + 1; later < p.num_ops && found[size_t(op)] == p.num_ops; ++later)
            for (int32_t tensor = p.output_begin[later]; tensor < p.output_begin[later + 1]; ++tensor)
                for (int32_t read : p.inputs[op])
                    if (p.producer[p.storage[tensor]] != later && p.storage[read] == p.storage[tensor])
                        found[size_t(op)] = later;
    }
    return found;
}

// Computes the cost by definition, run by run: who reads what, and until when it is held. Fails if something is read
// that is not there.
RunsCost replayed(const OrderedOps& ops, const OpRuns& runs) {
    RunsCost cost;
    struct Held {
        int64_t bytes;
        size_t begin, end;
    };
    std::vector<Held> held;
    std::vector<int32_t> latest(size_t(ops.num_storages()), -1);
    std::vector<size_t> first_at(size_t(ops.num_storages()));
    std::vector<uint8_t> has_run(size_t(ops.num_ops())), has_left(size_t(ops.num_storages()));
    int32_t now = 0;
    for (size_t at = 0; at < runs.size(); ++at) {
        const OpRun& run = runs[at];
        if (!ops.is_op(run.place)) {
            // Memory leaves once, as the first run made it; memory that comes back has left.
            const auto storage = size_t(ops.moved_storage(run.place));
            CHECK(ops.may_move(ops.moved_storage(run.place)) && !run.is_first && latest[storage] >= 0);
            CHECK(has_left[storage] == ops.is_back(run.place));
            if (ops.is_leave(run.place)) CHECK(held[size_t(latest[storage])].begin == first_at[storage]);
            has_left[storage] = 1;
        } else
            CHECK(run.is_first ? run.place == now : has_run[size_t(run.place)] && now <= ops.again_until[run.place]);
        now += run.is_first;
        if (ops.is_op(run.place)) has_run[size_t(run.place)] = 1;
        if (run.is_first)
            for (int32_t storage : ops.makes[run.place]) first_at[size_t(storage)] = at;
        cost.time_ns += ops.time_ns[run.place];
        for (int32_t storage : ops.reads[run.place]) {
            CHECK(latest[size_t(storage)] >= 0);
            size_t& end = held[size_t(latest[size_t(storage)])].end;
            end = std::max(end, at);
        }
        int32_t bit = 0;
        for (int32_t storage : ops.makes[run.place]) {
            const bool gives = run.is_first || (run.kept >> bit & 1);
            ++bit;
            if (gives) latest[size_t(storage)] = static_cast<int32_t>(held.size());
            held.push_back({ops.bytes[storage], at, gives && ops.stays[storage] ? runs.size() : at});
        }
    }
    CHECK(now == ops.num_ops());
    for (size_t at = 0; at < runs.size(); ++at) {
        int64_t level = ops.resident_bytes + ops.scratch(runs[at].place, runs[at].is_first);
        for (const Held& each : held) level += each.begin <= at && at <= each.end ? each.bytes : 0;
        cost.peak_bytes = std::max(cost.peak_bytes, level);
    }
    return cost;
}

}  // namespace

TEST("runs under a memory limit are runs of their ops, and cost what the search says") {
    int32_t kept = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        current_seed = seed;
        RandomProblemConfig config = varied(seed);
        config.num_devices = 1;
        config.num_ops = 5 + static_cast<int32_t>(seed % 45);
        const auto free = random_problem(config, seed);
        const auto order = captured_order(*free);
        OpRuns once;
        for (int32_t place = 0; place < free->num_ops; ++place) once.push_back({place, true, OpRun::kAll});
        const OrderedOps ops(*free, order, again_before(*free));
        config.memory_limit = int64_t(kShares[seed % 4] * double(replayed(ops, once).peak_bytes));
        const auto limited = random_problem(config, seed);
        RematerializationSearch search(limited, order, again_before(*limited), seed);
        search.advance(40);
        const RunsCost cost = replayed(search.ops(), search.best());
        CHECK(cost.time_ns == search.best_fitness().objective);
        CHECK(cost.peak_bytes == search.best_fitness().other);
        kept += search.best_fitness().bytes_over_limit == 0;
    }
    CHECK(kept > 10);
}

TEST("memory that is moved leaves once and comes back, and the limits of device and host are kept") {
    int32_t kept = 0, moving = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        current_seed = seed;
        RandomProblemConfig config = varied(seed);
        config.num_devices = 1;
        config.num_ops = 5 + static_cast<int32_t>(seed % 45);
        const auto free = random_problem(config, seed);
        const auto order = captured_order(*free);
        OpRuns once;
        for (int32_t place = 0; place < free->num_ops; ++place) once.push_back({place, true, OpRun::kAll});
        const RunsCost whole = replayed(OrderedOps(*free, order, again_before(*free)), once);
        config.memory_limit = int64_t(kShares[seed % 4] * double(whole.peak_bytes));
        const auto limited = random_problem(config, seed);
        std::vector<uint8_t> may_move(size_t(limited->num_tensors));
        for (int32_t tensor = 0; tensor < limited->num_tensors; ++tensor)
            may_move[size_t(tensor)] = limited->storage[size_t(tensor)] == tensor && !limited->live_out[size_t(tensor)];
        for (int32_t tensor = 0; tensor < limited->num_tensors; ++tensor) {
            const int32_t root = limited->storage[size_t(tensor)];
            if (limited->producer[size_t(root)] != limited->producer[size_t(tensor)]) may_move[size_t(root)] = 0;
        }
        HostMemory host{1, 2, int64_t{1} << (28 + seed % 6), int64_t{1} << (28 + seed % 5)};
        if (seed % 3 == 0) host.limit = whole.peak_bytes / 3;
        RematerializationSearch search(limited, order, again_before(*limited), seed, may_move, host);
        search.advance(60);
        const RunsCost cost = replayed(search.ops(), search.best());
        CHECK(cost.time_ns <= search.best_fitness().objective);  // the objective includes waits for links
        CHECK(cost.peak_bytes == search.best_fitness().other);
        kept += search.best_fitness().bytes_over_limit == 0;
        for (const OpRun& run : search.best()) moving += search.ops().is_leave(run.place);
    }
    CHECK(kept > 20);
    CHECK(moving > 20);
}

TEST("where a search for runs pauses does not change where it leads") {
    RandomProblemConfig config;
    config.num_devices = 1;
    config.num_ops = 60;
    config.memory_limit = 700;
    const auto problem = random_problem(config, 5);
    RematerializationSearch whole(problem, captured_order(*problem), again_before(*problem), 1);
    RematerializationSearch parts(problem, captured_order(*problem), again_before(*problem), 1);
    whole.advance(60);
    while (parts.evaluations() < 60) parts.advance(60, 7);
    CHECK(whole.best_fitness() == parts.best_fitness());
}

}  // namespace placewright::testing
