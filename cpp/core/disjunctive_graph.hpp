// A schedule as a disjunctive graph (Roy & Sussmann 1964): every device and link works through a sequence of ops and
// transfers. Heads (when each can start) and tails (how long it takes from there to the end of the step) are kept exact
// under moves by propagating only what changes, and a move that cannot come out within a limit is known early.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "position_set.hpp"
#include "problem.hpp"

namespace placewright {

// One change of a move. An op goes to a device, to a place in the order of ops, or a tensor's transfers leave right
// after its producer (`to` 1) or right before their first consumers (`to` 0).
struct Edit {
    enum class Kind : uint8_t { device, place, sending } kind;
    int32_t id;
    int32_t to;
};

// The order of a solution: ops by place; a transfer stands right after its producer where its tensor is sent early,
// right before its first consumer on the destination otherwise. At one place transfers stand by tensor, then
// destination.
class DisjunctiveGraph {
  public:
    explicit DisjunctiveGraph(std::shared_ptr<const Problem> problem);

    // Takes over a solution. `ops` holds every op once, after all it depends on; `early`: one flag per tensor.
    void load(std::span<const int32_t> device_of, std::span<const int32_t> ops, std::span<const uint8_t> early);

    // Makes the edits and computes times. The order must be valid after the last of them, and groups together. False
    // as soon as the step time is known to exceed `at_most`; then, or whenever else, undo() takes the move back.
    bool try_move(std::span<const Edit> edits, int64_t at_most);
    void undo();
    // Makes the move permanent: tails follow.
    void keep();

    // Over all ops, ns.
    double mean_finish() const { return double(total_finish_) / double(problem_->num_ops); }
    int64_t step_time_ns() const { return step_time_; }
    // From the start of an op along the longest way to the end of the step.
    int64_t through_ns(int32_t op) const { return through_[size_t(op)]; }
    // Whether delaying the op by any amount delays the step.
    bool is_critical(int32_t op) const { return start_ns(op) + through_ns(op) == step_time_; }
    int64_t start_ns(int32_t op) const { return finish_[size_t(op)] - problem_->op_time(op, device_of_[op]); }
    // The op before it on its device, or -1.
    int32_t previous_on_device(int32_t op) const;

    std::span<const int32_t> device_of() const { return device_of_; }
    std::span<const int32_t> ops() const { return ops_; }
    std::span<const uint8_t> early() const { return early_; }
    int32_t place_of(int32_t op) const { return place_of_[op]; }
    // The whole order, into a buffer that is reused.
    void write_order(std::vector<Step>& order) const;

    // Nodes whose times were computed by moves, for measurements.
    int64_t visited() const { return visited_; }

  private:
    // Nodes are ops, then transfers by tensor and destination; each stands in the sequence of its device or link, a
    // blocking transfer in those of both its devices.
    using Node = int32_t;
    struct Neighbours {
        Node before = -1, after = -1;
    };
    struct Saved {
        Node node;
        int64_t finish;
    };

    bool is_op(Node node) const { return node < problem_->num_ops; }
    Node transfer(int32_t tensor, int32_t device) const {
        return problem_->num_ops + tensor * problem_->num_devices + device;
    }
    int32_t tensor_of(Node node) const { return (node - problem_->num_ops) / problem_->num_devices; }
    int32_t destination_of(Node node) const { return (node - problem_->num_ops) % problem_->num_devices; }
    int32_t home(int32_t tensor) const { return device_of_[problem_->producer[tensor]]; }
    // The first op on a transfer's destination that reads its tensor, -1 when nothing is sent there. What else reads it
    // there runs later on the same device, and so after the transfer without further ado.
    int32_t& reader(Node node) { return reader_[size_t(node - problem_->num_ops)]; }
    int32_t reader(Node node) const { return reader_[size_t(node - problem_->num_ops)]; }
    bool is_absent(Node node) const { return !is_op(node) && reader(node) < 0; }
    // The op at whose place the node stands.
    int32_t anchor(Node node) const {
        if (is_op(node)) return node;
        return early_[tensor_of(node)] ? problem_->producer[tensor_of(node)] : reader(node);
    }
    int64_t sequence_key(Node node) const;
    int64_t time_of(Node node) const;

    template <class F>
    void for_each_sequence(Node node, F&& f);
    int side_in(Node node, int32_t sequence) const;
    void join(Node before, Node after, int32_t sequence);
    void insert(Node node);
    void remove(Node node);
    void append_to_sequences(int32_t op);
    void touch(Node node) {
        if (node >= 0) touched_.push_back(node);
    }

    void collect_affected();
    void rewire();
    void apply(Edit& edit);
    int32_t move_to(int32_t op, int32_t to);
    void detach_transfers(int32_t tensor);
    void attach_transfers(int32_t tensor);
    void find_readers(int32_t tensor);

    void mark(Node node) { dirty_.insert(place_of_[anchor(node)]); }
    bool propagate_heads(int64_t at_most);
    bool visit_heads(int32_t op, int64_t at_most);
    bool visit_transfer_head(Node node, int64_t at_most);
    bool set_finish(Node node, int64_t begin, int64_t finish, int64_t at_most);
    int64_t finish_before(Node node, int side) const;
    void propagate_tails();
    void visit_tails(int32_t op);
    void visit_transfer_tail(Node node);
    void set_through(Node node, int64_t through);
    int64_t through_after(Node node, int side) const;

    std::shared_ptr<const Problem> problem_;
    const bool signals_;
    Csr inputs_;  // as Problem::inputs, each row ascending

    std::vector<int32_t> device_of_;            // [op]
    std::vector<int32_t> ops_;                  // [place]
    std::vector<int32_t> place_of_;             // [op]
    std::vector<uint8_t> early_;                // [tensor]
    std::vector<uint64_t> sent_to_;             // [tensor] mask of destinations
    std::vector<int32_t> reader_;               // [tensor][destination]
    std::vector<std::vector<Node>> sequences_;  // devices, then links (overlapped model)
    std::vector<Neighbours> neighbours_[2];     // [side][node]; side 1: receivers of blocking transfers
    std::vector<int64_t> finish_;               // [node]
    std::vector<int64_t> through_;              // [node] its time and the longest way from there to the end
    int64_t step_time_ = 0;
    __int128 total_finish_ = 0;  // of all ops

    // Of the move at hand.
    std::vector<Edit> edits_;               // those that take it back
    std::vector<int32_t> affected_;         // tensors whose transfers change
    std::vector<uint32_t> affected_epoch_;  // [tensor]
    uint32_t epoch_ = 0;
    std::vector<Node> touched_;  // nodes whose neighbours or times changed
    std::vector<Saved> saved_;
    int32_t last_changed_place_ = 0;  // behind it only heads change, not the ways to the end
    int64_t previous_step_time_ = 0;
    __int128 previous_total_finish_ = 0;
    PositionSet dirty_;
    int64_t visited_ = 0;
};

}  // namespace placewright
