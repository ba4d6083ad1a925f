// The ops of one device in a given order, and the pieces of memory that they read and make: which ops may run again,
// and which memory may be moved to the host and back.
#pragma once

#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// The host's memory and the two links between it and the device.
struct HostMemory {
    int64_t latency_there_ns = 0, latency_back_ns = 0;
    int64_t inverse_bandwidth_there = 0, inverse_bandwidth_back = 0;  // in 2^-32 ns per byte
    int64_t limit = Problem::kNoLimit;
    int32_t num_weights = 0;  // the first ops, each of which makes a weight that may be there
};

// Ops are numbered by their place in the order, storages by the op that makes them. After the ops come two places for
// each storage that may be moved: at the first it has left the device, at the second it begins to come back.
//
// A weight that may be in the host's memory is made by one of the first ops, which takes no time. It stays on the
// device to the end of the step, unless it begins to come back before its first reader: then it is held from there to
// its last reader, or in several intervals in between.
struct OrderedOps {
    // order: the ops of a problem with one device. again_before: by op of the problem, the op, in the same numbering,
    // from which on it cannot run again because something that it needs has been overwritten; num_ops if there is none,
    // -1 if it can never run again.
    // may_move: by tensor of the problem, 1 if it may be moved to the host; empty if none may.
    OrderedOps(const Problem& problem, std::span<const int32_t> order, std::span<const int32_t> again_before,
               std::span<const uint8_t> may_move = {}, const HostMemory& host = {});

    int32_t num_ops() const { return static_cast<int32_t>(op.size()); }
    int32_t num_storages() const { return static_cast<int32_t>(bytes.size()); }
    // Returns the bytes that a run takes in addition to the pieces of memory that it reads and makes.
    int64_t scratch(int32_t place, bool is_first) const { return workspace[place] + (is_first ? 0 : beside[place]); }
    bool may_run_again(int32_t place, int32_t now) const { return now <= again_until[place]; }
    bool is_op(int32_t place) const { return place < num_ops(); }
    bool is_leave(int32_t place) const { return !is_op(place) && (place - num_ops()) % 2 == 0; }
    bool is_back(int32_t place) const { return !is_op(place) && (place - num_ops()) % 2 == 1; }
    int32_t moved_storage(int32_t place) const { return moved[(place - num_ops()) / 2]; }
    int32_t leave_place(int32_t storage) const { return num_ops() + 2 * number_of_moved[storage]; }
    int32_t back_place(int32_t storage) const { return leave_place(storage) + 1; }
    bool may_move(int32_t storage) const { return number_of_moved[storage] >= 0; }
    bool has_host() const { return !moved.empty(); }
    bool is_weight(int32_t storage) const { return maker[storage] < host.num_weights; }
    bool makes_weight(int32_t place) const { return place < host.num_weights; }

    std::vector<int32_t> op;                 // [place] in the problem
    std::vector<int64_t> time_ns;            // [place]
    std::vector<int64_t> workspace;          // [place]
    std::vector<int64_t> beside;             // [place] more bytes of a later run, for what a first run writes in place
    std::vector<int32_t> again_until;        // [place] the last first run before which it may run again, or -1
    Csr reads;                               // place -> storages made before that it reads or writes to
    Csr makes;                               // place -> storages
    std::vector<int32_t> maker;              // [storage] place
    std::vector<int32_t> tensor;             // [storage] the tensor of the problem that owns it
    std::vector<int64_t> bytes;              // [storage]
    std::vector<uint8_t> stays;              // [storage] 1: it stays to the end of the step
    std::vector<uint8_t> may_go;             // [storage] 1: it may be dropped, and made again by its maker
    Csr readers;                             // storage -> ops that read it, ascending
    std::vector<int32_t> moved;              // storages that may be moved
    std::vector<int32_t> number_of_moved;    // [storage] its place among them, or -1
    std::vector<int64_t> there_ns, back_ns;  // [storage] time of a move
    HostMemory host;
    int64_t resident_bytes = 0;
    int64_t limit = Problem::kNoLimit;
};

}  // namespace placewright
