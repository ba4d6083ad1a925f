// Turns an order of ops and a placement into a whole order, with transfers.
#pragma once

#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace placewright {

enum class TransferTiming {
    early,       // right after the producer: links work in producer order
    late,        // right before the first consumer on the destination: links work in consumer order
    batched,     // as late, but with everything else that is ready to go between the two devices: fewest barriers
    early_free,  // once it is the last use of its memory at home, so that sending frees it; late otherwise
};

// Inserts transfers into one order after another without allocating. Transfers of one producer that are sent at one
// moment are in tensor, then device order; those that an op sets free, in the order of its inputs.
class TransferPlacer {
  public:
    explicit TransferPlacer(const Problem& problem);

    // Returns the whole order, valid until the next call. `ops` holds every op once, after all it depends on.
    std::span<const Step> place(std::span<const int32_t> device_of, std::span<const int32_t> ops,
                                TransferTiming timing);

  private:
    struct Waiting {
        Step transfer;
        int32_t next;  // on its link, -1 after the last
    };
    struct Link {
        int32_t first = -1, last = -1;
    };

    template <TransferTiming kTiming>
    void run(std::span<const int32_t> device_of, std::span<const int32_t> ops);
    void find_destinations(std::span<const int32_t> device_of);
    void count_uses(std::span<const int32_t> device_of);
    Link& link(int32_t source, int32_t destination) {
        return links_[size_t(source) * size_t(problem_.num_devices) + size_t(destination)];
    }
    void wait(int32_t tensor, int32_t source, uint64_t destinations);
    void send_waiting(Link& link);
    void send(int32_t tensor, int32_t destination);
    void use(int32_t storage);
    void free_by_sending(int32_t storage);

    const Problem& problem_;
    Csr members_;                         // storage -> tensors in it
    std::vector<uint64_t> destinations_;  // [tensor] mask of the other devices that read it
    std::vector<uint64_t> unsent_;        // [tensor] those of them to which it can be sent and has not been
    std::vector<int32_t> uses_left_;      // [storage] at home, transfers included; early_free
    std::vector<Link> links_;             // [source][destination] transfers that wait for it; batched
    std::vector<Waiting> waiting_;        // of all links, in the order in which they were made
    size_t num_waiting_ = 0;
    std::vector<Step> order_;
    size_t num_steps_ = 0;
};

// Returns one such order, in memory of its own.
std::vector<Step> with_transfers(const Problem& problem, std::span<const int32_t> device_of,
                                 std::span<const int32_t> ops, TransferTiming timing);

}  // namespace placewright
