// Decoders: what a search's random keys mean. Each kind has a chromosome of its own length; docs/algorithms.md says
// what speaks for each.
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
    early_free,       // the same; a transfer leaves as soon as sending frees its tensor at home
    evict,            // the same; a transfer leaves when its device would exceed a memory target, late otherwise
    segment_fill,     // a priority per op; segment-fill chooses the devices
    earliest_finish,  // a priority per op, taken from a queue; each op goes where it finishes first
};

// Throws std::invalid_argument when there is none of that name.
DecoderKind decoder_named(std::string_view name);

// Length of a chromosome. Decoders with affinities share a layout (AffinityKeys), priorities of transfers included,
// which only `paper` reads; the others have one key per op.
int64_t num_keys(const Problem& problem, DecoderKind kind);

// A solution as it lies in a decoder's memory, until its next.
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

// A copy that stays.
inline Solution decoded(Decoder& decoder, std::span<const Key> keys) {
    const auto [device_of, order] = decoder.decode(keys);
    return {{device_of.begin(), device_of.end()}, {order.begin(), order.end()}};
}

// The problem must outlive the decoder.
std::unique_ptr<Decoder> make_decoder(const Problem& problem, DecoderKind kind);

// Keys for a known solution: priorities fall with the position in the order. `paper` decodes them to that very
// solution, the others with affinities to its devices and its order of ops, and those without to what they make of its
// order of ops.
std::vector<Key> encode(const Problem& problem, std::span<const int32_t> device_of, std::span<const Step> order,
                        DecoderKind kind = DecoderKind::paper);

}  // namespace placewright
