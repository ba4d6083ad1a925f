#include "improve/op_order.hpp"

#include <algorithm>

namespace placewright {

OpOrder::OpOrder(const Problem& problem, std::span<const int32_t> ops)
    : problem_(problem), ops_(ops.begin(), ops.end()), place_of_(ops.size()), marked_at_(ops.size()) {
    before_.reserve(ops.size());
    apart_.reserve(ops.size());
    number({0, problem.num_ops - 1});
}

void OpOrder::assign(std::span<const int32_t> ops) {
    std::ranges::copy(ops, ops_.begin());
    number({0, problem_.num_ops - 1});
    window_ = {};
}

OpOrder::Window OpOrder::move(int32_t op, int32_t to) {
    const int32_t from = place_of_[op];
    window_ = {};
    if (to < from) window_ = move_earlier(from, to);
    if (to > from) window_ = move_later(from, to);
    return window_;
}

void OpOrder::undo() {
    if (window_.empty()) return;
    std::ranges::copy(before_, ops_.begin() + window_.first);
    number(window_);
    window_ = {};
}

void OpOrder::begin_marking(int32_t first, int32_t last) {
    ++mark_;
    before_.assign(ops_.begin() + first, ops_.begin() + last + 1);
    apart_.clear();
}

// Scans from the last place to the first. Marked ops keep their order and come first; the others follow.
OpOrder::Window OpOrder::move_earlier(int32_t from, int32_t to) {
    begin_marking(to, from);
    mark(ops_[from]);
    int32_t front = from;  // marked ops gather from here to the end
    for (int32_t place = from; place >= to; --place) {
        const int32_t op = ops_[place];
        if (!is_marked(op)) {
            apart_.push_back(op);
            continue;
        }
        for (int32_t tensor : problem_.inputs[op]) mark(problem_.producer[tensor]);
        for (int32_t previous : problem_.predecessors[op]) mark(previous);
        ops_[front--] = op;
    }
    if (apart_.empty()) return {};
    std::copy(ops_.begin() + front + 1, ops_.begin() + from + 1, ops_.begin() + to);
    std::ranges::copy(apart_.rbegin(), apart_.rend(), ops_.begin() + to + (from - front));
    number({to, from});
    return {to, from};
}

OpOrder::Window OpOrder::move_later(int32_t from, int32_t to) {
    begin_marking(from, to);
    mark(ops_[from]);
    int32_t front = from;  // unmarked ops gather before it
    for (int32_t place = from; place <= to; ++place) {
        const int32_t op = ops_[place];
        if (!is_marked(op)) {
            ops_[front++] = op;
            continue;
        }
        for (int32_t edge : problem_.edges[op]) mark(edge / 2);
        apart_.push_back(op);
    }
    if (front == from) return {};
    std::ranges::copy(apart_, ops_.begin() + front);
    number({from, to});
    return {from, to};
}

void OpOrder::number(Window window) {
    for (int32_t place = window.first; place <= window.last; ++place) place_of_[ops_[place]] = place;
}

}  // namespace placewright
