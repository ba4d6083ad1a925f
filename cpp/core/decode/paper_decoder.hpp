// The decoder of REGAL (Paliwal et al., ICLR 2020, A.5), from random keys to placement and order.
#pragma once

#include <span>
#include <vector>

#include "decode/packed_keys.hpp"
#include "problem/problem.hpp"
#include "support/ready_set.hpp"

namespace placewright {

// Scratch memory of one thread, sized for one problem. Items are numbered: ops first, then the transfers that this
// placement needs, by tensor and destination.
struct DecodeScratch {
    explicit DecodeScratch(const Problem& problem);

    // An op or transfer in the queue: the device to which it delivers, what it delivers to, and the transfers it
    // releases.
    struct Item {
        Step step;
        int32_t device;
        std::span<const int32_t> edges;        // a row of Problem::edges or a tensor's part of it
        int32_t transfer_begin, transfer_end;  // items
    };
    // The data of an op that the queue needs when something the op waits for arrives.
    struct Waiting {
        int32_t device;
        int32_t left;   // inputs and control predecessors that have not arrived
        uint32_t rank;  // place by falling priority
    };

    std::vector<int32_t> device_of;  // [op], the decoded placement
    std::vector<Step> order;         // the decoded order; its first `num_steps` entries count
    size_t num_steps = 0;
    std::vector<uint64_t> destinations;  // [tensor] mask of the devices that read it
    std::vector<Waiting> waiting;        // [op]
    std::vector<Item> items;             // [item]
    std::vector<Item> ranked;            // [rank]
    std::vector<uint32_t> rank_of_item;  // [item]
    PackedKeys keys;                     // [rank] priority and item
    ReadySetBuffers ready;
};

// Decodes the placement: each op goes to the device of highest affinity (the lowest index on ties) that its group may
// use.
void place_by_affinity(const Problem& problem, std::span<const Key> keys, std::vector<int32_t>& device_of);

// Decodes placement and order: ops are placed by affinity, and one queue of ready ops and transfers is emptied by
// falling priority (ops before transfers, lower index first on ties).
void decode(const Problem& problem, std::span<const Key> keys, DecodeScratch& scratch);

}  // namespace placewright
