#include <bit>
#include <map>

#include "cases.hpp"
#include "improve/disjunctive_graph.hpp"

namespace placewright::testing {

namespace {

using Kind = Edit::Kind;

// Returns a graph that holds the solution to which random keys decode.
DisjunctiveGraph random_schedule(const std::shared_ptr<const Problem>& p, uint64_t seed) {
    DecodeScratch decoded(*p);
    decode(*p, random_keys(*p, seed), decoded);
    std::vector<uint8_t> early(p->num_tensors);
    for (size_t tensor = 0; tensor < early.size(); ++tensor)
        early[tensor] = RandomStream(seed, 2, 0, 0).bits(tensor) % 2;
    DisjunctiveGraph graph(p);
    graph.load(decoded.device_of, ops_of(decoded_order(decoded)), early);
    return graph;
}

// Returns a place to which the op can go alone.
int32_t random_place(const Problem& p, const DisjunctiveGraph& graph, int32_t op, const RandomStream& stream) {
    int32_t first = 0, last = p.num_ops - 1;
    for (int32_t tensor : p.inputs[op]) first = std::max(first, graph.place_of(p.producer[tensor]) + 1);
    for (int32_t before : p.predecessors[op]) first = std::max(first, graph.place_of(before) + 1);
    for (int32_t edge : p.edges[op]) last = std::min(last, graph.place_of(edge / 2) - 1);
    return first + static_cast<int32_t>(stream.below(1, static_cast<uint32_t>(last - first + 1)));
}

// Returns edits: groups go to random devices, one op to another place, and the sending of one tensor changes.
std::vector<Edit> random_edits(const Problem& p, const DisjunctiveGraph& graph, const RandomStream& stream) {
    std::vector<Edit> edits;
    const auto random_op = [&](uint64_t index) {
        return static_cast<int32_t>(stream.below(index, uint32_t(p.num_ops)));
    };
    if (stream.bits(10) % 2 == 0)
        for (uint64_t i = 0; i < stream.bits(11) % 4; ++i) {
            const int32_t first = p.group[random_op(20 + 2 * i)];
            const uint64_t allowed = p.allowed[first] & p.everywhere();
            uint64_t mask = allowed;
            for (uint32_t skip = stream.below(21 + 2 * i, uint32_t(std::popcount(allowed))); skip > 0; --skip)
                mask &= mask - 1;
            for (int32_t op = 0; op < p.num_ops; ++op)
                if (p.group[op] == first) edits.push_back({Kind::device, op, std::countr_zero(mask)});
        }
    if (stream.bits(12) % 2 == 0) {
        const int32_t op = random_op(13);
        edits.push_back({Kind::place, op, random_place(p, graph, op, stream)});
    }
    if (p.num_tensors > 0 && stream.bits(14) % 3 == 0) {
        const auto tensor = static_cast<int32_t>(stream.below(15, uint32_t(p.num_tensors)));
        edits.push_back({Kind::sending, tensor, 1 - graph.early()[size_t(tensor)]});
    }
    return edits;
}

int64_t simulated(const Problem& p, const DisjunctiveGraph& graph) {
    SimulationScratch scratch(p);
    std::vector<Step> order;
    graph.write_order(order);
    CHECK(is_valid(p, graph.device_of(), order));
    return simulate_time(p, graph.device_of(), order, scratch);
}

// Returns whether heads and tails equal those of a graph that has just loaded the same solution.
bool is_as_if_loaded(const std::shared_ptr<const Problem>& p, const DisjunctiveGraph& graph) {
    DisjunctiveGraph fresh(p);
    fresh.load(graph.device_of(), graph.ops(), graph.early());
    for (int32_t op = 0; op < p->num_ops; ++op)
        if (fresh.start_ns(op) != graph.start_ns(op) || fresh.through_ns(op) != graph.through_ns(op) ||
            fresh.previous_on_device(op) != graph.previous_on_device(op))
            return false;
    return fresh.step_time_ns() == graph.step_time_ns();
}

TEST("after every move the step time is that of a whole simulation, and taken back it is as before") {
    for_each_problem(96, [](const auto& p, uint64_t seed) {
        DisjunctiveGraph graph = random_schedule(p, seed);
        CHECK(graph.step_time_ns() == simulated(*p, graph));
        for (uint64_t move = 0; move < 30; ++move) {
            const RandomStream stream(seed, 3, move, 0);
            const int64_t before = graph.step_time_ns();
            CHECK(graph.try_move(random_edits(*p, graph, stream), INT64_MAX));
            CHECK(graph.step_time_ns() == simulated(*p, graph));
            if (stream.bits(30) % 2 == 0) {
                graph.keep();
            } else {
                graph.undo();
                CHECK(graph.step_time_ns() == before && before == simulated(*p, graph));
            }
            if (p->num_ops < 100 || move == 29) CHECK(is_as_if_loaded(p, graph));
        }
    });
}

TEST("a move is given up exactly when its step time would exceed the limit") {
    for_each_problem(96, [](const auto& p, uint64_t seed) {
        DisjunctiveGraph graph = random_schedule(p, seed);
        for (uint64_t move = 0; move < 40; ++move) {
            const RandomStream stream(seed, 4, move, 0);
            const std::vector<Edit> edits = random_edits(*p, graph, stream);
            const int64_t before = graph.step_time_ns();
            graph.try_move(edits, INT64_MAX);
            const int64_t after = graph.step_time_ns();
            graph.undo();
            const int64_t limit = std::max(before, after) - (stream.bits(31) % 2 == 0);
            const bool within = graph.try_move(edits, limit);
            CHECK(within == (after <= limit));
            within ? graph.keep() : graph.undo();
            CHECK(graph.step_time_ns() == (within ? after : before));
        }
        CHECK(is_as_if_loaded(p, graph));
    });
}

// Uses schedules from which single moves gain little, as an annealing meets them.
TEST("most moves to other devices that end too late are told without trying them, and hardly any others") {
    int64_t too_late = 0, refused = 0, wrongly = 0;
    for_each_problem(288, [&](const auto& p, uint64_t seed) {
        if (p->has_hosts) return;  // the estimate ignores launches, and refuses less where they delay
        DisjunctiveGraph graph = random_schedule(p, seed);
        for (uint64_t move = 0; move < 600; ++move) {
            const RandomStream stream(seed, 6, move, 0);
            const std::vector<Edit> edits = random_edits(*p, graph, stream);
            const bool one_group = std::ranges::all_of(edits, [&](const Edit& e) {
                return e.kind == Kind::device && p->group[e.id] == p->group[edits[0].id];
            });
            const int64_t limit = graph.step_time_ns();
            const bool may = graph.may_end_within(edits, limit);
            const bool within = graph.try_move(edits, limit);
            within ? graph.keep() : graph.undo();
            if (std::ranges::none_of(edits, [](const Edit& e) { return e.kind == Kind::device; })) CHECK(may);
            if (move < 300 || !one_group) continue;
            too_late += !within;
            refused += !may;
            wrongly += !may && within;
        }
        CHECK(is_as_if_loaded(p, graph));
    });
    CHECK(too_late > 400 && 3 * refused > 2 * too_late && 50 * wrongly < refused);
}

// Makes single moves of either kind, most of them refused, as an annealing does.
TEST("after a long walk of single moves heads and tails are as if loaded") {
    for (uint64_t seed = 0; seed < 24; ++seed) {
        current_seed = seed;
        RandomProblemConfig config = varied(seed);
        config.num_ops = 40;
        config.num_devices = 2 + int32_t(seed % 3);
        config.free_links = config.with_groups = config.with_in_place = false;
        const auto p = random_problem(config, seed);
        DisjunctiveGraph graph = random_schedule(p, seed);
        for (uint64_t move = 0; move < 300; ++move) {
            const RandomStream stream(seed, 5, move, 0);
            const std::vector<Edit> drawn = random_edits(*p, graph, stream);
            const std::span<const Edit> edits(drawn.data(), std::min<size_t>(drawn.size(), 1));
            const bool within = graph.try_move(edits, graph.step_time_ns() + int64_t(stream.below(32, 40)));
            within ? graph.keep() : graph.undo();
            CHECK(is_as_if_loaded(p, graph));
        }
    }
}

TEST("what surely stays within the limits does, and with room for everything everything surely does") {
    int64_t sure = 0, within_limits = 0;
    for_each_problem(96, [&](const auto& p, uint64_t seed) {
        DisjunctiveGraph graph = random_schedule(p, seed);
        SimulationScratch scratch(*p);
        std::vector<Step> order;
        for (uint64_t move = 0; move < 30; ++move) {
            graph.try_move(random_edits(*p, graph, RandomStream(seed, 6, move, 0)), INT64_MAX);
            graph.write_order(order);
            const bool within = simulate(*p, graph.device_of(), order, scratch).bytes_over_limit == 0;
            CHECK(within || !graph.is_surely_within_limits());
            CHECK(p->needs_memory || p->minimize_memory || graph.is_surely_within_limits());
            sure += p->needs_memory && graph.is_surely_within_limits();
            within_limits += p->needs_memory && within;
            move % 2 == 0 ? graph.keep() : graph.undo();
        }
    });
    CHECK(0 < sure && sure < within_limits);
}

}  // namespace

}  // namespace placewright::testing
