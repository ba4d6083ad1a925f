// Tests of maps of tensors to memory levels, compared with a slow reading of the model.
#include <algorithm>
#include <memory>
#include <numeric>

#include "allocations.hpp"
#include "check.hpp"
#include "memory_levels/search.hpp"
#include "memory_levels/simulate.hpp"
#include "memory_levels/state.hpp"
#include "support/random.hpp"

namespace placewright::testing {

namespace {

using memory_levels::Level;
using memory_levels::LevelProblem;
using memory_levels::LevelScratch;
using memory_levels::LevelState;

constexpr uint64_t kProblems = 200;

// Draws numbers one after another.
struct Draws {
    RandomStream stream;
    uint64_t next = 0;

    int64_t below(int64_t bound) { return stream.below(next++, uint32_t(bound)); }
};

void add_tensors(LevelProblem& p, int32_t ops, Draws& draw) {
    for (int32_t op = 0; op < ops; ++op)
        for (int64_t count = draw.below(3); count > 0; --count) {
            const bool is_weight = draw.below(2) == 0;
            p.size.push_back(draw.below(100));
            p.is_weight.push_back(is_weight);
            p.first.push_back(is_weight ? 0 : op);
            p.last.push_back(is_weight ? ops - 1 : int32_t(op + draw.below(ops - op)));
        }
}

void add_uses(LevelProblem& p, Draws& draw) {
    const auto tensors = int64_t(p.size.size());
    p.use_begin.push_back(0);
    for (size_t op = 0; op < p.overhead_ps.size(); ++op) {
        std::vector<int32_t> used;
        for (int64_t count = tensors > 0 ? draw.below(4) : 0; count > 0; --count)
            used.push_back(int32_t(draw.below(tensors)));
        std::ranges::sort(used);
        used.erase(std::unique(used.begin(), used.end()), used.end());
        for (const int32_t tensor : used) {
            p.use_tensor.push_back(tensor);
            p.use_bytes.push_back(draw.below(120));
            p.use_is_early.push_back(p.is_weight[size_t(tensor)] && draw.below(4) > 0);
        }
        p.use_begin.push_back(int32_t(p.use_tensor.size()));
    }
}

std::shared_ptr<const LevelProblem> random_level_problem(uint64_t seed, bool prefetch) {
    Draws draw{RandomStream(seed, 0, 0, 0)};
    auto p = std::make_shared<LevelProblem>();
    const auto ops = int32_t(1 + draw.below(12));
    const int64_t levels = 1 + draw.below(4);
    add_tensors(*p, ops, draw);
    int64_t rate = 1;
    for (int64_t level = 0; level < levels; ++level) {
        p->inverse_rate.push_back(rate += draw.below(40) << 18);
        p->capacity.push_back(level == levels - 1 ? 1 << 20 : draw.below(400));
        p->latency_ps.push_back(draw.below(3) * 100);
        p->is_prefetched.push_back(prefetch && level > 0 && draw.below(2) == 0);
    }
    for (int32_t op = 0; op < ops; ++op) {
        p->overhead_ps.push_back(draw.below(50));
        p->compute_ps.push_back(draw.below(2000));
        for (int64_t level = 0; level < levels; ++level)
            p->fixed_ps.push_back(draw.below(4) == 0 ? draw.below(500) : 0);
    }
    add_uses(*p, draw);
    p->finish();
    return p;
}

std::vector<Level> random_map(const LevelProblem& p, uint64_t seed) {
    std::vector<Level> levels(size_t(p.num_tensors));
    const RandomStream random(seed, 1, 0, 0);
    for (size_t tensor = 0; tensor < levels.size(); ++tensor)
        levels[tensor] = Level(random.below(tensor, uint32_t(p.num_levels)));
    return levels;
}

void for_each_level_problem(void (*check)(const std::shared_ptr<const LevelProblem>&, uint64_t)) {
    for (uint64_t seed = 0; seed < kProblems; ++seed) {
        current_seed = seed;
        check(random_level_problem(seed, seed % 3 == 0), seed);
    }
}

int64_t held(const LevelProblem& p, const std::vector<Level>& levels, size_t placed, int32_t level, int32_t op) {
    int64_t bytes = 0;
    for (size_t t = 0; t < placed; ++t)
        if (levels[t] == level && p.first[t] <= op && op <= p.last[t]) bytes += p.size[t];
    return bytes;
}

bool fits_slowly(const LevelProblem& p, const std::vector<Level>& levels, size_t placed) {
    for (int32_t level = 0; level < p.num_levels; ++level)
        for (int32_t op = 0; op < p.num_ops; ++op)
            if (held(p, levels, placed, level, op) > p.capacity[size_t(level)]) return false;
    return true;
}

// Moves each tensor to the first level, from its own on, in which it fits in addition to those before it.
std::vector<Level> rectified_slowly(const LevelProblem& p, std::vector<Level> levels) {
    for (size_t t = 0; t < levels.size(); ++t)
        while (!fits_slowly(p, levels, t + 1)) ++levels[t];
    return levels;
}

// Returns the latency without prefetching.
int64_t latency_slowly(const LevelProblem& p, const std::vector<Level>& levels) {
    int64_t total = 0;
    for (int32_t op = 0; op < p.num_ops; ++op) {
        int64_t longest = p.compute_ps[size_t(op)];
        for (int32_t level = 0; level < p.num_levels; ++level) {
            int64_t busy = p.fixed_ps[size_t(op * p.num_levels + level)];
            for (int32_t use = p.use_begin[size_t(op)]; use < p.use_begin[size_t(op) + 1]; ++use)
                if (levels[size_t(p.use_tensor[size_t(use)])] == level)
                    busy += (p.use_bytes[size_t(use)] * p.inverse_rate[size_t(level)] + (1 << 20) - 1) >> 20;
            longest = std::max(longest, busy == 0 ? 0 : busy + p.latency_ps[size_t(level)]);
        }
        total += p.overhead_ps[size_t(op)] + longest;
    }
    return total;
}

TEST("maps are rectified and timed as a slow reading of the model has it") {
    for_each_level_problem([](const auto& p, uint64_t seed) {
        const auto drawn = random_map(*p, seed);
        auto levels = drawn;
        LevelScratch scratch(*p);
        const auto outcome = memory_levels::evaluate(*p, levels, scratch);
        CHECK(levels == rectified_slowly(*p, drawn));
        if (!p->has_prefetch) CHECK(outcome.latency_ps == latency_slowly(*p, levels));
        CHECK((outcome.moved_bytes == 0) == fits_slowly(*p, drawn, drawn.size()));
        std::vector<int64_t> times(size_t(p->num_ops));
        CHECK(memory_levels::op_times(*p, levels, scratch, times) == outcome.latency_ps);
        CHECK(std::accumulate(times.begin(), times.end(), int64_t{0}) == outcome.latency_ps);
        LevelScratch counted(*p);
        memory_levels::count(*p, levels, counted);
        CHECK(memory_levels::latency_of(*p, levels, counted) == outcome.latency_ps);
    });
}

TEST("used scratch changes nothing, and evaluating allocates nothing") {
    for_each_level_problem([](const auto& p, uint64_t seed) {
        LevelScratch scratch(*p);
        auto first = random_map(*p, seed), other = random_map(*p, seed + 1000), again = first;
        const int64_t before = allocations();
        const auto outcome = memory_levels::evaluate(*p, first, scratch);
        memory_levels::evaluate(*p, other, scratch);
        CHECK(memory_levels::evaluate(*p, again, scratch).latency_ps == outcome.latency_ps);
        CHECK(allocations() == before);
        CHECK(again == first);
    });
}

TEST("moving tensors one by one keeps latency and room as a fresh start has them") {
    for_each_level_problem([](const auto& p, uint64_t seed) {
        if (p->num_tensors == 0) return;
        auto levels = random_map(*p, seed);
        LevelState state(*p, levels);
        Draws draw{RandomStream(seed, 2, 0, 0)};
        for (int round = 0; round < 60; ++round) {
            const auto tensor = int32_t(draw.below(p->num_tensors)), level = int32_t(draw.below(p->num_levels));
            if (level == state.level_of(tensor)) continue;
            std::vector<Level> moved(state.levels().begin(), state.levels().end());
            moved[size_t(tensor)] = Level(level);
            CHECK(state.fits(tensor, level) == fits_slowly(*p, moved, moved.size()));
            if (!state.fits(tensor, level)) continue;
            const int64_t expected = state.latency_ps() + state.change_ps(tensor, level);
            state.move(tensor, level);
            CHECK(state.latency_ps() == expected);
            CHECK(LevelState(*p, state.levels()).latency_ps() == expected);
        }
    });
}

template <class Search>
void check_pauses(Search whole, Search paused, const LevelProblem& p) {
    whole.advance(300, INT64_MAX);
    for (int64_t at_most = 1; paused.evaluations() < 300; at_most = at_most * 2 % 37 + 1) paused.advance(300, at_most);
    CHECK(whole.best() == paused.best());
    CHECK(whole.best_latency_ps() == paused.best_latency_ps());
    auto levels = whole.best();
    LevelScratch scratch(p);
    const auto outcome = memory_levels::evaluate(p, levels, scratch);
    CHECK(outcome.moved_bytes == 0);
    CHECK(outcome.latency_ps == whole.best_latency_ps());
}

TEST("searches over maps end with maps that fit, wherever they pause") {
    for_each_level_problem([](const auto& p, uint64_t seed) {
        if (seed % 4 != 0) return;
        const auto start = random_map(*p, seed);
        using memory_levels::LevelAnnealing;
        using memory_levels::LevelLocalSearch;
        check_pauses(LevelLocalSearch(p, start, 3, seed), LevelLocalSearch(p, start, 3, seed), *p);
        check_pauses(LevelAnnealing(p, start, {}, seed), LevelAnnealing(p, start, {}, seed), *p);
    });
}

TEST("steepest descent ends where no single move that fits saves anything, and nothing lies far away without need") {
    for_each_level_problem([](const auto& p, uint64_t seed) {
        for (const bool per_byte : {false, true}) {
            int64_t evaluations = 0;
            const auto start = random_map(*p, seed);
            const auto found = memory_levels::steepest_descent(*p, start, per_byte, INT64_MAX, evaluations);
            LevelState state(*p, found, false);
            CHECK(state.latency_ps() <= LevelState(*p, start, false).latency_ps());
            for (int32_t t = 0; t < p->num_tensors; ++t)
                for (int32_t l = 0; l < p->num_levels; ++l)
                    CHECK(l == state.level_of(t) || !state.fits(t, l) || state.change_ps(t, l) >= 0);
            const auto near = memory_levels::drawn_near(*p, found);
            CHECK(LevelState(*p, near).latency_ps() <= LevelState(*p, found).latency_ps());
            for (size_t t = 0; t < near.size(); ++t) CHECK(near[t] <= found[t]);
        }
    });
}

TEST("arrays of levels that contradict each other are refused") {
    const auto p = random_level_problem(5, false);
    const auto changed = [&](auto change) {
        LevelProblem copy;
        copy.size = p->size, copy.first = p->first, copy.last = p->last, copy.is_weight = p->is_weight;
        copy.capacity = p->capacity, copy.latency_ps = p->latency_ps, copy.inverse_rate = p->inverse_rate;
        copy.is_prefetched = p->is_prefetched, copy.overhead_ps = p->overhead_ps, copy.compute_ps = p->compute_ps;
        copy.fixed_ps = p->fixed_ps, copy.use_begin = p->use_begin, copy.use_tensor = p->use_tensor;
        copy.use_bytes = p->use_bytes, copy.use_is_early = p->use_is_early;
        change(copy);
        copy.finish();
    };
    changed([](auto&) {});
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.compute_ps.pop_back(); }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.overhead_ps.clear(); }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.inverse_rate.front() = 0; }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.inverse_rate.front() = INT64_MAX; }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.use_begin.back() += 1; }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.compute_ps.front() = -1; }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.compute_ps.front() = int64_t{1} << 62; }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.capacity.back() = 0; }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.is_prefetched.front() = 1; }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.use_tensor.front() = q.num_tensors + 99; }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) { q.use_is_early.pop_back(); }));
    CHECK_THROWS(std::invalid_argument, changed([](auto& q) {
                     std::ranges::fill(q.is_weight, 0);
                     q.use_is_early.front() = 1;
                 }));
}

}  // namespace

}  // namespace placewright::testing
