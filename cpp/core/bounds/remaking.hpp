// What making memory again costs at least, with all that has to be made again for it: a linear program's dual.
#pragma once

#include <cstdint>
#include <vector>

namespace placewright {

// Pieces of memory at moments. A node is a piece at a moment that is needed later, or one that is not, but that is read
// to make a needed one again (a way): then it is held at the moment after all, or made again as well.
struct Remaking {
    std::vector<int64_t> room;      // [moment] bytes for nodes that are held
    std::vector<int32_t> moment;    // [node]
    std::vector<int64_t> bytes;     // [node]
    std::vector<uint8_t> is_way;    // [node]
    std::vector<uint8_t> may_go;    // [node] 0: a way that cannot be made again
    std::vector<int32_t> way_from;  // [way] a node that is made again
    std::vector<int32_t> way_to;    // [way] what is read for it
    std::vector<int32_t> made;      // [making] a node that is made again
    std::vector<int32_t> run;       // [making] by this run, or by others of the same node
    std::vector<int64_t> time_ns;   // [run]
};

// A time that no set of runs is below that keeps the room at every moment. prices: in ns per byte, where to begin. Any
// prices z prove the most that can flow from nodes (z * bytes) along ways (at most z * bytes of what is read) to runs
// (time), less z * room.
int64_t remaking_bound(const Remaking& remaking, std::vector<double> prices, int32_t steps, int64_t budget);

}  // namespace placewright
