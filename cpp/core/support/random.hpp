// Counter-based random numbers: any draw is a function of (seed, generation, individual, purpose, index), so results do
// not depend on threads or on the order of evaluation. The mixer is SplitMix64's finaliser (Steele et al., OOPSLA
// 2014).
#pragma once

#include <bit>
#include <cstdint>

namespace placewright {

constexpr uint64_t mix64(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Uniform in (0, 1), from 64 random bits.
constexpr double uniform(uint64_t bits) { return (double(bits >> 11) + 0.5) * 0x1p-53; }

// Returns the index of a random set bit of a mask that is not 0, all equally likely.
constexpr int32_t drawn_bit(uint64_t mask, uint64_t bits) {
    for (auto skip = static_cast<uint32_t>((bits >> 32) * uint64_t(std::popcount(mask)) >> 32); skip > 0; --skip)
        mask &= mask - 1;
    return std::countr_zero(mask);
}

class RandomStream {
  public:
    RandomStream(uint64_t seed, uint64_t generation, uint64_t individual, uint64_t purpose)
        : key_(mix64(mix64(mix64(mix64(seed + kStride) + generation) + individual) + purpose)) {}

    uint64_t bits(uint64_t index) const { return mix64(key_ + (index + 1) * kStride); }

    // Uniform in [0, bound) by multiply-shift; the bias is below bound / 2^32.
    uint32_t below(uint64_t index, uint32_t bound) const {
        return static_cast<uint32_t>(((bits(index) >> 32) * bound) >> 32);
    }

  private:
    static constexpr uint64_t kStride = 0x9e3779b97f4a7c15u;
    uint64_t key_;
};

}  // namespace placewright
