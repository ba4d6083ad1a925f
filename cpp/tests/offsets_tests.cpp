#include <algorithm>

#include "check.hpp"
#include "offsets/arena.hpp"
#include "offsets/best_fit.hpp"
#include "offsets/stacking.hpp"
#include "support/random.hpp"

namespace placewright::testing {

namespace {

std::vector<TimedBuffer> random_buffers(uint64_t seed, uint32_t most) {
    const RandomStream stream(seed, 0, 0, 0);
    std::vector<TimedBuffer> buffers(1 + stream.below(0, most));
    uint64_t draws = 1;
    for (TimedBuffer& b : buffers) {
        b.begin = int32_t(stream.below(draws++, most));
        b.end = b.begin + 1 + int32_t(stream.below(draws++, most / 2 + 1));
        b.size = 1 + stream.below(draws++, 20);
    }
    return buffers;
}

bool are_apart(std::span<const TimedBuffer> buffers, std::span<const int64_t> offset) {
    for (size_t a = 0; a < buffers.size(); ++a) {
        if (offset[a] < 0) return false;
        for (size_t b = 0; b < a; ++b) {
            if (buffers[a].end <= buffers[b].begin || buffers[b].end <= buffers[a].begin) continue;
            if (offset[a] < offset[b] + buffers[b].size && offset[b] < offset[a] + buffers[a].size) return false;
        }
    }
    return true;
}

void for_each_case(void (*check)(const std::vector<TimedBuffer>&)) {
    for (current_seed = 0; current_seed < 200; ++current_seed)
        check(random_buffers(current_seed, 1 + current_seed / 3));
    current_seed = 0;
}

TEST("best fit has no two buffers in one place") {
    for_each_case([](const auto& buffers) {
        CHECK(are_apart(buffers, best_fit_in_turn(buffers)));
        CHECK(are_apart(buffers, best_fit_by_size(buffers)));
    });
}

TEST("an arena is no larger than best fit, and no smaller than its bound") {
    for_each_case([](const auto& buffers) {
        const Arena arena = smallest_arena(buffers, 2'000'000);
        CHECK(are_apart(buffers, arena.offset));
        CHECK(arena.size == size_of(buffers, arena.offset));
        CHECK(arena.bound <= arena.size);
        CHECK(arena.size <= size_of(buffers, best_fit_in_turn(buffers)));
    });
}

TEST("what fits in an arena fits in a larger one, and what does not, in no smaller one") {
    for_each_case([](const auto& buffers) {
        if (buffers.size() > 12) return;
        Stacking stacking(buffers);
        bool fitted = false;
        int64_t total = 0;
        for (const TimedBuffer& b : buffers) total += b.size;
        for (int64_t capacity = 0; capacity <= total; ++capacity) {
            int64_t effort = 1'000'000;
            const Answer answer = stacking.search(capacity, effort);
            CHECK(answer != Answer::unknown);
            CHECK(answer == Answer::fits || !fitted);
            fitted = answer == Answer::fits;
            if (fitted) CHECK(are_apart(buffers, stacking.offsets()));
            if (fitted) CHECK(size_of(buffers, stacking.offsets()) <= capacity);
        }
        CHECK(fitted);
    });
}

TEST("without effort there is best fit, and nothing is proven but the peak") {
    const std::vector<TimedBuffer> buffers{{0, 2, 1}, {0, 4, 1}, {2, 5, 2}};
    const Arena arena = smallest_arena(buffers, 0);
    CHECK(arena.size == 4);
    CHECK(arena.bound == 3);
    Stacking stacking(buffers);
    int64_t effort = 0;
    CHECK(stacking.search(3, effort) == Answer::unknown);
}

}  // namespace

}  // namespace placewright::testing
