// Finds runs by a greedy rule: walks along the given order, makes again what is missing, and drops what is cheap to
// make again.
#pragma once

#include <vector>

#include "rematerialize/runs.hpp"

namespace placewright {

// Exponents of the score by which memory is dropped: (time to make it again ^ cost) / (bytes * (time until it is read)
// ^ distance). The least score goes first.
struct EvictionExponents {
    double cost = 1, distance = 1;
};

class EvictionDecoder {
  public:
    explicit EvictionDecoder(const OrderedOps& ops);

    // Gives up and returns false if the runs take `longest_ns` or more, or making something again is impossible or too
    // much work. If nothing can be dropped that would help, the peak exceeds the limit.
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
    std::vector<int64_t> begins_ns_;  // [place] when an op begins if each runs once

    // State of the current call of decode().
    EvictionExponents exponents_;
    int64_t longest_ns_ = 0;
    OpRuns* runs_ = nullptr;
    int32_t now_ = 0;  // place of the current first run
    int32_t depth_ = 0;
    int64_t time_ns_ = 0, in_use_ = 0, work_ = 0;
    std::vector<uint8_t> is_live_;      // [storage]
    std::vector<int32_t> pins_;         // [storage] number of runs in progress that need it
    std::vector<int32_t> next_reader_;  // [storage] index in its readers of the next one
    std::vector<int32_t> live_, place_in_live_;
    std::vector<int64_t> make_ns_;        // [storage] time to make it again, valid for the change below
    std::vector<int32_t> make_known_at_;  // [storage]
    int32_t change_ = 0;                  // increases whenever what is live changes
    std::vector<int32_t> seen_;           // [place] the last walk that counted it
    int32_t walk_ = 0;
    int64_t walked_ns_ = 0;
    int32_t walked_ = 0;
};

}  // namespace placewright
