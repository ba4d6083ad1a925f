#include "bounds/remaking.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "support/minimum_cut.hpp"

namespace placewright {

namespace {

constexpr int kPriceBits = 40;     // prices are whole multiples of 2^-40 ns per byte,
constexpr int kMostTimeBits = 10;  // and flows of 2^-10 ns, or of more where times are long
constexpr double kMemory = 0.6;    // weight of the previous direction in a step's direction
// A step aims at a value this much above the best, relative to it. The aim halves after kPatience steps without a
// better value.
constexpr double kFirstAim = 0.3, kLeastAim = 0.0003;
constexpr int kPatience = 8;

class Dual {
  public:
    explicit Dual(const Remaking& remaking) : r_(remaking), node_(r_.moment.size()), slope_(r_.room.size()) {
        const auto total = uint64_t(std::accumulate(r_.time_ns.begin(), r_.time_ns.end(), int64_t{0}));
        time_bits_ = std::clamp(60 - int(std::bit_width(total)), 0, kMostTimeBits);
    }

    // Returns the bound that the prices prove, rounded up, and finds the direction in which more would be proven.
    int64_t value(const std::vector<double>& prices, int64_t& budget) {
        std::vector<int64_t> whole(prices.size());
        for (size_t i = 0; i < prices.size(); ++i) whole[i] = std::llround(std::ldexp(prices[i], kPriceBits));
        build(whole);
        auto proven = static_cast<__int128>(cut_.solve(budget)) << (kPriceBits - time_bits_);
        for (size_t i = 0; i < whole.size(); ++i) proven -= static_cast<__int128>(whole[i]) * r_.room[i];
        find_slope();
        return static_cast<int64_t>(-(-proven >> kPriceBits));
    }

    const std::vector<double>& slope() const { return slope_; }

  private:
    void build(const std::vector<int64_t>& whole) {
        cut_.reset();
        const auto worth = [&](size_t node) {
            const auto exact = static_cast<__int128>(whole[size_t(r_.moment[node])]) * r_.bytes[node];
            return static_cast<int64_t>(std::min<__int128>(exact >> (kPriceBits - time_bits_), MinimumCut::kUncut / 2));
        };
        // A way has two nodes; the arc between them limits what flows through it.
        for (size_t node = 0; node < node_.size(); ++node) {
            node_[node] = cut_.add_node();
            if (!r_.is_way[node]) {
                cut_.add_arc(0, node_[node], worth(node));
                continue;
            }
            const int32_t out = cut_.add_node();
            cut_.add_arc(node_[node], out, worth(node));
            if (!r_.may_go[node]) cut_.add_arc(out, 1, MinimumCut::kUncut);
        }
        for (size_t way = 0; way < r_.way_from.size(); ++way)
            cut_.add_arc(out_of(r_.way_from[way]), node_[size_t(r_.way_to[way])], MinimumCut::kUncut);
        const int32_t first_run = cut_.add_node();
        for (size_t run = 1; run < r_.time_ns.size(); ++run) cut_.add_node();
        for (size_t run = 0; run < r_.time_ns.size(); ++run)
            cut_.add_arc(first_run + int32_t(run), 1, r_.time_ns[run] << time_bits_);
        for (size_t making = 0; making < r_.made.size(); ++making)
            cut_.add_arc(out_of(r_.made[making]), first_run + r_.run[making], MinimumCut::kUncut);
    }

    int32_t out_of(int32_t node) const { return node_[size_t(node)] + r_.is_way[size_t(node)]; }

    void find_slope() {
        for (size_t i = 0; i < slope_.size(); ++i) slope_[i] = -double(r_.room[i]);
        for (size_t node = 0; node < node_.size(); ++node) {
            const bool is_cut = r_.is_way[node]
                                    ? cut_.on_source_side(node_[node]) && !cut_.on_source_side(node_[node] + 1)
                                    : !cut_.on_source_side(node_[node]);
            if (is_cut) slope_[size_t(r_.moment[node])] += double(r_.bytes[node]);
        }
    }

    const Remaking& r_;
    int time_bits_;
    std::vector<int32_t> node_;
    std::vector<double> slope_;
    MinimumCut cut_;
};

}  // namespace

int64_t remaking_bound(const Remaking& remaking, std::vector<double> prices, int32_t steps, int64_t budget) {
    Dual dual(remaking);
    int64_t best = dual.value(prices, budget), now = best;
    std::vector<double> best_prices = prices, direction(prices.size());
    double aim = kFirstAim;
    for (int32_t step = 0, failed = 0; step < steps && budget > 0; ++step) {
        double norm = 0;
        for (size_t i = 0; i < prices.size(); ++i) {
            direction[i] = dual.slope()[i] + kMemory * direction[i];
            if (prices[i] == 0 && direction[i] < 0) direction[i] = 0;
            norm += direction[i] * direction[i];
        }
        if (norm == 0) break;
        const double length = (double(best) * (1 + aim) + 1 - double(now)) / norm;
        for (size_t i = 0; i < prices.size(); ++i) prices[i] = std::max(0.0, prices[i] + length * direction[i]);
        now = dual.value(prices, budget);
        if (now > best) {
            best = now;
            best_prices = prices;
            failed = 0;
        } else if (++failed == kPatience) {
            if ((aim /= 2) < kLeastAim) break;
            failed = 0;
            prices = best_prices;
            std::ranges::fill(direction, 0);
            now = dual.value(prices, budget);
        }
    }
    return best;
}

}  // namespace placewright
