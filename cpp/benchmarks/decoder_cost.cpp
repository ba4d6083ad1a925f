// The cost of one evaluation in instructions: random keys, decoded and simulated, for a random graph of 150 ops on two
// devices with free blocking transfers. `make bench` builds it; the difference of two runs excludes the start-up:
//
//     valgrind --tool=callgrind --callgrind-out-file=/dev/null build/bench/decoder_cost segment-fill step-time 1000
//     valgrind --tool=callgrind --callgrind-out-file=/dev/null build/bench/decoder_cost segment-fill step-time 2000
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "decode/decoder.hpp"
#include "random_problem.hpp"
#include "simulate/simulate.hpp"
#include "support/random.hpp"

using namespace placewright;

namespace {

// Returns the least objective of `evaluations` random chromosomes.
int64_t best_of(DecoderKind kind, bool minimize_memory, uint64_t evaluations) {
    const auto problem = random_problem({.num_ops = 150, .edges_per_op = 1.5, .minimize_memory = minimize_memory}, 3);
    const auto decoder = make_decoder(*problem, kind);
    SimulationScratch scratch(*problem);
    std::vector<Key> keys(size_t(num_keys(*problem, kind)));
    int64_t best = INT64_MAX;
    for (uint64_t i = 0; i < evaluations; ++i) {
        const RandomStream stream(1, i, 0, 0);
        for (size_t k = 0; k < keys.size(); ++k) keys[k] = static_cast<Key>(stream.bits(k));
        const Decoded decoded = decoder->decode(keys);
        best = std::min(best, evaluate(*problem, decoded.device_of, decoded.order, scratch).objective);
    }
    return best;
}

}  // namespace

int main(int count, char** arguments) {
    const std::string_view objective = count == 4 ? arguments[2] : "";
    const uint64_t evaluations = count == 4 ? std::strtoull(arguments[3], nullptr, 10) : 0;
    if (evaluations == 0 || (objective != "step-time" && objective != "peak-memory")) {
        std::fprintf(stderr, "usage: decoder_cost DECODER step-time|peak-memory EVALUATIONS\n");
        return 2;
    }
    try {
        std::printf("%lld\n", static_cast<long long>(
                                  best_of(decoder_named(arguments[1]), objective == "peak-memory", evaluations)));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "decoder_cost: %s\n", error.what());
        return 2;
    }
}
