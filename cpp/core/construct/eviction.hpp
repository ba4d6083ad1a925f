// Turns an order of ops and a placement into a whole order that keeps devices below a target: eviction on demand.
#pragma once

#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

// Sends transfers late, right before the first reader on the destination, as with_transfers(late) does, with one
// exception: if an op would lift its device above the target, memory there that only transfers still hold leaves before
// the op, the largest piece first, as long as the destinations stay within their targets. A piece leaves whole or not
// at all, since only then is it free. (Largest first does as well as "first read last" in a search, and needs no
// look-ahead.)
//
// Memory is counted in the order of the steps. In the blocking model that is exact, so peaks are those of the
// simulation. In the overlapped model, where transfers start as early as their link allows, it is an estimate that only
// guides these choices, and the order needs a simulation.
//
// O((ops + edges) log tensors); allocates nothing after construction.
class Eviction {
  public:
    explicit Eviction(const Problem& problem);

    // Returns the order, which is valid until the next call. `ops` holds every op once, after all it depends on;
    // target: bytes per device, residents included. The order is empty if a peak exceeds `max_bytes`; the call then
    // ends early.
    std::span<const Step> order(std::span<const int32_t> device_of, std::span<const int32_t> ops,
                                std::span<const int64_t> target, int64_t max_bytes = INT64_MAX);

    std::span<const Step> last_order() const { return order_; }

    // No order has more steps.
    size_t max_steps() const { return order_.capacity(); }

    // [device] largest number of bytes in use in the last order.
    std::span<const int64_t> peak() const { return peak_; }

    // [place in ops] bytes in use on the op's device while it ran.
    std::span<const int64_t> level() const { return level_; }

  private:
    // Memory on its home device that only transfers still hold.
    struct Evictable {
        int64_t bytes;
        int32_t storage;

        auto operator<=>(const Evictable&) const = default;
    };

    void prepare(std::span<const int32_t> device_of);
    void count_uses(std::span<const int32_t> device_of);
    void load_residents(std::span<const int32_t> device_of);
    void run(int32_t op, int32_t place, std::span<const int64_t> target);
    void make_room(int32_t device, int64_t needed, std::span<const int64_t> target);
    bool fits_elsewhere(int32_t storage, std::span<const int64_t> target) const;
    void evict(int32_t storage);
    void send(int32_t tensor, int32_t destination);
    void finish(int32_t op, int32_t device);
    void offer_if_evictable(int32_t storage, int32_t home);
    void push(int32_t device, const Evictable& evictable);
    Evictable pop(int32_t device);

    int32_t& uses_left(int32_t tensor, int32_t device) {
        return uses_left_[size_t(tensor) * size_t(problem_.num_devices) + size_t(device)];
    }
    void occupy(int32_t device, int64_t bytes) {
        in_use_[device] += bytes;
        if (in_use_[device] > peak_[device]) peak_[device] = in_use_[device];
        if (in_use_[device] > largest_) largest_ = in_use_[device];
    }

    const Problem& problem_;
    std::vector<int32_t> next_alias_;  // [tensor] the next of the tensors in its storage, -1 after the last

    std::span<const int32_t> device_of_;
    std::vector<int32_t> uses_left_;      // [tensor][device] as SimulationScratch::uses_left
    std::vector<uint64_t> needed_on_;     // [tensor] mask of other devices that read it
    std::vector<uint64_t> waiting_for_;   // [tensor] mask of devices it must still be sent to; 0 until it is made
    std::vector<int32_t> sends_left_;     // [storage] waiting transfers of tensors that are made
    std::vector<int64_t> in_use_, peak_;  // [device]
    int64_t largest_ = 0;                 // of peak_
    std::vector<uint64_t> resident_on_;   // [resident] mask of devices
    std::vector<int64_t> level_;          // [place]
    std::vector<int32_t> heap_begin_;     // [device] begin of its part of heaps_, one place per tensor at home there
    std::vector<int32_t> heap_size_;      // [device]
    std::vector<Evictable> heaps_;        // some entries are outdated: sent since
    std::vector<Step> order_;
};

}  // namespace placewright
