#include "disjunctive_graph.hpp"

#include <algorithm>
#include <bit>

namespace placewright {

namespace {

Csr with_ascending_rows(Csr csr) {
    for (int32_t row = 0; row < csr.num_rows(); ++row)
        std::sort(csr.values.begin() + csr.begin[row], csr.values.begin() + csr.begin[row + 1]);
    return csr;
}

template <class F>
void for_each_device(uint64_t mask, F&& f) {
    for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

}  // namespace

DisjunctiveGraph::DisjunctiveGraph(std::shared_ptr<const Problem> problem)
    : problem_(std::move(problem)),
      signals_(problem_->signals && !problem_->controls.values.empty()),
      inputs_(with_ascending_rows(problem_->inputs)),
      device_of_(problem_->num_ops),
      ops_(problem_->num_ops),
      place_of_(problem_->num_ops),
      early_(problem_->num_tensors),
      sent_to_(problem_->num_tensors),
      reader_(size_t(problem_->num_tensors) * problem_->num_devices, -1),
      sequences_(problem_->num_devices * (problem_->blocking ? 1 : 1 + problem_->num_devices)),
      affected_epoch_(problem_->num_tensors),
      dirty_(problem_->num_ops) {
    const size_t num_nodes = problem_->num_ops + reader_.size();
    neighbours_[0].resize(num_nodes);
    if (problem_->blocking) neighbours_[1].resize(num_nodes);
    finish_.resize(num_nodes);
    through_.resize(num_nodes);
}

void DisjunctiveGraph::load(std::span<const int32_t> device_of, std::span<const int32_t> ops,
                            std::span<const uint8_t> early) {
    std::ranges::copy(device_of, device_of_.begin());
    std::ranges::copy(ops, ops_.begin());
    std::ranges::copy(early, early_.begin());
    for (int32_t place = 0; place < problem_->num_ops; ++place) place_of_[ops_[place]] = place;
    for (auto& sequence : sequences_) sequence.clear();
    for (int32_t op : ops_) append_to_sequences(op);
    saved_.clear();
    last_changed_place_ = INT32_MAX;
    for (int32_t place = 0; place < problem_->num_ops; ++place) dirty_.insert(place);
    propagate_heads(INT64_MAX);
    saved_.clear();
    total_finish_ = 0;
    for (int32_t op = 0; op < problem_->num_ops; ++op) total_finish_ += finish_[size_t(op)];
    for (int32_t place = 0; place < problem_->num_ops; ++place) dirty_.insert(place);
    propagate_tails();
}

// ---- Sequences

int64_t DisjunctiveGraph::time_of(Node node) const {
    if (is_op(node)) return problem_->op_time(node, device_of_[node]);
    return problem_->transfer_time(tensor_of(node), home(tensor_of(node)), destination_of(node));
}

int64_t DisjunctiveGraph::sequence_key(Node node) const {
    const int64_t phase = is_op(node) ? 1 : early_[tensor_of(node)] ? 2 : 0;
    return (int64_t(place_of_[anchor(node)]) * 3 + phase) << 32 | node;
}

// Calls f(sequence, side) for each sequence the node stands in.
template <class F>
void DisjunctiveGraph::for_each_sequence(Node node, F&& f) {
    if (is_op(node)) return f(device_of_[node], 0);
    const int32_t source = home(tensor_of(node)), destination = destination_of(node);
    if (!problem_->blocking) return f(problem_->num_devices * (1 + source) + destination, 0);
    f(source, 0);
    f(destination, 1);
}

int DisjunctiveGraph::side_in(Node node, int32_t sequence) const {
    return !problem_->blocking || is_op(node) || home(tensor_of(node)) == sequence ? 0 : 1;
}

void DisjunctiveGraph::join(Node before, Node after, int32_t sequence) {
    if (before >= 0) neighbours_[side_in(before, sequence)][size_t(before)].after = after;
    if (after >= 0) neighbours_[side_in(after, sequence)][size_t(after)].before = before;
}

void DisjunctiveGraph::insert(Node node) {
    const int64_t key = sequence_key(node);
    for_each_sequence(node, [&](int32_t sequence, int side) {
        auto& nodes = sequences_[size_t(sequence)];
        const auto place = std::ranges::lower_bound(nodes, key, {}, [&](Node other) { return sequence_key(other); });
        const Node before = place == nodes.begin() ? -1 : *(place - 1), after = place == nodes.end() ? -1 : *place;
        neighbours_[side][size_t(node)] = {before, after};
        join(before, node, sequence);
        join(node, after, sequence);
        nodes.insert(place, node);
        touch(before);
        touch(after);
    });
    touch(node);
}

void DisjunctiveGraph::remove(Node node) {
    const int64_t key = sequence_key(node);
    for_each_sequence(node, [&](int32_t sequence, int side) {
        auto& nodes = sequences_[size_t(sequence)];
        nodes.erase(std::ranges::lower_bound(nodes, key, {}, [&](Node other) { return sequence_key(other); }));
        const auto [before, after] = neighbours_[side][size_t(node)];
        join(before, after, sequence);
        touch(before);
        touch(after);
    });
}

// ---- Moves

bool DisjunctiveGraph::try_move(std::span<const Edit> edits, int64_t at_most) {
    saved_.clear();
    touched_.clear();
    previous_step_time_ = step_time_;
    previous_total_finish_ = total_finish_;
    edits_.assign(edits.begin(), edits.end());
    collect_affected();
    rewire();
    last_changed_place_ = 0;
    for (Node node : touched_) {
        if (is_absent(node)) continue;
        last_changed_place_ = std::max(last_changed_place_, place_of_[anchor(node)]);
        mark(node);
    }
    for (const Edit& edit : edits_) {
        if (edit.kind != Edit::Kind::device) continue;
        for (int32_t edge : problem_->edges[edit.id]) mark(edge / 2);
    }
    return propagate_heads(at_most);
}

void DisjunctiveGraph::undo() {
    rewire();
    for (size_t i = saved_.size(); i-- > 0;) finish_[size_t(saved_[i].node)] = saved_[i].finish;
    step_time_ = previous_step_time_;
    total_finish_ = previous_total_finish_;
}

void DisjunctiveGraph::keep() {
    for (Node node : touched_)
        if (!is_absent(node)) mark(node);
    for (int32_t tensor : affected_) mark(problem_->producer[tensor]);
    if (signals_)
        for (const Edit& edit : edits_) {
            if (edit.kind != Edit::Kind::device) continue;
            for (int32_t before : problem_->predecessors[edit.id]) mark(before);
        }
    propagate_tails();
}

// The tensors whose transfers the edits may change.
void DisjunctiveGraph::collect_affected() {
    affected_.clear();
    ++epoch_;
    const auto affect = [&](int32_t tensor) {
        if (affected_epoch_[tensor] == epoch_) return;
        affected_epoch_[tensor] = epoch_;
        affected_.push_back(tensor);
    };
    for (const Edit& edit : edits_) {
        if (edit.kind == Edit::Kind::sending) {
            affect(edit.id);
            continue;
        }
        for (int32_t tensor : inputs_[edit.id]) affect(tensor);
        for (int32_t tensor = problem_->output_begin[edit.id]; tensor < problem_->output_begin[edit.id + 1]; ++tensor)
            if (edit.kind == Edit::Kind::device || early_[tensor]) affect(tensor);
    }
}

// Makes the edits and leaves behind those that take them back.
void DisjunctiveGraph::rewire() {
    for (int32_t tensor : affected_) detach_transfers(tensor);
    for (Edit& edit : edits_) apply(edit);
    std::ranges::reverse(edits_);
    for (int32_t tensor : affected_) attach_transfers(tensor);
}

void DisjunctiveGraph::apply(Edit& edit) {
    if (edit.kind == Edit::Kind::sending) {
        const int32_t before = early_[edit.id];
        early_[edit.id] = static_cast<uint8_t>(edit.to);
        edit.to = before;
        return;
    }
    remove(edit.id);
    if (edit.kind == Edit::Kind::device)
        std::swap(device_of_[edit.id], edit.to);
    else
        edit.to = move_to(edit.id, edit.to);
    insert(edit.id);
}

// Returns the place it comes from.
int32_t DisjunctiveGraph::move_to(int32_t op, int32_t to) {
    const int32_t from = place_of_[op];
    const int32_t step = to < from ? -1 : 1;
    for (int32_t place = from; place != to; place += step) {
        ops_[place] = ops_[place + step];
        place_of_[ops_[place]] = place;
    }
    ops_[to] = op;
    place_of_[op] = to;
    return from;
}

void DisjunctiveGraph::detach_transfers(int32_t tensor) {
    for_each_device(sent_to_[tensor], [&](int32_t device) {
        const Node node = transfer(tensor, device);
        remove(node);
        reader(node) = -1;
    });
    sent_to_[tensor] = 0;
}

void DisjunctiveGraph::attach_transfers(int32_t tensor) {
    find_readers(tensor);
    for_each_device(sent_to_[tensor], [&](int32_t device) { insert(transfer(tensor, device)); });
}

// Where the tensor goes, and which op reads it there first.
void DisjunctiveGraph::find_readers(int32_t tensor) {
    const int32_t here = home(tensor);
    int32_t* readers = reader_.data() + size_t(tensor) * size_t(problem_->num_devices);
    uint64_t mask = 0;
    for (int32_t consumer : problem_->consumers[tensor]) {
        const int32_t device = device_of_[consumer];
        if (device == here) continue;
        const bool first = !(mask >> device & 1) || place_of_[consumer] < place_of_[readers[device]];
        if (first) readers[device] = consumer;
        mask |= uint64_t{1} << device;
    }
    sent_to_[tensor] = mask;
}

// Without a search: the caller goes through the ops in order.
void DisjunctiveGraph::append_to_sequences(int32_t op) {
    const auto append = [&](Node node) {
        for_each_sequence(node, [&](int32_t sequence, int side) {
            auto& nodes = sequences_[size_t(sequence)];
            neighbours_[side][size_t(node)].after = -1;
            join(nodes.empty() ? -1 : nodes.back(), node, sequence);
            nodes.push_back(node);
        });
    };
    const int32_t here = device_of_[op];
    for (int32_t tensor : inputs_[op])
        if (const Node node = transfer(tensor, here); !early_[tensor] && reader(node) == op) append(node);
    append(op);
    for (int32_t tensor = problem_->output_begin[op]; tensor < problem_->output_begin[op + 1]; ++tensor) {
        std::fill_n(reader_.begin() + int64_t(tensor) * problem_->num_devices, problem_->num_devices, -1);
        find_readers(tensor);
        if (early_[tensor])
            for_each_device(sent_to_[tensor], [&](int32_t device) { append(transfer(tensor, device)); });
    }
}

// ---- Heads

bool DisjunctiveGraph::propagate_heads(int64_t at_most) {
    for (int32_t place = dirty_.first(); place >= 0; place = dirty_.first()) {
        if (!visit_heads(ops_[place], at_most)) {
            dirty_.clear();
            return false;
        }
        dirty_.erase(place);
    }
    step_time_ = 0;
    for (int32_t device = 0; device < problem_->num_devices; ++device)
        if (!sequences_[size_t(device)].empty())
            step_time_ = std::max(step_time_, finish_[size_t(sequences_[size_t(device)].back())]);
    return step_time_ <= at_most;
}

int64_t DisjunctiveGraph::finish_before(Node node, int side) const {
    const Node before = neighbours_[side][size_t(node)].before;
    return before < 0 ? 0 : finish_[size_t(before)];
}

// All that stands at the place of one op, in order.
bool DisjunctiveGraph::visit_heads(int32_t op, int64_t at_most) {
    const Problem& p = *problem_;
    const int32_t here = device_of_[op];
    ++visited_;
    int64_t begin = 0;
    for (int32_t tensor : inputs_[op]) {
        const Node node = transfer(tensor, here);
        if (reader(node) != op) continue;
        if (!early_[tensor] && !visit_transfer_head(node, at_most)) return false;
        begin = std::max(begin, finish_[size_t(node)]);
    }
    begin = std::max(begin, finish_before(op, 0));
    if (signals_)
        for (int32_t before : p.predecessors[op]) {
            const int32_t there = device_of_[before];
            const int64_t latency = there == here ? 0 : p.latency_ns[size_t(there) * p.num_devices + here];
            begin = std::max(begin, finish_[size_t(before)] + latency);
        }
    if (!set_finish(op, begin, begin + p.op_time(op, here), at_most)) return false;
    for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor) {
        if (!early_[tensor]) continue;
        bool within = true;
        for_each_device(sent_to_[tensor], [&](int32_t device) {
            within = within && visit_transfer_head(transfer(tensor, device), at_most);
        });
        if (!within) return false;
    }
    return true;
}

bool DisjunctiveGraph::visit_transfer_head(Node node, int64_t at_most) {
    const int64_t ready = problem_->blocking ? finish_before(node, 1) : finish_[problem_->producer[tensor_of(node)]];
    const int64_t begin = std::max(finish_before(node, 0), ready);
    return set_finish(node, begin, begin + time_of(node), at_most);
}

// False when the step cannot end within `at_most` any more.
bool DisjunctiveGraph::set_finish(Node node, int64_t begin, int64_t finish, int64_t at_most) {
    int64_t& stored = finish_[size_t(node)];
    if (stored == finish) return true;
    saved_.push_back({node, stored});
    if (is_op(node)) total_finish_ += finish - stored;
    stored = finish;
    if (place_of_[anchor(node)] > last_changed_place_ && begin + through_[size_t(node)] > at_most) return false;
    for (const auto& neighbours : neighbours_) {
        const Node after = neighbours.empty() ? -1 : neighbours[size_t(node)].after;
        if (after >= 0) mark(after);
    }
    if (is_op(node)) {
        for (int32_t tensor = problem_->output_begin[node]; tensor < problem_->output_begin[node + 1]; ++tensor)
            for_each_device(sent_to_[tensor], [&](int32_t device) { mark(transfer(tensor, device)); });
        if (signals_)
            for (int32_t next : problem_->controls[node])
                if (device_of_[next] != device_of_[node]) mark(next);
    } else if (!problem_->blocking) {
        mark(reader(node));
    }
    return true;
}

// ---- Tails

void DisjunctiveGraph::propagate_tails() {
    for (int32_t place = dirty_.last(); place >= 0; place = dirty_.last()) {
        visit_tails(ops_[place]);
        dirty_.erase(place);
    }
}

int64_t DisjunctiveGraph::through_after(Node node, int side) const {
    const Node after = neighbours_[side][size_t(node)].after;
    return after < 0 ? 0 : through_[size_t(after)];
}

void DisjunctiveGraph::visit_tails(int32_t op) {
    const Problem& p = *problem_;
    const int32_t here = device_of_[op];
    ++visited_;
    int64_t longest = 0;
    for (int32_t tensor = p.output_begin[op + 1]; tensor-- > p.output_begin[op];)
        for (uint64_t mask = sent_to_[tensor]; mask != 0;) {
            const int32_t device = 63 - std::countl_zero(mask);
            mask &= ~(uint64_t{1} << device);
            if (early_[tensor]) visit_transfer_tail(transfer(tensor, device));
            longest = std::max(longest, through_[size_t(transfer(tensor, device))]);
        }
    longest = std::max(p.blocking ? 0 : longest, through_after(op, 0));
    if (signals_)
        for (int32_t next : p.controls[op]) {
            const int32_t there = device_of_[next];
            const int64_t latency = there == here ? 0 : p.latency_ns[size_t(here) * p.num_devices + there];
            longest = std::max(longest, latency + through_[size_t(next)]);
        }
    set_through(op, longest + p.op_time(op, here));
    const auto inputs = inputs_[op];
    for (size_t i = inputs.size(); i-- > 0;)
        if (const Node node = transfer(inputs[i], here); !early_[inputs[i]] && reader(node) == op)
            visit_transfer_tail(node);
}

void DisjunctiveGraph::visit_transfer_tail(Node node) {
    int64_t longest = through_after(node, 0);
    const int64_t needed = problem_->blocking ? through_after(node, 1) : through_[size_t(reader(node))];
    set_through(node, std::max(longest, needed) + time_of(node));
}

void DisjunctiveGraph::set_through(Node node, int64_t through) {
    int64_t& stored = through_[size_t(node)];
    if (stored == through) return;
    stored = through;
    for (const auto& neighbours : neighbours_) {
        const Node before = neighbours.empty() ? -1 : neighbours[size_t(node)].before;
        if (before >= 0) mark(before);
    }
    if (!is_op(node)) return mark(problem_->producer[tensor_of(node)]);
    const int32_t here = device_of_[node];
    for (int32_t tensor : inputs_[node])
        if (const Node input = transfer(tensor, here); reader(input) == node) mark(input);
    if (signals_)
        for (int32_t before : problem_->predecessors[node])
            if (device_of_[before] != here) mark(before);
}

// ---- Solutions

int32_t DisjunctiveGraph::previous_on_device(int32_t op) const {
    const int32_t device = device_of_[op];
    Node before = neighbours_[0][size_t(op)].before;
    while (before >= 0 && !is_op(before)) before = neighbours_[side_in(before, device)][size_t(before)].before;
    return before;
}

void DisjunctiveGraph::write_order(std::vector<Step>& order) const {
    order.clear();
    for (int32_t op : ops_) {
        const int32_t here = device_of_[op];
        for (int32_t tensor : inputs_[op])
            if (!early_[tensor] && reader(transfer(tensor, here)) == op) order.push_back({tensor, here});
        order.push_back(Step::op(op));
        for (int32_t tensor = problem_->output_begin[op]; tensor < problem_->output_begin[op + 1]; ++tensor)
            if (early_[tensor])
                for_each_device(sent_to_[tensor], [&](int32_t device) { order.push_back({tensor, device}); });
    }
}

}  // namespace placewright
