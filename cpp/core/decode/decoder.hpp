// Decoders, which turn the random keys of a search into a solution. Each kind has a chromosome of its own length;
// docs/algorithms.md gives the case for each.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "decode/packed_keys.hpp"
#include "problem/problem.hpp"

namespace placewright {

enum class DecoderKind {
    paper,            // REGAL, A.5: devices by affinity, one queue of ops and transfers
    lazy,             // devices by affinity, a queue of ops; transfers right before their first use
    early_free,       // the same; a transfer is sent as soon as that frees its tensor at home
    evict,            // the same; a transfer is sent when its device would exceed a memory target, late otherwise
    segment_fill,     // a priority per op; segment-fill chooses the devices
    earliest_finish,  // a priority per op, taken from a queue; each op goes where it finishes first
};

// Returns the decoder of that name; throws std::invalid_argument if there is none.
DecoderKind decoder_named(std::string_view name);

// Returns the length of a chromosome. Decoders with affinities share a layout (AffinityKeys), which includes priorities
// of transfers that only `paper` reads; the others have one key per op.
int64_t num_keys(const Problem& problem, DecoderKind kind);

// A solution in a decoder's memory, valid until it decodes again.
struct Decoded {
    std::span<const int32_t> device_of;  // [op]
    std::span<const Step> order;
};

// A decoder with its memory, for one thread and one problem. It allocates nothing when it decodes.
class Decoder {
  public:
    virtual ~Decoder() = default;
    virtual Decoded decode(std::span<const Key> keys) = 0;
};

// Returns a decoded solution as a copy.
inline Solution decoded(Decoder& decoder, std::span<const Key> keys) {
    const auto [device_of, order] = decoder.decode(keys);
    return {{device_of.begin(), device_of.end()}, {order.begin(), order.end()}};
}

// The problem must outlive the decoder.
std::unique_ptr<Decoder> make_decoder(const Problem& problem, DecoderKind kind);

// Returns keys for a known solution: priorities fall with the position in the order. `paper` decodes them to exactly
// that solution, the other decoders with affinities to its devices and its order of ops, and those without to the
// solution that they build from its order of ops.
std::vector<Key> encode(const Problem& problem, std::span<const int32_t> device_of, std::span<const Step> order,
                        DecoderKind kind = DecoderKind::paper);

}  // namespace placewright
