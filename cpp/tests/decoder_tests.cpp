// Tests of all kinds of decoders, for any problem and any keys.
#include "allocations.hpp"
#include "cases.hpp"
#include "improve/brkga.hpp"

namespace placewright::testing {

namespace {

constexpr DecoderKind kKinds[] = {DecoderKind::paper, DecoderKind::lazy,         DecoderKind::early_free,
                                  DecoderKind::evict, DecoderKind::segment_fill, DecoderKind::earliest_finish};

std::vector<Key> keys_for(const Problem& p, DecoderKind kind, uint64_t seed, uint64_t distinct) {
    std::vector<Key> keys = random_keys(p, seed, distinct);
    keys.resize(size_t(num_keys(p, kind)));
    return keys;
}

TEST("whatever the decoder, what any keys mean is a valid order") {
    for_each_problem(150, [](const auto& p, uint64_t seed) {
        for (DecoderKind kind : kKinds) {
            const auto decoder = make_decoder(*p, kind);
            for (uint64_t distinct : {uint64_t{1}, uint64_t{3}, uint64_t{1} << 32}) {
                const auto [device_of, order] = decoder->decode(keys_for(*p, kind, seed, distinct));
                CHECK(is_valid(*p, device_of, order));
            }
        }
    });
}

TEST("a decoder used again gives what a new one gives, and allocates nothing") {
    for_each_problem(120, [](const auto& p, uint64_t seed) {
        for (DecoderKind kind : kKinds) {
            const auto used = make_decoder(*p, kind), fresh = make_decoder(*p, kind);
            const auto keys = keys_for(*p, kind, seed + 1000, uint64_t{1} << 32);
            const Decoded expected = fresh->decode(keys);
            const auto first = keys_for(*p, kind, seed, uint64_t{1} << 20);
            const int64_t before = allocations();
            used->decode(first);
            const Decoded decoded = used->decode(keys);
            CHECK(allocations() == before);
            CHECK(std::ranges::equal(decoded.device_of, expected.device_of));
            CHECK(equal(decoded.order, expected.order));
        }
    });
}

TEST("a search over any decoder is the same for any number of threads, and its best keys cost what it says") {
    for_each_problem(24, [](const auto& p, uint64_t seed) {
        if (p->num_ops > 100) return;
        for (DecoderKind kind : kKinds) {
            BrkgaConfig config{.population = 12, .elites = 3, .mutants = 2};
            config.decoder = kind;
            Brkga one(p, config, std::nullopt, {}, seed, 1), two(p, config, std::nullopt, {}, seed, 2);
            one.advance(80);
            two.advance(80);
            CHECK(std::ranges::equal(one.best_keys(), two.best_keys()));
            SimulationScratch simulation(*p);
            const auto decoder = make_decoder(*p, kind);
            const auto [device_of, order] = decoder->decode(one.best_keys());
            CHECK(evaluate(*p, device_of, order, simulation) == one.best_fitness());
        }
    });
}

TEST("proposals and seeds must have the decoder's number of keys") {
    const auto p = random_problem({.num_ops = 10}, 1);
    const BrkgaConfig config{.decoder = DecoderKind::segment_fill};
    const std::vector<double> one{1.0};
    const auto rows = [&](int64_t count) {
        return KeyProposal{std::make_shared<BetaTables>(one, one), std::vector<uint16_t>(size_t(count), 0)};
    };
    const auto with = [&](int64_t row_count, size_t seed_length) {
        Brkga(p, config, rows(row_count), {std::vector<Key>(seed_length)}, 1, 1).advance(5);
    };
    with(10, 10);
    CHECK_THROWS(std::invalid_argument, with(num_keys(*p, DecoderKind::paper), 10));
    CHECK_THROWS(std::invalid_argument, with(10, size_t(num_keys(*p, DecoderKind::paper))));
}

}  // namespace

}  // namespace placewright::testing
