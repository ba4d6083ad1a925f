#include <algorithm>

#include "cases.hpp"
#include "decode/affinity_keys.hpp"

namespace placewright::testing {

namespace {

TEST("what any keys mean is a valid order, ties included") {
    for_each_problem(300, [](const auto& p, uint64_t seed) {
        DecodeScratch decoded(*p);
        for (uint64_t distinct : {uint64_t{1}, uint64_t{3}, uint64_t{1} << 20, uint64_t{1} << 32}) {
            decode(*p, random_keys(*p, seed, distinct), decoded);
            CHECK(is_valid(*p, decoded.device_of, decoded_order(decoded)));
        }
    });
}

// Checks the rule of the queue directly: of the steps that may run, the one of highest priority, then the first item.
bool follows_priorities(const Problem& p, std::span<const Key> keys, const DecodeScratch& s) {
    const auto key_of = [&](const Step& step) {
        const AffinityKeys layout(p);
        return keys[size_t(step.is_op() ? layout.op_priority(step.id)
                                        : layout.transfer_priority(step.id, step.destination))];
    };
    const auto goes_before = [&](const Step& a, const Step& b) {
        if (key_of(a) != key_of(b)) return key_of(a) > key_of(b);
        if (a.is_op() != b.is_op()) return a.is_op();
        return a.id != b.id ? a.id < b.id : a.destination < b.destination;
    };
    const auto order = decoded_order(s);
    const auto waits_for = [&](const Step& step, const Step& earlier) {
        if (!step.is_op()) return earlier.is_op() && p.producer[step.id] == earlier.id;
        if (!earlier.is_op())
            return earlier.destination == s.device_of[step.id] && std::ranges::count(p.inputs[step.id], earlier.id) > 0;
        if (std::ranges::count(p.predecessors[step.id], earlier.id) > 0) return true;
        return std::ranges::any_of(p.inputs[step.id], [&](int32_t t) { return p.producer[t] == earlier.id; });
    };
    for (size_t k = 1; k < order.size(); ++k) {
        size_t ready = k;  // earliest place order[k] could have had
        while (ready > 0 && !waits_for(order[k], order[ready - 1])) --ready;
        for (size_t before = ready; before < k; ++before)
            if (goes_before(order[k], order[before])) return false;
    }
    return true;
}

TEST("the queue is emptied by falling priority, ops before transfers, lower index first") {
    for_each_problem(120, [](const auto& p, uint64_t seed) {
        if (p->num_ops > 100) return;
        DecodeScratch decoded(*p);
        for (uint64_t distinct : {uint64_t{2}, uint64_t{1} << 32}) {
            const auto keys = random_keys(*p, seed, distinct);
            decode(*p, keys, decoded);
            CHECK(follows_priorities(*p, keys, decoded));
        }
    });
}

TEST("groups stand on the allowed device their first op likes best") {
    for_each_problem(200, [](const auto& p, uint64_t seed) {
        DecodeScratch decoded(*p);
        const auto keys = random_keys(*p, seed, seed % 2 == 0 ? 4 : uint64_t{1} << 32);
        decode(*p, keys, decoded);
        for (int32_t op = 0; op < p->num_ops; ++op) {
            const int32_t device = decoded.device_of[op];
            const Key* affinity = keys.data() + size_t(p->group[op]) * size_t(p->num_devices);
            for (int32_t other = 0; other < p->num_devices; ++other)
                if (p->allowed[op] >> other & 1) CHECK(affinity[other] + (other < device) <= affinity[device]);
        }
    });
}

TEST("keys encoded from a solution decode to it") {
    for_each_problem(300, [](const auto& p, uint64_t seed) {
        DecodeScratch first(*p), second(*p);
        decode(*p, random_keys(*p, seed), first);
        decode(*p, encode(*p, first.device_of, decoded_order(first)), second);
        CHECK(first.device_of == second.device_of);
        CHECK(equal(decoded_order(first), decoded_order(second)));
    });
}

TEST("skewed keys are sorted like any others") {
    const auto p = random_problem({.num_ops = 3000}, 5);
    for (int shift : {8, 16, 24, 31}) {
        auto keys = random_keys(*p, 9);
        for (Key& key : keys) key >>= shift;
        DecodeScratch decoded(*p);
        decode(*p, keys, decoded);
        CHECK(is_valid(*p, decoded.device_of, decoded_order(decoded)));
        CHECK(std::is_sorted(decoded.keys.packed.begin(), decoded.keys.packed.begin() + ptrdiff_t(decoded.num_steps)));
    }
}

TEST("a queue gives back the least rank, small and large") {
    const auto drive = [](auto tag, size_t bound) {
        constexpr bool kSmall = decltype(tag)::value;
        ReadySetBuffers buffers(bound);
        ReadySet<kSmall> queue(buffers, bound);
        std::vector<uint32_t> expected;
        const RandomStream random(bound, 0, 0, 0);
        for (uint64_t i = 0, inserted = 0; i < 4000; ++i) {
            const auto rank = static_cast<uint32_t>(random.below(2 * i, uint32_t(bound)));
            const bool add = random.bits(2 * i + 1) % 5 < 3 && std::ranges::count(expected, rank) == 0 && ++inserted;
            queue.insert_if(rank, add ? 1 : 0);
            if (add) expected.push_back(rank);
            if (add || expected.empty()) continue;
            const auto least = std::ranges::min_element(expected);
            CHECK(queue.take_least() == *least);
            expected.erase(least);
        }
        std::ranges::sort(expected);
        for (uint32_t rank : expected) CHECK(queue.take_least() == rank);
    };
    for (size_t bound : {1, 63, 64, 65, 1000, 4096}) drive(std::true_type(), bound);
    for (size_t bound : {1, 64, 4096, 4097, 70000, 262144, 262145, 3000000}) drive(std::false_type(), bound);
}

}  // namespace

}  // namespace placewright::testing
