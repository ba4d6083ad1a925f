// A schedule as a disjunctive graph (Roy & Sussmann 1964): every device and link works through a sequence of ops and
// transfers. Heads (when each can start) and tails (the time from there to the end of the step) are kept exact under
// moves by propagating only changes, and a move that must exceed a limit is recognized early. Where a host thread
// launches steps, heads take its launches into account; tails ignore hosts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "improve/memory_bound.hpp"
#include "problem/problem.hpp"
#include "support/position_set.hpp"

namespace placewright {

// One change of a move. An op goes to a device or to a place in the order of ops, or a tensor's transfers are sent
// right after its producer (`to` 1) or right before their first consumers (`to` 0).
struct Edit {
    enum class Kind : uint8_t { device, place, sending } kind;
    int32_t id;
    int32_t to;
};

// The order of a solution: ops by place. A transfer comes right after its producer if its tensor is sent early, else
// right before its first consumer on the destination. Transfers at one place are ordered by tensor, then destination.
class DisjunctiveGraph {
  public:
    explicit DisjunctiveGraph(std::shared_ptr<const Problem> problem);

    // Loads a solution. `ops` holds every op once, after all it depends on; `early`: one flag per tensor.
    void load(std::span<const int32_t> device_of, std::span<const int32_t> ops, std::span<const uint8_t> early);

    // Returns false if the step would almost surely end after `at_most`. The estimate looks only at the ops that change
    // their device: each would start after what it reads and what precedes it there, what follows would take as long as
    // now, and moved ops before it in the order make it earlier by at most their times.
    bool may_end_within(std::span<const Edit> edits, int64_t at_most);
    // Makes the edits and computes times. After the last edit the order must be valid and groups must be together.
    // Returns false as soon as the step time is known to exceed `at_most`. In either case undo() can take the move
    // back.
    bool try_move(std::span<const Edit> edits, int64_t at_most);
    void undo();
    // Makes the move permanent and updates the tails.
    void keep();

    // The mean over all ops, ns.
    double mean_finish() const { return double(total_finish_) / double(problem_->num_ops); }
    int64_t step_time_ns() const { return step_time_; }
    // The longest path from the start of an op to the end of the step.
    int64_t through_ns(int32_t op) const { return node(op).through; }
    // Returns whether any delay of the op delays the step; ignores that its launch may delay others.
    bool is_critical(int32_t op) const { return start_ns(op) + through_ns(op) == step_time_; }
    int64_t start_ns(int32_t op) const { return node(op).finish - node(op).duration; }
    // The op before it on its device, or -1.
    int32_t previous_on_device(int32_t op) const;

    std::span<const int32_t> device_of() const { return device_of_; }
    std::span<const int32_t> ops() const { return ops_; }
    std::span<const uint8_t> early() const { return early_; }
    int32_t place_of(int32_t op) const { return place_of_[op]; }
    // The cost of moves so far: places at which times were computed, nodes put into sequences or taken out, and hosts
    // that reach a place earlier or later, kShiftsPerWork of which count as one.
    int64_t work() const { return work_; }
    // Writes the whole order into a buffer that is reused.
    void write_order(std::vector<Step>& order) const;

    // Returns true only if memory stays within all limits, whatever the times.
    bool is_surely_within_limits() const { return memory_.is_within_limits(); }

  private:
    // Nodes are ops, then transfers by tensor and destination. Each is in the sequence of its device or link, a
    // blocking transfer in those of both its devices. -1 is no node, which ends at 0 and from which nothing follows.
    using NodeId = int32_t;
    struct Neighbours {
        NodeId before = -1, after = -1;
    };
    // The data of a visit, in one cache line.
    struct alignas(64) Node {
        int64_t finish = 0;
        int64_t through = 0;  // its time and the longest path from there to the end
        int64_t duration = 0;
        Neighbours beside[2];            // [side] in its sequences; side 1 is the receiver's, for blocking transfers
        int16_t sequence[2] = {-1, -1};  // [side]
        int32_t anchor = -1;             // the op at whose place it is
        int32_t producer = -1;           // of its tensor
        int32_t reader = -1;             // first op on the destination that reads it; -1 if nothing is sent there
        int32_t sent = 0, received = 0;  // of an op: number of transfers of its outputs; of those whose reader it is
    };
    struct Saved {
        NodeId id;
        int64_t finish;
    };
    static constexpr int64_t kShiftsPerWork = 16;

    Node& node(NodeId id) { return nodes_[size_t(id + 1)]; }
    const Node& node(NodeId id) const { return nodes_[size_t(id + 1)]; }
    bool is_op(NodeId id) const { return id < problem_->num_ops; }
    NodeId transfer(int32_t tensor, int32_t device) const {
        return problem_->num_ops + tensor * problem_->num_devices + device;
    }
    bool is_absent(NodeId id) const { return !is_op(id) && node(id).reader < 0; }
    // The first op on a device that reads a tensor. All other readers there run later on the same device, and so after
    // its transfer in any case.
    int32_t& first_reader(int32_t tensor, int32_t device) {
        return first_reader_[size_t(tensor) * size_t(problem_->num_devices) + size_t(device)];
    }
    int64_t sequence_key(NodeId id) const;

