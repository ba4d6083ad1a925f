// Heads and tails of a disjunctive graph. Places are visited in order, but only those where something changed.
#include <algorithm>
#include <bit>

#include "improve/disjunctive_graph.hpp"

namespace placewright {

// ---- Estimates

bool DisjunctiveGraph::may_end_within(std::span<const Edit> edits, int64_t at_most) {
    moving_.clear();
    for (const Edit& edit : edits) {
        if (edit.kind != Edit::Kind::device) return true;
        moving_.push_back(edit.id);
    }
    for (const Edit& edit : edits) {
        goes_to_[edit.id] = edit.to;
        last_estimated_[edit.to] = 0;
    }
    std::ranges::sort(moving_, {}, [&](int32_t op) { return place_of_[op]; });
    bool may_end = true;
    int64_t freed = 0;  // time freed where moved ops before it were
    for (int32_t op : moving_) {
        const int32_t device = goes_to_[op];
        const auto [before, after] = neighbours_on(device, op);
        estimated_[op] = last_estimated_[device] = estimate_head(op, device, before) + problem_->op_time(op, device);
        may_end = estimated_[op] + estimate_tail(op, device, after) - freed <= at_most;
        freed += node(op).duration;
        if (!may_end) break;
    }
    for (int32_t op : moving_) goes_to_[op] = -1;
    return may_end;
}

int64_t DisjunctiveGraph::estimate_head(int32_t op, int32_t device, NodeId before) const {
    int64_t head = std::max(last_estimated_[device], node(before).finish);
    for (int32_t tensor : inputs_[op]) {
        const int32_t producer = problem_->producer[tensor];
        const bool moves = goes_to_[producer] >= 0;
        const int32_t source = moves ? goes_to_[producer] : device_of_[producer];
        const int64_t finish = moves ? estimated_[producer] : node(producer).finish;
        head = std::max(head, finish + (source == device ? 0 : problem_->transfer_time(tensor, source, device)));
    }
    return head;
}

int64_t DisjunctiveGraph::estimate_tail(int32_t op, int32_t device, NodeId after) const {
    const Problem& p = *problem_;
    int64_t tail = node(after).through;
    for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
        for (int32_t consumer : p.consumers[tensor]) {
            const int32_t there = device_of_[consumer];
            const int64_t moving = there == device ? 0 : p.transfer_time(tensor, device, there);
            if (goes_to_[consumer] < 0) tail = std::max(tail, moving + node(consumer).through);
        }
    return tail;
}

// Returns the nodes of the device between which the op would be, ignoring those that leave it.
DisjunctiveGraph::Neighbours DisjunctiveGraph::neighbours_on(int32_t device, int32_t op) const {
    const auto& ids = sequences_[size_t(device)];
    const auto leaves = [&](NodeId id) { return is_op(id) && goes_to_[id] >= 0; };
    auto after = std::ranges::lower_bound(ids, sequence_key(op), {}, [&](NodeId id) { return sequence_key(id); });
    auto before = after;
    while (before != ids.begin() && leaves(*(before - 1))) --before;
    while (after != ids.end() && leaves(*after)) ++after;
    return {before == ids.begin() ? -1 : *(before - 1), after == ids.end() ? -1 : *after};
}

// ---- Launches

// Computes when hosts reach each place after a change. With `marks`, marks places where a step may then start at
// another time.
void DisjunctiveGraph::relaunch(bool marks) {
    if (num_hosts_ == 0 || last_relaunched_ < 0) return;
    int32_t place = first_relaunched_;
    for (; place <= last_relaunched_; ++place) {
        std::ranges::copy_n(launching_from_.begin() + int64_t(place) * num_hosts_, num_hosts_, host_clock_.begin());
        launch_at(place);
        if (marks) dirty_.insert(place);
        const auto next = launching_from_.begin() + int64_t(place + 1) * num_hosts_;
        for (int32_t host = 0; host < num_hosts_; ++host) {
            shift_[host] = host_clock_[host] - next[host];
            next[host] = host_clock_[host];
        }
    }
    shifted_.clear();
    for (int32_t host = 0; host < num_hosts_; ++host)
        if (shift_[host] != 0) shifted_.push_back(host);
    if (shifted_.empty()) return;
    work_ += int64_t(problem_->num_ops - place) * int64_t(shifted_.size()) / kShiftsPerWork;
    for (; place < problem_->num_ops; ++place) shift_launches(place, marks);
}

// Shifts the launches at a place by as much as those before it; those of the next place follow.
void DisjunctiveGraph::shift_launches(int32_t place, bool marks) {
    const int64_t* from = &launching_from_[size_t(place) * size_t(num_hosts_)];
    int64_t* next = &launching_from_[size_t(place + 1) * size_t(num_hosts_)];
    for (int32_t host : shifted_) next[host] += shift_[host];
    if (!marks) return;
    const int32_t op = ops_[place], host = problem_->host_of[device_of_[op]];
    const Node& at = node(op);
    if (at.sent > 0 || at.received > 0) return dirty_.insert(place);
    if (host < 0 || shift_[host] == 0) return;
    const int64_t now = from[host] + problem_->launch(op, device_of_[op]).lead_ns, start = at.finish - at.duration;
    if (start < now || start == now - shift_[host]) dirty_.insert(place);
}

// Advances the clocks of the hosts past a place.
void DisjunctiveGraph::launch_at(int32_t place) {
    const Problem& p = *problem_;
    const int32_t op = ops_[place];
    if (node(op).received > 0)
        for (int32_t tensor : inputs_[op])
            if (const NodeId id = transfer(tensor, device_of_[op]); node(id).reader == op && !early_[tensor])
                launched_transfer(id);
    launched(op);
    if (node(op).sent == 0) return;
    for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
        if (early_[tensor])
            for (uint64_t mask = sent_to_[tensor]; mask != 0; mask &= mask - 1)
                launched_transfer(transfer(tensor, std::countr_zero(mask)));
}

// Advances the host's clock; returns when the op may start as far as its launch is concerned.
int64_t DisjunctiveGraph::launched(int32_t op) {
    const int32_t device = device_of_[op], host = problem_->host_of[device];
    if (host < 0) return 0;
    const Launch& launch = problem_->launch(op, device);
    if (launch.host_ns == 0) return 0;
    const int64_t begin = host_clock_[host];
    host_clock_[host] += launch.host_ns;
    return begin + launch.lead_ns;
}

int64_t DisjunctiveGraph::launched_transfer(NodeId id) {
    const Node& at = node(id);
    const int32_t launcher = problem_->launcher(device_of_[at.producer], device_of_[at.reader]);
    if (launcher < 0 || at.duration == 0) return 0;
    return host_clock_[problem_->host_of[launcher]] += problem_->launch_ns[launcher];
}

// ---- Heads

bool DisjunctiveGraph::propagate_heads(int64_t at_most) {
    for (int32_t place = dirty_.first(); place >= 0; place = dirty_.first(place)) {
        ++work_;
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

// Visits all nodes at a place, in order. In the blocking model everything an op waits for precedes it on its device.
bool DisjunctiveGraph::visit_heads(int32_t place, int64_t at_most) {
    const Problem& p = *problem_;
    const int32_t op = ops_[place], here = device_of_[op];
    const Node& at = node(op);
    if (num_hosts_ > 0)
        std::ranges::copy_n(launching_from_.begin() + int64_t(place) * num_hosts_, num_hosts_, host_clock_.begin());
    int64_t arrived = 0;
    if (at.received > 0)
        for (int32_t tensor : inputs_[op]) {
            const NodeId id = transfer(tensor, here);
            if (node(id).reader != op) continue;
            if (!early_[tensor] && !visit_transfer_head(id, place, at_most)) return false;
            arrived = std::max(arrived, node(id).finish);
        }
    int64_t begin = std::max(arrived, node(at.beside[0].before).finish);
    if (num_hosts_ > 0) begin = std::max(begin, launched(op));
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
    int64_t begin = std::max(node(at.beside[0].before).finish, ready);
    if (num_hosts_ > 0) begin = std::max(begin, launched_transfer(id));
    if (begin + at.duration == at.finish) return true;
    if (!set_finish(id, begin, place, at_most)) return false;
    if (problem_->blocking)
        mark_next(at.beside[1].after);
    else if (at.anchor != at.reader)
        mark(at.reader);
    return true;
}

// Returns false if the step can no longer end within `at_most`.
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
        ++work_;
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

// Returns whether it changed.
bool DisjunctiveGraph::set_through(NodeId id, int64_t longest) {
    Node& at = node(id);
    if (at.through == longest + at.duration) return false;
    at.through = longest + at.duration;
    mark_next(at.beside[0].before);
    return true;
}

}  // namespace placewright
