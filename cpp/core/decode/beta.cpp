#include "decode/beta.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace placewright {

namespace {

// The continued fraction of DLMF 8.17.22, evaluated by the modified Lentz method.
double continued_fraction(double x, double a, double b) {
    constexpr double kTiny = 1e-300;
    constexpr double kPrecision = 1e-13;
    const auto guard = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
    double c = 1.0;
    double d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    double result = d;
    for (int m = 1; m <= 1000; ++m) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        result *= d * c;
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        result *= d * c;
        if (std::abs(d * c - 1.0) < kPrecision) break;
    }
    return result;
}

uint32_t to_key(double x) { return static_cast<uint32_t>(std::clamp(x * 0x1p32, 0.0, 0x1p32 - 1)); }

double logistic(double z) { return 1.0 / (1.0 + std::exp(-z)); }

// Returns the z, at most kEnd away from 0, beyond which (on the given side) there is less than kTail of the mass.
double tail_start(double alpha, double beta, bool upper) {
    constexpr double kEnd = 24.0, kTail = 1e-5;
    double outside = upper ? kEnd : -kEnd, inside = -outside;
    for (int i = 0; i < 24; ++i) {
        const double middle = 0.5 * (outside + inside);
        const double x = logistic(middle);
        const double tail = upper ? 1.0 - incomplete_beta(x, alpha, beta) : incomplete_beta(x, alpha, beta);
        (tail < kTail ? outside : inside) = middle;
    }
    return outside;
}

// Appends quantiles at 0, 1/(n-1), ..., 1 to `keys`. The distribution function is tabulated over the logit of x, where
// it is smooth even if small parameters concentrate the mass at the ends, and inverted by interpolation.
void append_quantiles(double alpha, double beta, size_t n, std::vector<uint32_t>& keys) {
    constexpr int kGrid = 600;
    const double low = tail_start(alpha, beta, false), high = tail_start(alpha, beta, true);
    const double step = (high - low) / kGrid;
    double below = 0.0, above = incomplete_beta(logistic(low), alpha, beta);
    int cell = 0;
    for (size_t i = 0; i < n; ++i) {
        const double u = double(i) / double(n - 1);
        while (above < u && cell < kGrid) {
            below = above;
            above = incomplete_beta(logistic(low + ++cell * step), alpha, beta);
        }
        const double part = above > below && above >= u ? (u - below) / (above - below) : 1.0;
        const double z = i == 0 ? low : low + (cell - 1 + std::max(0.0, part)) * step;
        keys.push_back(to_key(logistic(z)));
    }
}

}  // namespace

double incomplete_beta(double x, double alpha, double beta) {
    if (x <= 0.0) return 0.0;
    if (x >= 1.0) return 1.0;
    const double log_front = alpha * std::log(x) + beta * std::log1p(-x) - std::lgamma(alpha) - std::lgamma(beta) +
                             std::lgamma(alpha + beta);
    if (x < (alpha + 1.0) / (alpha + beta + 2.0))
        return std::exp(log_front) * continued_fraction(x, alpha, beta) / alpha;
    return 1.0 - std::exp(log_front) * continued_fraction(1.0 - x, beta, alpha) / beta;
}

BetaTables::BetaTables(std::span<const double> alpha, std::span<const double> beta) {
    if (alpha.size() != beta.size()) throw std::invalid_argument("alpha and beta differ in length");
    quantiles_.reserve(alpha.size() * kPoints);
    for (size_t row = 0; row < alpha.size(); ++row) {
        if (!(alpha[row] > 0 && beta[row] > 0 && std::isfinite(alpha[row]) && std::isfinite(beta[row])))
            throw std::invalid_argument("a Beta distribution needs positive finite parameters");
        append_quantiles(alpha[row], beta[row], kPoints, quantiles_);
    }
}

}  // namespace placewright
