#include "cases.hpp"
#include "construct/list_schedule.hpp"
#include "construct/transfers.hpp"
#include "improve/exact_schedule.hpp"

namespace placewright::testing {

namespace {

// Returns problems to which an exact schedule applies, with a few ops on two or three devices.
RandomProblemConfig small(uint64_t seed, int32_t num_ops) {
    RandomProblemConfig config = varied(seed);
    config.num_ops = num_ops;
    config.num_devices = 2 + static_cast<int32_t>(seed % 2);
    config.free_links = seed % 5 == 0;
    config.edges_per_op = 0.8 + 0.2 * double(seed % 5);
    config.blocking = config.minimize_memory = false;
    config.signals = true;
    config.memory_limit = Problem::kNoLimit;
    config.launching = RandomProblemConfig::nobody;
    return config;
}

Solution started(const Problem& p) {
    const auto [device_of, ops] = earliest_task_first(p);
    return {device_of, with_transfers(p, device_of, ops, TransferTiming::late)};
}

Solution on_one_device(const Problem& p) {
    const auto device = static_cast<int32_t>(std::countr_zero(p.allowed[0]));
    Solution result{std::vector<int32_t>(size_t(p.num_ops), device), {}};
    for (int32_t op = 0; op < p.num_ops; ++op) result.order.push_back(Step::op(op));
    return result;
}

// Finds the fastest schedule by trying all placements and all orders, which are abandoned as soon as they are no faster
// or exceed a limit at their end.
class FastestOfAll {
  public:
    explicit FastestOfAll(const Problem& problem) : p_(problem), scratch_(problem), device_of_(size_t(p_.num_ops)) {}

    int64_t run() {
        place(0);
        return best_ns_;
    }

  private:
    void place(int32_t op) {
        if (op == p_.num_ops) {
            left_.clear();
            for (int32_t each = 0; each < p_.num_ops; ++each) left_.push_back(Step::op(each));
            for (const Step& step : with_transfers(p_, device_of_, captured_order(p_), TransferTiming::late))
                if (!step.is_op()) left_.push_back(step);
            extend();
            return;
        }
        for (int32_t device = 0; device < p_.num_devices; ++device) {
            device_of_[size_t(op)] = device;
            const bool is_together = p_.group[op] == op || device_of_[size_t(p_.group[op])] == device;
            if (is_together && (p_.allowed[op] >> device & 1)) place(op + 1);
        }
    }

    bool is_done(const Step& step) const {
        return std::ranges::any_of(
            order_, [&](const Step& other) { return other.id == step.id && other.destination == step.destination; });
    }

    bool is_ready(const Step& step) const {
        if (!step.is_op()) return is_done(Step::op(p_.producer[step.id]));
        const int32_t device = device_of_[size_t(step.id)];
        return std::ranges::all_of(p_.predecessors[step.id], [&](int32_t op) { return is_done(Step::op(op)); }) &&
               std::ranges::all_of(p_.inputs[step.id], [&](int32_t tensor) {
                   const int32_t maker = p_.producer[tensor];
                   return is_done(device_of_[size_t(maker)] == device ? Step::op(maker) : Step{tensor, device});
               });
    }

    void extend() {
        if (simulate_time(p_, device_of_, order_, scratch_) >= best_ns_) return;
        if (order_.size() == left_.size()) {
            const Outcome outcome = simulate(p_, device_of_, order_, scratch_);
            if (outcome.bytes_over_limit == 0) best_ns_ = outcome.step_time_ns;
            return;
        }
        for (const Step& step : left_) {
            if (is_done(step) || !is_ready(step)) continue;
            order_.push_back(step);
            extend();
            order_.pop_back();
        }
    }

