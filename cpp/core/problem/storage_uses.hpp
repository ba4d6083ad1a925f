// The pieces of memory on the producers' devices, and the ops that keep each of them alive.
#pragma once

#include "problem/problem.hpp"

namespace placewright {

// A storage is a tensor that owns its memory (Problem::storage[t] == t); views and in-place results refer to it.
struct StorageUses {
    explicit StorageUses(const Problem& problem);

    Csr users;  // storage -> ops that write or read any tensor in it, each once, ascending; its allocator comes first
    Csr used;   // op -> storages it writes or reads, each once
};

}  // namespace placewright
