// Tests of random streams, Beta tables and the worker pool.
#include <cmath>
#include <set>

#include "cases.hpp"
#include "decode/beta.hpp"
#include "support/worker_pool.hpp"

namespace placewright::testing {

namespace {

TEST("a draw depends on each of seed, generation, individual, purpose and index") {
    std::set<uint64_t> draws;
    for (uint64_t seed : {0, 1})
        for (uint64_t generation : {0, 1})
            for (uint64_t individual : {0, 1})
                for (uint64_t purpose : {0, 1})
                    for (uint64_t index : {0, 1})
                        draws.insert(RandomStream(seed, generation, individual, purpose).bits(index));
    CHECK(draws.size() == 32);
}

TEST("bounded draws stay below the bound and reach every value") {
    const RandomStream stream(1, 2, 3, 4);
    for (uint32_t bound : {1u, 2u, 7u, 100u}) {
        std::set<uint32_t> seen;
        for (uint64_t i = 0; i < 2000; ++i) seen.insert(stream.below(i, bound));
        CHECK(*seen.rbegin() < bound && seen.size() == bound);
    }
}

TEST("the incomplete beta function has its known values") {
    CHECK(std::abs(incomplete_beta(0.3, 1, 1) - 0.3) < 1e-12);           // uniform
    CHECK(std::abs(incomplete_beta(0.3, 2, 1) - 0.09) < 1e-12);          // x^2
    CHECK(std::abs(incomplete_beta(0.3, 1, 3) - (1 - 0.343)) < 1e-12);   // 1 - (1 - x)^3
    CHECK(std::abs(incomplete_beta(0.25, 0.5, 0.5) - 1.0 / 3) < 1e-12);  // (2 / pi) asin(sqrt(x))
    CHECK(incomplete_beta(-1, 2, 3) == 0 && incomplete_beta(0, 2, 3) == 0);
    CHECK(incomplete_beta(1, 2, 3) == 1 && incomplete_beta(2, 2, 3) == 1);
}

TEST("Beta draws rise with the uniform draw and have the right quantiles") {
    const std::vector<double> shapes{0.01, 0.1, 0.5, 1, 2, 5, 30, 200, 1000};
    for (double alpha : shapes)
        for (double beta : shapes) {
            const BetaTables tables(std::span(&alpha, 1), std::span(&beta, 1));
            Key last = 0;
            for (uint64_t u = 0; u < uint64_t{1} << 32; u += (uint64_t{1} << 21) + 12345) {
                const Key key = tables.draw(0, static_cast<uint32_t>(u));
                CHECK(key >= last);
                last = key;
                const double x = double(key) / 0x1p32, p = double(u) / 0x1p32;
                if (p < 0.01 || p > 0.99 || x < 1e-6 || x > 1 - 1e-6) continue;
                CHECK(std::abs(incomplete_beta(x, alpha, beta) - p) < 0.01);
            }
        }
}

TEST("a Beta distribution with parameters that cannot be is refused") {
    const std::vector<double> good{1.0};
    for (double wrong : {0.0, -1.0, double(INFINITY), double(NAN)}) {
        const std::vector<double> bad{wrong};
        CHECK_THROWS(std::invalid_argument, BetaTables(bad, good));
        CHECK_THROWS(std::invalid_argument, BetaTables(good, bad));
    }
    CHECK_THROWS(std::invalid_argument, BetaTables(good, std::span<const double>()));
}

TEST("a pool runs every item once, on threads it has, batch after batch") {
    for (int32_t threads : {1, 2, 4, 9}) {
        WorkerPool pool(threads);
        CHECK(pool.num_threads() == threads);
        std::vector<int32_t> runs(97);
        for (int32_t batch = 0; batch < 500; ++batch) {
            const int32_t count = batch % 97;
            std::ranges::fill(runs, 0);
            std::atomic<bool> known = true;
            pool.run(count, [&](int32_t item, int32_t thread) {
                ++runs[size_t(item)];
                if (thread < 0 || thread >= threads) known = false;
            });
            CHECK(known);
            for (int32_t item = 0; item < 97; ++item) CHECK(runs[size_t(item)] == (item < count ? 1 : 0));
        }
    }
}

TEST("pools come and go, idle or having slept") {
    for (int32_t round = 0; round < 100; ++round) {
        WorkerPool pool(3);
        if (round % 3 == 0) continue;
        if (round % 10 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        std::atomic<int32_t> sum = 0;
        pool.run(10, [&](int32_t item, int32_t) { sum += item; });
        CHECK(sum == 45);
    }
}

}  // namespace

}  // namespace placewright::testing