    const Problem& p_;
    SimulationScratch scratch_;
    std::vector<int32_t> device_of_;
    std::vector<Step> left_, order_;
    int64_t best_ns_ = INT64_MAX;
};

int64_t step_time(const Problem& p, const Solution& solution) {
    CHECK(is_valid(p, solution.device_of, solution.order));
    SimulationScratch scratch(p);
    const Outcome outcome = simulate(p, solution.device_of, solution.order, scratch);
    CHECK(outcome.bytes_over_limit == 0);
    return outcome.step_time_ns;
}

TEST("the exact schedule is the fastest of all") {
    for (uint64_t seed = 0; seed < 150; ++seed) {
        current_seed = seed;
        const auto p = random_problem(small(seed, 2 + static_cast<int32_t>(seed % 4)), seed);
        ExactSchedule search(p, started(*p), 1);
        search.advance(1'000'000);
        CHECK(search.is_proven());
        CHECK(search.best_fitness().objective == step_time(*p, search.best()));
        CHECK(search.best_fitness().objective == FastestOfAll(*p).run());
    }
}

TEST("within memory limits nothing is faster than what is proven") {
    int num_proven = 0;
    for (uint64_t seed = 0; seed < 150; ++seed) {
        current_seed = seed;
        RandomProblemConfig config = small(seed, 2 + static_cast<int32_t>(seed % 4));
        config.memory_limit = 150 + int64_t(seed % 7) * 30;
        const auto p = random_problem(config, seed);
        const Solution start = started(*p);
        SimulationScratch scratch(*p);
        if (simulate(*p, start.device_of, start.order, scratch).bytes_over_limit > 0) continue;
        ExactSchedule search(p, start, 1);
        search.advance(1'000'000);
        CHECK(search.is_exhausted());
        const int64_t fastest = FastestOfAll(*p).run();
        CHECK(step_time(*p, search.best()) >= fastest);
        if (search.is_proven()) CHECK(search.best_fitness().objective == fastest);
        num_proven += search.is_proven();
    }
    CHECK(num_proven > 50);
}

// There are too many ops to try all orders, but a schedule that is wrongly discarded would be found from one start and
// not from the other.
TEST("an exact schedule does not depend on where the search starts, on its pauses or on equal devices' names") {
    int num_proven = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
        current_seed = seed;
        RandomProblemConfig config = small(seed, 8 + static_cast<int32_t>(seed % 7));
        config.with_groups = config.with_forbidden = false;
        const auto p = random_problem(config, seed);
        ExactSchedule one(p, started(*p), 1), other(p, on_one_device(*p), 1);
        while (!one.is_exhausted() && one.evaluations() < 10'000) one.advance(10'000, 7);
        other.advance(10'000);
        if (!one.is_proven() || !other.is_proven()) continue;
        ++num_proven;
        CHECK(step_time(*p, one.best()) == step_time(*p, other.best()));
        ExactSchedule whole(p, started(*p), 1);
        whole.advance(10'000);
        CHECK(whole.evaluations() == one.evaluations());
        CHECK(equal(whole.best().order, one.best().order));
        // From the proven best as the start, nothing better is found.
        ExactSchedule again(p, one.best(), 1);
        again.advance(20'000);
        CHECK(again.best_fitness().objective == one.best_fitness().objective);
    }
    CHECK(num_proven > 20);
}

TEST("a search that ends before its time proves nothing") {
    RandomProblemConfig config = small(1, 14);
    config.with_forbidden = false;
    const auto p = random_problem(config, 1);
    ExactSchedule search(p, on_one_device(*p), 1);
    CHECK(!search.is_exhausted());
    search.advance(20);
    CHECK(search.evaluations() == 20);
    CHECK(!search.is_exhausted());
    CHECK(!search.is_proven());
    CHECK(step_time(*p, search.best()) <= step_time(*p, on_one_device(*p)));
}

TEST("an exact schedule is refused where steps block, are launched or are too many, and from an excess of memory") {
    RandomProblemConfig config = small(0, 10);
    CHECK(ExactSchedule::applies_to(*random_problem(config, 0)));
    config.blocking = true;
    CHECK(!ExactSchedule::applies_to(*random_problem(config, 0)));
    config.blocking = false;
    config.launching = RandomProblemConfig::host_thread;
    CHECK(!ExactSchedule::applies_to(*random_problem(config, 0)));
    Problem slow = *random_problem(small(0, 10), 0);
    slow.op_time_ns.front() = int64_t{1} << 57;
    CHECK(!ExactSchedule::applies_to(slow));
    config = small(0, 65);
    CHECK(!ExactSchedule::applies_to(*random_problem(config, 0)));
    const auto refuses = [](const RandomProblemConfig& each, int64_t divisor_ns) {
        const auto p = random_problem(each, 0);
        try {
            ExactSchedule(p, started(*p), divisor_ns);
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    CHECK(refuses(config, 1));
    config.num_ops = 10;
    CHECK(!refuses(config, 1));
    CHECK(refuses(config, 0));
    config.memory_limit = 1;
    CHECK(refuses(config, 1));
}

}  // namespace

}  // namespace placewright::testing
