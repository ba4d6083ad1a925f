// Heads and tails of a disjunctive graph: places are visited in order, only those where something changed.
#include <algorithm>
#include <bit>

#include "disjunctive_graph.hpp"

namespace placewright {

// ---- Heads

bool DisjunctiveGraph::propagate_heads(int64_t at_most) {
    for (int32_t place = dirty_.first(); place >= 0; place = dirty_.first(place)) {
        if (!visit_heads(place, at_most)) {
            dirty_.clear();
            return false;
        }
        dirty_.erase(place);
    }
    step_time_ = 0;
    for (int32_t device = 0; device < problem_->num_devices; ++device)
        if (!sequences_[size_t(device)].empty())
            step_time_ = std::max(step_time_, node(sequences_[size_t(device)].back()).finish);
    return step_time_ <= at_most;
}

// All that stands at a place, in order. In the blocking model what an op waits for stands before it on its device.
bool DisjunctiveGraph::visit_heads(int32_t place, int64_t at_most) {
    const Problem& p = *problem_;
    const int32_t op = ops_[place], here = device_of_[op];
    const Node& at = node(op);
    int64_t arrived = 0;
    if (at.received > 0)
        for (int32_t tensor : inputs_[op]) {
            const NodeId id = transfer(tensor, here);
            if (node(id).reader != op) continue;
            if (!early_[tensor] && !visit_transfer_head(id, place, at_most)) return false;
            arrived = std::max(arrived, node(id).finish);
        }
    int64_t begin = std::max(arrived, node(at.beside[0].before).finish);
    if (signals_)
        for (int32_t before : p.predecessors[op]) {
            const int32_t there = device_of_[before];
            const int64_t latency = there == here ? 0 : p.latency_ns[size_t(there) * p.num_devices + here];
            begin = std::max(begin, node(before).finish + latency);
        }
    const bool changed = begin + at.duration != at.finish;
    if (changed) {
        total_finish_ += begin + at.duration - at.finish;
        if (!set_finish(op, begin, place, at_most)) return false;
        if (signals_)
            for (int32_t next : p.controls[op])
                if (device_of_[next] != here) mark(next);
    }
    if (at.sent == 0) return true;
    for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
        for (uint64_t mask = sent_to_[tensor]; mask != 0; mask &= mask - 1) {
            const NodeId id = transfer(tensor, std::countr_zero(mask));
            if (early_[tensor] && !visit_transfer_head(id, place, at_most)) return false;
            if (changed && !early_[tensor] && !p.blocking) mark(id);
        }
    return true;
}

bool DisjunctiveGraph::visit_transfer_head(NodeId id, int32_t place, int64_t at_most) {
    const Node& at = node(id);
    const int64_t ready = problem_->blocking ? node(at.beside[1].before).finish : node(at.producer).finish;
    const int64_t begin = std::max(node(at.beside[0].before).finish, ready);
    if (begin + at.duration == at.finish) return true;
    if (!set_finish(id, begin, place, at_most)) return false;
    if (problem_->blocking)
        mark_next(at.beside[1].after);
    else if (at.anchor != at.reader)
        mark(at.reader);
    return true;
}

// False when the step cannot end within `at_most` any more.
bool DisjunctiveGraph::set_finish(NodeId id, int64_t begin, int32_t place, int64_t at_most) {
    Node& at = node(id);
    saved_.push_back({id, at.finish});
    at.finish = begin + at.duration;
    if (place > last_changed_place_ && begin + at.through > at_most) return false;
    mark_next(at.beside[0].after);
    return true;
}

// ---- Tails

void DisjunctiveGraph::propagate_tails() {
    for (int32_t place = dirty_.last(problem_->num_ops - 1); place >= 0; place = dirty_.last(place)) {
        visit_tails(place);
        dirty_.erase(place);
    }
}

void DisjunctiveGraph::visit_tails(int32_t place) {
    const Problem& p = *problem_;
    const int32_t op = ops_[place], here = device_of_[op];
    const Node& at = node(op);
    int64_t longest = 0;
    if (at.sent > 0)
        for (int32_t tensor = p.output_begin[op + 1]; tensor-- > p.output_begin[op];)
            for (uint64_t mask = sent_to_[tensor]; mask != 0;) {
                const int32_t device = 63 - std::countl_zero(mask);
                mask &= ~(uint64_t{1} << device);
                const NodeId id = transfer(tensor, device);
                if (early_[tensor]) visit_transfer_tail(id);
                longest = std::max(longest, node(id).through);
            }
    longest = std::max(p.blocking ? 0 : longest, node(at.beside[0].after).through);
    if (signals_)
        for (int32_t next : p.controls[op]) {
            const int32_t there = device_of_[next];
            const int64_t latency = there == here ? 0 : p.latency_ns[size_t(here) * p.num_devices + there];
            longest = std::max(longest, latency + node(next).through);
        }
    const bool changed = set_through(op, longest);
    if (changed && signals_)
        for (int32_t before : p.predecessors[op])
            if (device_of_[before] != here) mark(before);
    if (at.received == 0) return;
    const auto inputs = inputs_[op];
    for (size_t i = inputs.size(); i-- > 0;) {
        const NodeId id = transfer(inputs[i], here);
        if (node(id).reader != op) continue;
        if (!early_[inputs[i]])
            visit_transfer_tail(id);
        else if (changed && !p.blocking)
            mark(id);
    }
}

void DisjunctiveGraph::visit_transfer_tail(NodeId id) {
    const Node& at = node(id);
    const int64_t needed = problem_->blocking ? node(at.beside[1].after).through : node(at.reader).through;
    if (!set_through(id, std::max(node(at.beside[0].after).through, needed))) return;
    if (problem_->blocking)
        mark_next(at.beside[1].before);
    else if (at.anchor != at.producer)
        mark(at.producer);
}

// Whether it changed.
bool DisjunctiveGraph::set_through(NodeId id, int64_t longest) {
    Node& at = node(id);
    if (at.through == longest + at.duration) return false;
    at.through = longest + at.duration;
    mark_next(at.beside[0].before);
    return true;
}

}  // namespace placewright
