#include "improve/disjunctive_graph.hpp"

#include <algorithm>
#include <bit>

namespace placewright {

namespace {

constexpr uint64_t kEverywhere = ~uint64_t{0};

uint64_t bit(int32_t device) { return uint64_t{1} << device; }

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
      read_on_(problem_->num_tensors),
      sent_to_(problem_->num_tensors),
      first_reader_(size_t(problem_->num_tensors) * problem_->num_devices, -1),
      sequences_(problem_->num_devices * (problem_->blocking ? 1 : 1 + problem_->num_devices)),
      nodes_(1 + problem_->num_ops + first_reader_.size()),
      num_hosts_(1 + std::ranges::max(problem_->host_of)),
      launching_from_(size_t(num_hosts_) * size_t(problem_->num_ops + 1)),
      host_clock_(num_hosts_),
      memory_(*problem_),
      goes_to_(problem_->num_ops, -1),
      estimated_(problem_->num_ops),
      last_estimated_(problem_->num_devices),
      changed_to_(problem_->num_tensors),
      shift_(num_hosts_),
      dirty_(problem_->num_ops) {
    // Reserves what moves fill, so that they rarely allocate.
    for (auto* nodes : {&heads_touched_, &tails_touched_}) nodes->reserve(size_t(problem_->num_ops));
    edits_.reserve(size_t(problem_->num_ops));
    moving_.reserve(size_t(problem_->num_ops));
    saved_.reserve(size_t(problem_->num_ops) + size_t(problem_->num_tensors));
    for (int32_t op = 0; op < problem_->num_ops; ++op) node(op).anchor = op;
    for (int32_t tensor = 0; tensor < problem_->num_tensors; ++tensor)
        for (int32_t device = 0; device < problem_->num_devices; ++device)
            node(transfer(tensor, device)).producer = problem_->producer[tensor];
}

void DisjunctiveGraph::load(std::span<const int32_t> device_of, std::span<const int32_t> ops,
                            std::span<const uint8_t> early) {
    std::ranges::copy(device_of, device_of_.begin());
    std::ranges::copy(ops, ops_.begin());
    std::ranges::copy(early, early_.begin());
    for (int32_t place = 0; place < problem_->num_ops; ++place) place_of_[ops_[place]] = place;
    for (auto& sequence : sequences_) sequence.clear();
    memory_.clear();
    for (int32_t op : ops_) node(op).sent = node(op).received = 0;
    for (int32_t op : ops_) set_op(op);
    for (int32_t op : ops_) append_at(op);
    saved_.clear();
    first_relaunched_ = 0;
    last_relaunched_ = problem_->num_ops - 1;
    relaunch(false);
    last_changed_place_ = INT32_MAX;
    for (int32_t place = 0; place < problem_->num_ops; ++place) dirty_.insert(place);
    propagate_heads(INT64_MAX);
    for (int32_t place = 0; place < problem_->num_ops; ++place) dirty_.insert(place);
    propagate_tails();
}

// ---- Sequences

int64_t DisjunctiveGraph::sequence_key(NodeId id) const {
    const Node& at = node(id);
    const int64_t phase = is_op(id) ? 1 : at.anchor == at.producer ? 2 : 0;
    return (int64_t(place_of_[at.anchor]) * 3 + phase) << 32 | id;
}

void DisjunctiveGraph::join(NodeId before, NodeId after, int32_t sequence) {
    if (before >= 0) node(before).beside[side_in(before, sequence)].after = after;
    if (after >= 0) node(after).beside[side_in(after, sequence)].before = before;
}

void DisjunctiveGraph::insert(NodeId id) {
    ++work_;
    const int64_t key = sequence_key(id);
    change_launches_at(place_of_node(id));
    Node& at = node(id);
    for (int side = 0; side < 2 && at.sequence[side] >= 0; ++side) {
        const int32_t sequence = at.sequence[side];
        auto& ids = sequences_[size_t(sequence)];
        const auto place = std::ranges::lower_bound(ids, key, {}, [&](NodeId other) { return sequence_key(other); });
        const NodeId before = place == ids.begin() ? -1 : *(place - 1), after = place == ids.end() ? -1 : *place;
        at.beside[side] = {before, after};
        join(before, id, sequence);
        join(id, after, sequence);
        ids.insert(place, id);
        if (before >= 0) tails_touched_.push_back(before);
        if (after >= 0) heads_touched_.push_back(after);
    }
    heads_touched_.push_back(id);
    tails_touched_.push_back(id);
}

void DisjunctiveGraph::remove(NodeId id) {
    ++work_;
    const int64_t key = sequence_key(id);
    change_launches_at(place_of_node(id));
    const Node& at = node(id);
    for (int side = 0; side < 2 && at.sequence[side] >= 0; ++side) {
        const int32_t sequence = at.sequence[side];
        auto& ids = sequences_[size_t(sequence)];
        ids.erase(std::ranges::lower_bound(ids, key, {}, [&](NodeId other) { return sequence_key(other); }));
        const auto [before, after] = at.beside[side];
        join(before, after, sequence);
        if (before >= 0) tails_touched_.push_back(before);
        if (after >= 0) heads_touched_.push_back(after);
    }
}

void DisjunctiveGraph::append(NodeId id) {
    Node& at = node(id);
    for (int side = 0; side < 2 && at.sequence[side] >= 0; ++side) {
        auto& ids = sequences_[size_t(at.sequence[side])];
        at.beside[side].after = -1;
        join(ids.empty() ? -1 : ids.back(), id, at.sequence[side]);
        if (ids.empty()) at.beside[side].before = -1;
        ids.push_back(id);
    }
}

// Appends all nodes at the place of an op; the caller visits the ops in order.
void DisjunctiveGraph::append_at(int32_t op) {
    const Problem& p = *problem_;
    for (int32_t tensor : inputs_[op])
        if (const NodeId id = transfer(tensor, device_of_[op]); !early_[tensor] && node(id).reader == op) append(id);
    append(op);
    memory_.add_op(op, device_of_[op]);
    for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor) {
        for (int32_t device = 0; device < p.num_devices; ++device) node(transfer(tensor, device)).reader = -1;
        read_on_[tensor] = 0;
        for (int32_t consumer : p.consumers[tensor]) add_reader(tensor, device_of_[consumer], consumer);
        sent_to_[tensor] = read_on_[tensor] & ~bit(device_of_[op]);
        for_each_device(sent_to_[tensor], [&](int32_t device) {
            const NodeId id = set_transfer(tensor, device);
            if (early_[tensor]) append(id);
        });
    }
}

// Sets what depends on the device of an op.
void DisjunctiveGraph::set_op(int32_t op) {
    node(op).duration = problem_->op_time(op, device_of_[op]);
    node(op).sequence[0] = static_cast<int16_t>(device_of_[op]);
}

// Sets up a transfer that is in no sequence yet.
DisjunctiveGraph::NodeId DisjunctiveGraph::set_transfer(int32_t tensor, int32_t device) {
    const NodeId id = transfer(tensor, device);
    Node& at = node(id);
    const int32_t source = device_of_[at.producer];
    at.reader = first_reader(tensor, device);
    at.anchor = early_[tensor] ? at.producer : at.reader;
    at.duration = problem_->transfer_time(tensor, source, device);
    at.sequence[0] = static_cast<int16_t>(problem_->blocking ? source : problem_->num_devices * (1 + source) + device);
    at.sequence[1] = static_cast<int16_t>(problem_->blocking ? device : -1);
    memory_.add_copy(tensor, device);
    ++node(at.producer).sent;
    ++node(at.reader).received;
    return id;
}

// ---- Moves

bool DisjunctiveGraph::try_move(std::span<const Edit> edits, int64_t at_most) {
    saved_.clear();
    previous_step_time_ = step_time_;
    previous_total_finish_ = total_finish_;
    edits_.assign(edits.begin(), edits.end());
    collect_changes();
    rewire();
    last_changed_place_ = 0;
    for (NodeId id : tails_touched_)
        if (!is_absent(id)) last_changed_place_ = std::max(last_changed_place_, place_of_node(id));
    for (NodeId id : heads_touched_)
        if (!is_absent(id)) mark(id);
    if (signals_)
        for (const Edit& edit : edits_) {
            if (edit.kind != Edit::Kind::device) continue;
            for (int32_t next : problem_->controls[edit.id]) mark(next);
        }
    relaunch(true);
    return propagate_heads(at_most);
}

void DisjunctiveGraph::undo() {
    rewire();
    relaunch(false);
    for (const Saved& saved : saved_) node(saved.id).finish = saved.finish;
    step_time_ = previous_step_time_;
    total_finish_ = previous_total_finish_;
}

void DisjunctiveGraph::keep() {
    for (NodeId id : tails_touched_)
        if (!is_absent(id)) mark(id);
    for (int32_t tensor : changed_) mark(problem_->producer[tensor]);
    if (signals_)
        for (const Edit& edit : edits_) {
            if (edit.kind != Edit::Kind::device) continue;
            for (int32_t before : problem_->predecessors[edit.id]) mark(before);
        }
    propagate_tails();
}

// Collects the transfers that the edits may change.
void DisjunctiveGraph::collect_changes() {
    for (int32_t tensor : changed_) changed_to_[tensor] = 0;
    changed_.clear();
    const bool in_place = std::ranges::none_of(edits_, [](const Edit& e) { return e.kind == Edit::Kind::place; });
    for (const Edit& edit : edits_) switch (edit.kind) {
            case Edit::Kind::device:
                collect_device_change(edit.id, edit.to, in_place);
                break;
            case Edit::Kind::place:
                collect_place_change(edit.id, edit.to, edits_.size() == 1);
                break;
            case Edit::Kind::sending:
                change(edit.id, kEverywhere);
                break;
        }
}

// If no op changes its place, a later reader of a tensor has no effect on its transfer.
void DisjunctiveGraph::collect_device_change(int32_t op, int32_t to, bool in_place) {
    const int32_t here = device_of_[op];
    for (int32_t tensor : inputs_[op]) {
        const bool leads = first_reader(tensor, here) == op;
        const bool will_lead = !(read_on_[tensor] & bit(to)) || place_of_[op] <= place_of_[first_reader(tensor, to)];
        change(tensor, (leads || !in_place ? bit(here) : 0) | (will_lead || !in_place ? bit(to) : 0));
    }
    for (int32_t tensor = problem_->output_begin[op]; tensor < problem_->output_begin[op + 1]; ++tensor)
        change(tensor, kEverywhere);
}

void DisjunctiveGraph::collect_place_change(int32_t op, int32_t to, bool alone) {
    const int32_t here = device_of_[op];
    for (int32_t tensor : inputs_[op]) {
        const int32_t first = first_reader(tensor, here);
        if (!alone || first == op || to <= place_of_[first]) change(tensor, bit(here));
    }
    for (int32_t tensor = problem_->output_begin[op]; tensor < problem_->output_begin[op + 1]; ++tensor)
        if (early_[tensor]) change(tensor, kEverywhere);
}

void DisjunctiveGraph::change(int32_t tensor, uint64_t devices) {
    if (devices == 0 || read_on_[tensor] == 0) return;
    if (changed_to_[tensor] == 0) changed_.push_back(tensor);
    changed_to_[tensor] |= devices;
}

// Makes the edits and replaces them by those that take them back.
void DisjunctiveGraph::rewire() {
    heads_touched_.clear();
    tails_touched_.clear();
    first_relaunched_ = problem_->num_ops;
    last_relaunched_ = -1;
    for (int32_t tensor : changed_)
        for_each_device(sent_to_[tensor] & changed_to_[tensor], [&](int32_t device) { detach(tensor, device); });
    for (Edit& edit : edits_) apply(edit);
    std::ranges::reverse(edits_);
    for (int32_t tensor : changed_) {
        sent_to_[tensor] = read_on_[tensor] & ~bit(device_of_[problem_->producer[tensor]]);
        for_each_device(sent_to_[tensor] & changed_to_[tensor], [&](int32_t device) { attach(tensor, device); });
    }
}

void DisjunctiveGraph::apply(Edit& edit) {
    if (edit.kind == Edit::Kind::sending) {
        const int32_t before = early_[edit.id];
        early_[edit.id] = static_cast<uint8_t>(edit.to);
        edit.to = before;
        return;
    }
    remove(edit.id);
    if (edit.kind == Edit::Kind::device) {
        const int32_t before = device_of_[edit.id];
        change_device(edit.id, edit.to);
        edit.to = before;
    } else {
        edit.to = move_to(edit.id, edit.to);
    }
    insert(edit.id);
}

void DisjunctiveGraph::change_device(int32_t op, int32_t device) {
    const int32_t before = device_of_[op];
    device_of_[op] = device;
    set_op(op);
    memory_.remove_op(op, before);
    memory_.add_op(op, device);
    for (int32_t tensor : inputs_[op]) {
        if (first_reader(tensor, before) == op) find_first_reader(tensor, before);
        add_reader(tensor, device, op);
    }
}

// Returns the place that the op comes from.
int32_t DisjunctiveGraph::move_to(int32_t op, int32_t to) {
    const int32_t from = place_of_[op];
    const int32_t step = to < from ? -1 : 1;
    for (int32_t place = from; place != to; place += step) {
        ops_[place] = ops_[place + step];
        place_of_[ops_[place]] = place;
    }
    ops_[to] = op;
    place_of_[op] = to;
    for (int32_t tensor : inputs_[op])
        if (first_reader(tensor, device_of_[op]) == op)
            find_first_reader(tensor, device_of_[op]);
        else
            add_reader(tensor, device_of_[op], op);
    return from;
}

void DisjunctiveGraph::detach(int32_t tensor, int32_t device) {
    const NodeId id = transfer(tensor, device);
    remove(id);
    Node& at = node(id);
    heads_touched_.push_back(at.reader);
    memory_.remove_copy(tensor, device);
    --node(at.producer).sent;
    --node(at.reader).received;
    at.reader = -1;
}

void DisjunctiveGraph::attach(int32_t tensor, int32_t device) {
    const NodeId id = set_transfer(tensor, device);
    heads_touched_.push_back(node(id).reader);
    insert(id);
}

void DisjunctiveGraph::find_first_reader(int32_t tensor, int32_t device) {
    read_on_[tensor] &= ~bit(device);
    for (int32_t consumer : problem_->consumers[tensor])
        if (device_of_[consumer] == device) add_reader(tensor, device, consumer);
}

void DisjunctiveGraph::add_reader(int32_t tensor, int32_t device, int32_t op) {
    int32_t& first = first_reader(tensor, device);
    if (!(read_on_[tensor] & bit(device)) || place_of_[op] < place_of_[first]) first = op;
    read_on_[tensor] |= bit(device);
}

// ---- Solutions

int32_t DisjunctiveGraph::previous_on_device(int32_t op) const {
    const int32_t device = device_of_[op];
    NodeId before = node(op).beside[0].before;
    while (before >= 0 && !is_op(before)) before = node(before).beside[side_in(before, device)].before;
    return before;
}

void DisjunctiveGraph::write_order(std::vector<Step>& order) const {
    order.clear();
    for (int32_t op : ops_) {
        const int32_t here = device_of_[op];
        for (int32_t tensor : inputs_[op])
            if (!early_[tensor] && node(transfer(tensor, here)).reader == op) order.push_back({tensor, here});
        order.push_back(Step::op(op));
        for (int32_t tensor = problem_->output_begin[op]; tensor < problem_->output_begin[op + 1]; ++tensor)
            if (early_[tensor])
                for_each_device(sent_to_[tensor], [&](int32_t device) { order.push_back({tensor, device}); });
    }
}

}  // namespace placewright
