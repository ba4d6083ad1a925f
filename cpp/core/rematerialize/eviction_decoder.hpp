// Runs by a greedy rule: walks along the given order, makes again what is missing, and drops what is cheap to make
// again.
#pragma once

#include <vector>

#include "rematerialize/runs.hpp"

namespace placewright {

// How much it matters what dropping a piece of memory costs: its score is (time to make it again ^ cost) /
// (bytes * (time until it is read) ^ distance). The least score goes first.
struct EvictionExponents {
    double cost = 1, distance = 1;
};

class EvictionDecoder {
  public:
    explicit EvictionDecoder(const OrderedOps& ops);

    // Gives up, and returns false, when the runs take `longest_ns` or more. Where nothing can be
    // dropped that would help, the peak is over the limit.
    bool decode(EvictionExponents exponents, int64_t longest_ns, OpRuns& runs);

  private:
    void reset();
    bool run(int32_t place, bool is_first, int32_t wanted);
    bool make_again(int32_t storage);
    void make_room(int64_t bytes);
    double score(int32_t storage);
    int64_t time_to_make(int32_t storage, int32_t at);
    void add_time_to_make(int32_t storage, int32_t at);
    bool is_there(int32_t storage, int32_t at) const;
    void add_live(int32_t storage);
    void drop(int32_t storage);
    bool is_read_later(int32_t storage);

    const OrderedOps& ops_;
    std::vector<int64_t> begins_ns_;  // [place] when ops begin if each runs once

    // Of the decoding at hand.
    EvictionExponents exponents_;
    int64_t longest_ns_ = 0;
    OpRuns* runs_ = nullptr;
    int32_t now_ = 0;  // place up to which first runs have come
    int32_t depth_ = 0;
    int64_t time_ns_ = 0, in_use_ = 0, work_ = 0;
    std::vector<uint8_t> is_live_;      // [storage]
    std::vector<int32_t> pins_;         // [storage] how many runs at hand need it
    std::vector<int32_t> next_reader_;  // [storage] place in its readers from which on they are to come
    std::vector<int32_t> live_, place_in_live_;
    std::vector<int64_t> make_ns_;        // [storage] what making it again takes, as of the change below
    std::vector<int32_t> make_known_at_;  // [storage]
    int32_t change_ = 0;                  // grows whenever what is live changes
    std::vector<int32_t> seen_;           // [place] by which walk it was counted
    int32_t walk_ = 0;
    int64_t walked_ns_ = 0;
    int32_t walked_ = 0;
};

}  // namespace placewright
