// Quantile tables of Beta distributions, with which a draw costs about as much as a uniform draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace placewright {

// Piecewise linear inverses of Beta distribution functions, one row per (alpha, beta).
class BetaTables {
  public:
    // Throws std::invalid_argument unless every parameter is positive and finite.
    BetaTables(std::span<const double> alpha, std::span<const double> beta);
    BetaTables() = default;

    size_t num_rows() const { return quantiles_.size() / kPoints; }

    // Returns the key in [0, 2^32) for the uniform draw `uniform`.
    uint32_t draw(uint32_t row, uint32_t uniform) const {
        const uint32_t* at = quantiles_.data() + size_t(row) * kPoints + (uniform >> kFractionBits);
        const uint64_t fraction = uniform & ((1u << kFractionBits) - 1);
        return at[0] + static_cast<uint32_t>(((uint64_t(at[1] - at[0])) * fraction) >> kFractionBits);
    }

  private:
    static constexpr int kIndexBits = 10;
    static constexpr int kFractionBits = 32 - kIndexBits;
    static constexpr size_t kPoints = (size_t{1} << kIndexBits) + 1;
    std::vector<uint32_t> quantiles_;
};

// Regularised incomplete beta function I_x(alpha, beta), by Lentz's continued fraction (DLMF 8.17.22).
double incomplete_beta(double x, double alpha, double beta);

}  // namespace placewright
