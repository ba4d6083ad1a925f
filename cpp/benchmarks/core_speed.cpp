// Speed of the core: decode + simulate of random chromosomes, simulation of given orders, and whole searches. Prints
// one line per figure: "size and objective; what; value; unit; target", from which benchmarks/report.py makes a table.
//   core_speed                 all sizes
//   core_speed OPS [ROUNDS]    one size, with that many rounds
// Every figure is the least time of several rounds, in which the measurements take turns, so that a temporary
// disturbance of the machine affects all of them. Targets are ratios of times measured here, as machines differ;
// benchmarks/against.py compares the core with an earlier commit's.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>

#include "decode/decoder.hpp"
#include "improve/brkga.hpp"
#include "random_problem.hpp"
#include "simulate/simulate.hpp"
#include "support/random.hpp"

using namespace placewright;

namespace {

double wall_seconds(const std::function<void()>& body) {
    const auto began = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

double processor_seconds(const std::function<void()>& body) {
    const std::clock_t began = std::clock();
    body();
    return double(std::clock() - began) / CLOCKS_PER_SEC;
}

std::vector<Key> random_keys(const Problem& problem, uint64_t individual) {
    const RandomStream stream(7, 0, individual, 0);
    std::vector<Key> keys(size_t(num_keys(problem, DecoderKind::paper)));
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<Key>(stream.bits(i));
    return keys;
}

KeyProposal beta_proposal(const Problem& problem) {
    const std::vector<double> alpha{1.0, 2.0, 0.5, 5.0}, beta{1.0, 5.0, 0.5, 2.0};
    KeyProposal proposal{std::make_shared<BetaTables>(alpha, beta), {}};
    for (int64_t i = 0; i < num_keys(problem, DecoderKind::paper); ++i)
        proposal.row.push_back(static_cast<uint16_t>(i % 4));
    return proposal;
}

// A chromosome and the solution to which it decodes.
struct Decision {
    std::vector<Key> keys;
    std::vector<int32_t> device_of;
    std::vector<Step> order;
};

struct Speed {
    std::shared_ptr<const Problem> problem;
    int64_t evaluations;  // of a search
    std::vector<Decision> solutions;
    int64_t steps = 0;  // of one pass over the solutions
    int passes;
    std::unique_ptr<Decoder> decoder;
    SimulationScratch simulation;
    double least_both = 1e9, least_simulate = 1e9, least_uniform = 1e9, least_beta = 1e9;
    double least_one = 1e9, least_two = 1e9;  // by the wall clock; all others by processor time

    Speed(std::shared_ptr<const Problem> of, int64_t evaluations)
        : problem(std::move(of)),
          evaluations(evaluations),
          decoder(make_decoder(*problem, DecoderKind::paper)),
          simulation(*problem) {
        const int count = problem->num_ops <= 2000 ? 100 : 20;
        passes = std::max(1, 400000 / (problem->num_ops * count));
        for (int i = 0; i < count; ++i) {
            std::vector<Key> keys = random_keys(*problem, uint64_t(i));
            const auto [device_of, order] = decoder->decode(keys);
            steps += int64_t(order.size());
            solutions.push_back({std::move(keys), {device_of.begin(), device_of.end()}, {order.begin(), order.end()}});
        }
    }

    void decode_and_simulate() {
        for (int pass = 0; pass < passes; ++pass)
            for (const Decision& solution : solutions) {
                const auto [device_of, order] = decoder->decode(solution.keys);
                evaluate(*problem, device_of, order, simulation);
            }
    }

    // Simulates only so many different orders that they do not displace the simulation's data from the caches.
    void simulate_only() {
        const size_t different = std::clamp<size_t>(40000 / size_t(problem->num_ops), 2, solutions.size());
        for (size_t i = 0; i < size_t(passes) * solutions.size(); ++i) {
            const Decision& solution = solutions[i % different];
            evaluate(*problem, solution.device_of, solution.order, simulation);
        }
    }

    // Returns the seconds of a search's generations, without allocating and freeing its memory.
    double search(bool beta, int32_t threads, double (*clock)(const std::function<void()>&)) const {
        Brkga search(problem, {}, beta ? std::optional(beta_proposal(*problem)) : std::nullopt, {}, 1, threads);
        return clock([&] { search.advance(evaluations); });
    }

    void run_round() {
        least_both = std::min(least_both, processor_seconds([&] { decode_and_simulate(); }));
        least_simulate = std::min(least_simulate, processor_seconds([&] { simulate_only(); }));
        least_uniform = std::min(least_uniform, search(false, 1, processor_seconds));
        least_beta = std::min(least_beta, search(true, 1, processor_seconds));
        least_one = std::min(least_one, search(false, 1, wall_seconds));
        least_two = std::min(least_two, search(false, 2, wall_seconds));
    }

    double seconds_per_evaluation() const { return least_both / (double(passes) * double(solutions.size())); }
};

void report(int32_t num_ops, bool minimize_memory, int rounds) {
    Speed speed(random_problem({.num_ops = num_ops, .minimize_memory = minimize_memory}, 1),
                num_ops <= 2000 ? 5000 : 300);
    for (int round = 0; round < rounds; ++round) speed.run_round();

    // The targets are for the step time; figures with memory are for comparison.
    const auto line = [&](const std::string& what, double value, const char* unit, const char* target = "") {
        std::printf("%d ops, %s; %s; %.3g; %s; %s\n", num_ops, minimize_memory ? "peak memory" : "step time",
                    what.c_str(), value, unit, minimize_memory ? "" : target);
        std::fflush(stdout);
    };
    line("decode + simulate", double(speed.steps) * speed.passes / speed.least_both / 1e6, "M steps/s");
    line("simulate only", double(speed.steps) * speed.passes / speed.least_simulate / 1e6, "M steps/s");
    line("simulate only against decode + simulate", speed.least_both / speed.least_simulate, "times", ">= 7");
    line("BRKGA, " + std::to_string(speed.evaluations) + " evaluations", speed.least_uniform * 1e3, "ms");
    line("BRKGA against as many random chromosomes decoded and simulated",
         speed.least_uniform / (double(speed.evaluations) * speed.seconds_per_evaluation()), "times", "<= 1.25");
    line("BRKGA, Beta proposals against uniform", speed.least_beta / speed.least_uniform, "times", "<= 1.05");
    line("BRKGA, two threads against one", speed.least_one / speed.least_two, "times faster", ">= 1.8");
}

}  // namespace

int main(int argc, char** argv) {
    const int32_t size = argc > 1 ? std::atoi(argv[1]) : 0;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 0;
    if (argc > 3 || (argc > 1 && size < 1) || (argc > 2 && rounds < 1)) {
        std::fprintf(stderr, "usage: core_speed [OPS [ROUNDS]], both at least 1\n");
        return 2;
    }
    const std::vector<int32_t> sizes = size > 0 ? std::vector<int32_t>{size} : std::vector<int32_t>{150, 2000, 20000};
    for (const int32_t num_ops : sizes)
        for (const bool minimize_memory : {false, true})
            report(num_ops, minimize_memory, rounds > 0 ? rounds : num_ops < 2000 ? 40 : num_ops < 20000 ? 9 : 5);
}
