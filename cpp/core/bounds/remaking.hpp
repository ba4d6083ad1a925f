// A lower bound on the time to make memory again, with everything that must be made again for it: the dual of a linear
// program.
#pragma once

#include <cstdint>
#include <vector>

namespace placewright {

// Pieces of memory at moments. A node is a piece at a moment after which it is needed, or a way: a piece that is not
// needed then, but is read to make a needed one again. A way is held at the moment after all, or made again as well.
struct Remaking {
    std::vector<int64_t> room;      // [moment] bytes for nodes that are held
    std::vector<int32_t> moment;    // [node]
    std::vector<int64_t> bytes;     // [node]
    std::vector<uint8_t> is_way;    // [node]
    std::vector<uint8_t> may_go;    // [node] 0: a way that cannot be made again
    std::vector<int32_t> way_from;  // [way] a node that is made again
    std::vector<int32_t> way_to;    // [way] the node that is read for it
    std::vector<int32_t> made;      // [making] a node that is made again
    std::vector<int32_t> run;       // [making] the run that makes it; other makings of the same node are alternatives
    std::vector<int64_t> time_ns;   // [run]
};

// Returns a lower bound on the time of any set of runs that keeps within the room at every moment. prices: the first
// prices, in ns per byte. Any prices z prove the most that can flow from nodes (z * bytes) along ways (at most z *
// bytes of what is read) to runs (time), less z * room. Takes at most `steps` subgradient steps.
int64_t remaking_bound(const Remaking& remaking, std::vector<double> prices, int32_t steps, int64_t budget);

}  // namespace placewright
