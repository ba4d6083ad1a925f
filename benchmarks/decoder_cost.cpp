// What one evaluation costs, in instructions: random keys, decoded and simulated, on a random graph of 150 ops on two
// devices with free blocking transfers. The difference of two runs leaves out the start:
//
//     g++ -std=c++20 -O3 -Icpp/core -Icpp/tests benchmarks/decoder_cost.cpp cpp/core/*.cpp cpp/tests/allocations.cpp
//         -lpthread -o out/decoder_cost
//     valgrind --tool=callgrind --callgrind-out-file=/dev/null out/decoder_cost segment-fill step-time 1000
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cases.hpp"

int main(int, char** arguments) {
    using namespace placewright;
    const auto problem = random_problem(
        {.num_ops = 150, .edges_per_op = 1.5, .minimize_memory = std::string_view(arguments[2]) == "peak-memory"}, 3);
    const DecoderKind kind = decoder_named(arguments[1]);
    const auto decoder = make_decoder(*problem, kind);
    SimulationScratch scratch(*problem);
    std::vector<Key> keys(size_t(num_keys(*problem, kind)));
    int64_t best = INT64_MAX;
    for (uint64_t i = 0; i < strtoull(arguments[3], nullptr, 10); ++i) {
        const RandomStream stream(1, i, 0, 0);
        for (size_t k = 0; k < keys.size(); ++k) keys[k] = static_cast<Key>(stream.bits(k));
        const Decoded decoded = decoder->decode(keys);
        best = std::min(best, evaluate(*problem, decoded.device_of, decoded.order, scratch).objective);
    }
    std::printf("%ld\n", best);
}
