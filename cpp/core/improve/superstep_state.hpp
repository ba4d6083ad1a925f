// Supersteps (Valiant, CACM 1990). With blocking transfers that cost nothing, an order is a sequence of segments
// between barriers, and a step takes at most the sum over the segments of their largest device load.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "problem/problem.hpp"
#include "support/random.hpp"

namespace placewright {

// Returns whether there are several devices, transfers block and cost nothing, the step time is the objective and no
// host launches, so that supersteps bound the step time.
bool has_free_barriers(const Problem& problem);

struct Place {
    int32_t segment;
    int32_t device;

    bool operator==(const Place&) const = default;
};

// Returns the segments of a valid order: a barrier precedes each run of transfers.
std::vector<Place> places_of(const Problem& problem, std::span<const int32_t> device_of, std::span<const Step> order);

std::vector<int32_t> devices_of(std::span<const Place> places);

// Returns the whole order of valid places: segment by segment, first the transfers that are needed from now on, then
// the ops.
std::vector<Step> order_of(const Problem& problem, std::span<const Place> places);

// The place of every op, and what a move would change. Places are valid if no op is in an earlier segment than what it
// waits for, nor in the same segment on another device; where only the order matters (Problem::signals is false), a
// control dependency allows different devices in one segment.
//
// The simulated step time is at most value(): a device reaches each barrier no later than the sum so far. They are
// equal if every barrier is a transfer between all devices: with two devices, if no control dependency is a signal and
// the places are merged.
class Supersteps {
  public:
    // `places` must be valid.
    Supersteps(const Problem& problem, std::span<const Place> places);

    // Sum over the segments of the largest device load, ns.
    int64_t value() const { return value_; }
    int32_t num_segments() const { return num_segments_; }
    const std::vector<Place>& places() const { return places_; }

    // The places open to an op while all others stay: on a device from first to last, none if first > last. An op with
    // which it may share a segment only on the same device closes the end segment to other devices.
    struct Reach {
        int32_t first_segment, last_segment;
        uint64_t devices_at_first, devices_at_last;

        int32_t first(int32_t device) const { return first_segment + is_elsewhere(devices_at_first, device); }
        int32_t last(int32_t device) const { return last_segment - is_elsewhere(devices_at_last, device); }
        bool holds(Place place) const {
            return first(place.device) <= place.segment && place.segment <= last(place.device);
        }

      private:
        static bool is_elsewhere(uint64_t devices, int32_t device) { return (devices & ~(uint64_t{1} << device)) != 0; }
    };
    Reach reach(int32_t op) const;

    // The same on `device` for an op whose group moves there with it.
    Reach reach_with_group(int32_t op, int32_t device) const;

    // Returns whether one of the two waits for the other.
    bool are_adjacent(int32_t op, int32_t other) const;

    // Returns some op at the place, each in turn; -1 if there is none.
    int32_t next_at(Place place);

    // Returns the change of value() if the loads of two different places changed by these amounts.
    int64_t change_in_value(Place one, int64_t change_of_one, Place other, int64_t change_of_other) const;

    // Moves one op. The places must be valid when reach() is called next.
    void move(int32_t op, Place to);

    // Sets all places, which must be valid.
    void assign(std::span<const Place> places);

    // Returns valid places without empty segments and with neighbours merged where no barrier is needed. Their value is
    // no larger, and no larger than the simulated step time of the given places if there are no signals.
    std::vector<Place> merged(std::span<const Place> places) const;

    // Merges, then inserts some empty segments, drawn from `stream`, which moves can fill.
    void repack(const RandomStream& stream);

    // Returns whether places are valid and rings, loads and value equal a recomputation.
    bool is_consistent() const;

  private:
    size_t at(Place place) const { return size_t(place.segment) * size_t(problem_.num_devices) + size_t(place.device); }
    int64_t longest_with(Place place, int64_t load) const;
    int64_t longest_with(Place one, int64_t load_of_one, Place other, int64_t load_of_other) const;
    void change_load(Place place, int64_t change);
    void link(int32_t op);
    void unlink(int32_t op);

    const Problem& problem_;
    Csr before_, after_;  // [op] 2 * op it waits for, or that waits for it, plus 1 if one segment needs one device
    std::vector<Place> places_;
    int32_t num_segments_ = 0;
    int64_t value_ = 0;
    std::vector<int64_t> loads_;            // [segment][device]
    std::vector<int64_t> longest_;          // [segment] largest load
    std::vector<int32_t> first_;            // [segment][device] an op of the ring of ops there, or -1
    std::vector<int32_t> next_, previous_;  // [op] in its ring
};

}  // namespace placewright
