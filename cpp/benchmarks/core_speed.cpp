// Speed of the core: decode + simulate of random chromosomes, simulation of given orders, and whole searches. Prints
// one line per figure: "size and objective; what; value; unit; target", which benchmarks/report.py makes a table of.
//   core_speed            all sizes
//   core_speed OPS        one size
// Every figure is the least time of several rounds, in which the measurements take turns, so that what disturbs the
// machine for a while disturbs all of them.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "brkga.hpp"
#include "random_problem.hpp"
#include "timed_calls.hpp"

using namespace placewright;

namespace {

double seconds(const std::function<void()>& body) {
    const auto began = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

std::vector<Key> random_keys(const Problem& problem, uint64_t individual) {
    const RandomStream stream(7, 0, individual, 0);
    std::vector<Key> keys(size_t(problem.num_keys()));
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<Key>(stream.bits(i));
    return keys;
}

KeyProposal beta_proposal(const Problem& problem) {
    const std::vector<double> alpha{1.0, 2.0, 0.5, 5.0}, beta{1.0, 5.0, 0.5, 2.0};
    KeyProposal proposal{std::make_shared<BetaTables>(alpha, beta), {}};
    for (int64_t i = 0; i < problem.num_keys(); ++i) proposal.row.push_back(static_cast<uint16_t>(i % 4));
    return proposal;
}

// A chromosome, and the solution it means.
struct Solution {
    std::vector<Key> keys;
    std::vector<int32_t> device_of;
    std::vector<Step> order;
};

struct Speed {
    std::shared_ptr<const Problem> problem;
    int64_t evaluations;  // of a search
    std::vector<Solution> solutions;
    int64_t steps = 0;  // of one pass over the solutions
    int passes;
    DecodeScratch decoded;
    SimulationScratch simulation;
    double least_both = 1e9, least_simulate = 1e9, least_uniform = 1e9, least_beta = 1e9, least_two = 1e9;
    double least_timed = 1e9, share_outside = 0;

    Speed(std::shared_ptr<const Problem> of, int64_t evaluations)
        : problem(std::move(of)), evaluations(evaluations), decoded(*problem), simulation(*problem) {
        const int count = problem->num_ops <= 2000 ? 100 : 20;
        passes = std::max(1, 400000 / (problem->num_ops * count));
        for (int i = 0; i < count; ++i) {
            std::vector<Key> keys = random_keys(*problem, uint64_t(i));
            decode(*problem, keys, decoded);
            solutions.push_back({std::move(keys),
                                 decoded.device_of,
                                 {decoded.order.begin(), decoded.order.begin() + ptrdiff_t(decoded.num_steps)}});
            steps += int64_t(decoded.num_steps);
        }
    }

    void decode_and_simulate() {
        for (int pass = 0; pass < passes; ++pass)
            for (const Solution& solution : solutions) {
                decode(*problem, solution.keys, decoded);
                evaluate(*problem, decoded.device_of, {decoded.order.data(), decoded.num_steps}, simulation);
            }
    }

    // As many different orders as leave the caches to the simulation.
    void simulate_only() {
        const size_t different = std::clamp<size_t>(40000 / size_t(problem->num_ops), 2, solutions.size());
        for (size_t i = 0; i < size_t(passes) * solutions.size(); ++i) {
            const Solution& solution = solutions[i % different];
            evaluate(*problem, solution.device_of, solution.order, simulation);
        }
    }

    // Seconds of a search's generations; making and freeing its memory is not part of them.
    double search(bool beta, int32_t threads) const {
        Brkga search(problem, {}, beta ? std::optional(beta_proposal(*problem)) : std::nullopt, {}, 1, threads);
        return seconds([&] { search.advance(evaluations, 1 << 30); });
    }

    // What crossover, mutants, sorting and the turn of generations take of a search on one thread: of the least
    // disturbed one, since what disturbs a search mostly falls into its calls.
    void measure_share_outside() {
        time_calls(true);
        const double all = search(false, 1);
        time_calls(false);
        if (all >= least_timed) return;
        least_timed = all;
        share_outside = 1 - seconds_in_calls() / all;
    }

    void run_round() {
        least_both = std::min(least_both, seconds([&] { decode_and_simulate(); }));
        least_simulate = std::min(least_simulate, seconds([&] { simulate_only(); }));
        least_uniform = std::min(least_uniform, search(false, 1));
        least_beta = std::min(least_beta, search(true, 1));
        least_two = std::min(least_two, search(false, 2));
        measure_share_outside();
    }
};

struct Targets {
    double million_steps_per_second, milliseconds;  // 0: none
};

void report(int32_t num_ops, bool minimize_memory) {
    const std::map<int32_t, Targets> targets{{150, {30, 50}}, {2000, {28, 600}}, {20000, {20, 0}}};
    Speed speed(random_problem({.num_ops = num_ops, .minimize_memory = minimize_memory}, 1),
                num_ops <= 2000 ? 5000 : 300);
    const int rounds = num_ops < 2000 ? 40 : num_ops < 20000 ? 9 : 5;
    for (int round = 0; round < rounds; ++round) speed.run_round();

    // The figures asked for are those of the step time; with memory they are for comparison.
    const Targets target = !minimize_memory && targets.contains(num_ops) ? targets.at(num_ops) : Targets{0, 0};
    const auto line = [&](const std::string& what, double value, const char* unit, const char* relation, double goal) {
        std::printf("%d ops, %s; %s; %.3g; %s; ", num_ops, minimize_memory ? "peak memory" : "step time", what.c_str(),
                    value, unit);
        goal > 0 && !minimize_memory ? std::printf("%s %g\n", relation, goal) : std::printf("\n");
        std::fflush(stdout);
    };
    const double steps = double(speed.steps) * speed.passes;
    line("decode + simulate", steps / speed.least_both / 1e6, "M steps/s", ">=", target.million_steps_per_second);
    line("simulate only", steps / speed.least_simulate / 1e6, "M steps/s", "", 0);
    line("simulate only against decode + simulate", speed.least_both / speed.least_simulate, "times", ">=", 7);
    line("BRKGA, " + std::to_string(speed.evaluations) + " evaluations", speed.least_uniform * 1e3, "ms",
         "<=", target.milliseconds);
    line("BRKGA, share outside decode + simulate", speed.share_outside * 100, "%", "<=", 25);
    line("BRKGA, Beta proposals against uniform", speed.least_beta / speed.least_uniform, "times", "<=", 1.05);
    line("BRKGA, two threads against one", speed.least_uniform / speed.least_two, "times faster", ">=", 1.8);
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<int32_t> all{150, 2000, 20000};
    const std::vector<int32_t> sizes = argc > 1 ? std::vector<int32_t>{std::atoi(argv[1])} : all;
    for (const int32_t size : sizes)
        for (const bool minimize_memory : {false, true}) report(size, minimize_memory);
}