    int side_in(NodeId id, int32_t sequence) const { return node(id).sequence[0] == sequence ? 0 : 1; }
    void join(NodeId before, NodeId after, int32_t sequence);
    void insert(NodeId id);
    void remove(NodeId id);
    void append(NodeId id);
    void append_at(int32_t op);

    void collect_changes();
    void collect_device_change(int32_t op, int32_t to, bool in_place);
    void collect_place_change(int32_t op, int32_t to, bool alone);
    void change(int32_t tensor, uint64_t devices);
    void rewire();
    void apply(Edit& edit);
    void change_device(int32_t op, int32_t device);
    int32_t move_to(int32_t op, int32_t to);
    void set_op(int32_t op);
    NodeId set_transfer(int32_t tensor, int32_t device);
    void detach(int32_t tensor, int32_t device);
    void attach(int32_t tensor, int32_t device);
    void find_first_reader(int32_t tensor, int32_t device);
    void add_reader(int32_t tensor, int32_t device, int32_t op);

    int32_t place_of_node(NodeId id) const { return place_of_[node(id).anchor]; }
    void mark(NodeId id) { dirty_.insert(place_of_node(id)); }
    void mark_next(NodeId id) {
        if (id >= 0) mark(id);
    }
    void change_launches_at(int32_t place) {
        first_relaunched_ = std::min(first_relaunched_, place);
        last_relaunched_ = std::max(last_relaunched_, place);
    }
    void relaunch(bool marks);
    void shift_launches(int32_t place, bool marks);
    void launch_at(int32_t place);
    int64_t launched(int32_t op);
    int64_t launched_transfer(NodeId id);
    int64_t estimate_head(int32_t op, int32_t device, NodeId before) const;
    int64_t estimate_tail(int32_t op, int32_t device, NodeId after) const;
    Neighbours neighbours_on(int32_t device, int32_t op) const;
    bool propagate_heads(int64_t at_most);
    bool visit_heads(int32_t place, int64_t at_most);
    bool visit_transfer_head(NodeId id, int32_t place, int64_t at_most);
    bool set_finish(NodeId id, int64_t begin, int32_t place, int64_t at_most);
    void propagate_tails();
    void visit_tails(int32_t place);
    void visit_transfer_tail(NodeId id);
    bool set_through(NodeId id, int64_t longest);

    std::shared_ptr<const Problem> problem_;
    const bool signals_;
    Csr inputs_;  // Problem::inputs with each row ascending

    std::vector<int32_t> device_of_;              // [op]
    std::vector<int32_t> ops_;                    // [place]
    std::vector<int32_t> place_of_;               // [op]
    std::vector<uint8_t> early_;                  // [tensor]
    std::vector<uint64_t> read_on_;               // [tensor] mask of devices with a reader
    std::vector<uint64_t> sent_to_;               // [tensor] mask of destinations
    std::vector<int32_t> first_reader_;           // [tensor][device], where there is one
    std::vector<std::vector<NodeId>> sequences_;  // devices, then links (overlapped model)
    std::vector<Node> nodes_;                     // [node + 1]
    int32_t num_hosts_;
    std::vector<int64_t> launching_from_;  // [place][host] when the host reaches what it launches there
    std::vector<int64_t> host_clock_;      // [host] while a place is visited
    MemoryBound memory_;
    int64_t step_time_ = 0;
    __int128 total_finish_ = 0;  // of all ops
    int64_t work_ = 0;

    // The move to estimate.
    std::vector<int32_t> moving_;          // ops by place
    std::vector<int32_t> goes_to_;         // [op] device; -1 between moves and for ops that stay
    std::vector<int64_t> estimated_;       // [op] finish
    std::vector<int64_t> last_estimated_;  // [device] finish of the last op that goes there

    // The current move.
    std::vector<Edit> edits_;            // the edits that take it back
    std::vector<int32_t> changed_;       // tensors whose transfers change
    std::vector<uint64_t> changed_to_;   // [tensor] mask of the devices to which they change; 0 between moves
    std::vector<NodeId> heads_touched_;  // nodes with a change before them
    std::vector<NodeId> tails_touched_;  // nodes with a change after them
    std::vector<Saved> saved_;
    int32_t first_relaunched_ = 0, last_relaunched_ = 0;  // range of places whose launches change
    std::vector<int64_t> shift_;                          // [host] shift of its launches from a place on
    std::vector<int32_t> shifted_;                        // hosts with such a shift
    int32_t last_changed_place_ = 0;                      // after it only heads change, not paths to the end
    int64_t previous_step_time_ = 0;
    __int128 previous_total_finish_ = 0;
    PositionSet dirty_;
};

}  // namespace placewright
