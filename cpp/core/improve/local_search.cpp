#include "improve/local_search.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "construct/transfers.hpp"
#include "improve/pause.hpp"

namespace placewright {

namespace {

enum Purpose : uint64_t { kPlacement = 1, kMove = 2 };
enum Draw : uint64_t { kKind, kOp, kTarget };

void check(const LocalSearchConfig& c) {
    if (c.evaluations_per_start < 1) throw std::invalid_argument("evaluations_per_start must be at least 1");
    if (!(c.device_share >= 0 && c.device_share <= 1)) throw std::invalid_argument("device_share must lie in [0, 1]");
    if (c.reach < 1) throw std::invalid_argument("reach must be at least 1");
}

size_t max_steps(const Problem& p) { return p.num_ops + size_t(p.num_tensors) * (p.num_devices - 1); }

}  // namespace

LocalSearch::LocalSearch(std::shared_ptr<const Problem> problem, const LocalSearchConfig& config, uint64_t seed)
    : problem_(std::move(problem)),
      config_(config),
      seed_(seed),
      place_of_(problem_->num_ops),
      destinations_(problem_->num_tensors),
      scratch_(*problem_) {
    check(config_);
    current_.device_of.resize(problem_->num_ops);
    current_.ops.resize(problem_->num_ops);
    best_ = current_;
    order_.reserve(max_steps(*problem_));
}

void LocalSearch::advance(int64_t evaluations, int64_t at_most) {
    const int64_t pause = pause_at(evaluations_, evaluations, at_most);
    while (evaluations_ < pause) {
        const auto number = static_cast<uint64_t>(evaluations_ / config_.evaluations_per_start);
        const auto move = static_cast<uint64_t>(evaluations_ % config_.evaluations_per_start);
        move == 0 ? start(number) : try_move({seed_, number, move, kMove});
    }
}

// Starts with ops in captured order and random devices.
void LocalSearch::start(uint64_t number) {
    const RandomStream stream(seed_, number, 0, kPlacement);
    std::iota(current_.ops.begin(), current_.ops.end(), 0);
    std::iota(place_of_.begin(), place_of_.end(), 0);
    for (int32_t op = 0; op < problem_->num_ops; ++op) {
        const auto first = static_cast<uint64_t>(problem_->group[op]);
        const uint64_t allowed = problem_->allowed[op] & problem_->everywhere();
        current_.device_of[op] = drawn_bit(allowed, stream.bits(first));
    }
    spend(evaluate_current());
}

void LocalSearch::try_move(const RandomStream& stream) {
    const auto threshold = static_cast<uint32_t>(std::lround(config_.device_share * 65536));
    const Move move = stream.below(kKind, 65536) < threshold ? draw_device(stream) : draw_place(stream);
    apply(move);
    const Fitness fitness = evaluate_current();
    if (fitness < current_.fitness || (config_.accept_equal && fitness == current_.fitness)) {
        spend(fitness);
    } else {
        apply(move.reversed());
        spend(current_.fitness);
    }
}

// Counts an evaluation after which the current solution costs `fitness`.
void LocalSearch::spend(const Fitness& fitness) {
    current_.fitness = fitness;
    if (evaluations_ == 0 || fitness < best_.fitness) best_ = current_;
    ++evaluations_;
}

LocalSearch::Move LocalSearch::draw_device(const RandomStream& stream) const {
    const auto op = static_cast<int32_t>(stream.below(kOp, uint32_t(problem_->num_ops)));
    const int32_t from = current_.device_of[op];
    const uint64_t others = problem_->allowed[op] & problem_->everywhere() & ~(uint64_t{1} << from);
    if (others == 0) return {true, op, from, from};
    return {true, op, from, drawn_bit(others, stream.bits(kTarget))};
}

// Draws a place after everything the op depends on and before everything that depends on it.
LocalSearch::Move LocalSearch::draw_place(const RandomStream& stream) const {
    const Problem& p = *problem_;
    const auto op = static_cast<int32_t>(stream.below(kOp, uint32_t(p.num_ops)));
    const int32_t from = place_of_[op];
    int32_t first = std::max<int32_t>(0, from - config_.reach);
    int32_t last = from < p.num_ops - 1 - config_.reach ? from + config_.reach : p.num_ops - 1;
    for (int32_t tensor : p.inputs[op]) first = std::max(first, place_of_[p.producer[tensor]] + 1);
    for (int32_t before : p.predecessors[op]) first = std::max(first, place_of_[before] + 1);
    for (int32_t edge : p.edges[op]) last = std::min(last, place_of_[edge / 2] - 1);
    if (first == last) return {false, op, from, from};
    const int32_t to = first + static_cast<int32_t>(stream.below(kTarget, uint32_t(last - first)));
    return {false, op, from, to < from ? to : to + 1};
}

void LocalSearch::apply(const Move& move) {
    if (move.of_device) {
        for (int32_t op : problem_->members[problem_->group[move.op]]) current_.device_of[op] = move.to;
        return;
    }
    const auto at = [&](int32_t place) { return current_.ops.begin() + place; };
    if (move.to < move.from)
        std::rotate(at(move.to), at(move.from), at(move.from + 1));
    else
        std::rotate(at(move.from), at(move.from + 1), at(move.to + 1));
    const auto [first, last] = std::minmax(move.from, move.to);
    for (int32_t place = first; place <= last; ++place) place_of_[current_.ops[place]] = place;
}

Solution LocalSearch::best() const {
    return {best_.device_of, with_transfers(*problem_, best_.device_of, best_.ops, TransferTiming::early)};
}

// Builds the same order as with_transfers(early), without allocating.
Fitness LocalSearch::evaluate_current() {
    const Problem& p = *problem_;
    const std::vector<int32_t>& device_of = current_.device_of;
    std::ranges::fill(destinations_, 0);
    for (size_t i = 0; i < p.consumers.values.size(); ++i)
        destinations_[p.tensor_of_consumer[i]] |= uint64_t{1} << device_of[p.consumers.values[i]];
    order_.clear();
    for (int32_t op : current_.ops) {
        order_.push_back(Step::op(op));
        for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
            for (uint64_t mask = destinations_[tensor] & ~(uint64_t{1} << device_of[op]); mask != 0; mask &= mask - 1)
                order_.push_back({tensor, std::countr_zero(mask)});
    }
    return evaluate(p, device_of, order_, scratch_);
}

}  // namespace placewright
