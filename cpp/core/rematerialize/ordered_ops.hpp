// The ops of one device in a given order, and the pieces of memory that they read and make: what may run again.
#pragma once

#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// Ops are numbered by their place in the order, storages by the op that makes them.
struct OrderedOps {
    // order: the ops of a problem with one device. again_before: by op of the problem, the op, in the same numbering,
    // from which on it cannot run again since something that it needs has been overwritten; num_ops where there is
    // none, -1 where it can never run again.
    OrderedOps(const Problem& problem, std::span<const int32_t> order, std::span<const int32_t> again_before);

    int32_t num_ops() const { return static_cast<int32_t>(op.size()); }
    int32_t num_storages() const { return static_cast<int32_t>(bytes.size()); }
    // What a run takes beside the pieces of memory that it reads and makes.
    int64_t scratch(int32_t place, bool is_first) const { return workspace[place] + (is_first ? 0 : beside[place]); }
    bool may_run_again(int32_t place, int32_t now) const { return now < again_until[place]; }

    std::vector<int32_t> op;           // [place] in the problem
    std::vector<int64_t> time_ns;      // [place]
    std::vector<int64_t> workspace;    // [place]
    std::vector<int64_t> beside;       // [place] what a later run takes for what a first run writes in place
    std::vector<int32_t> again_until;  // [place] it may run again before this place is reached
    Csr reads;                         // place -> storages that were made before and that it reads or writes to
    Csr makes;                         // place -> storages
    std::vector<int32_t> maker;        // [storage] place
    std::vector<int64_t> bytes;        // [storage]
    std::vector<uint8_t> stays;        // [storage] 1: to the end of the step
    std::vector<uint8_t> may_go;       // [storage] 1: it may be dropped, and made again by its maker
    Csr readers;                       // storage -> places that read it, ascending
    int64_t resident_bytes = 0;
    int64_t limit = Problem::kNoLimit;
};

}  // namespace placewright
