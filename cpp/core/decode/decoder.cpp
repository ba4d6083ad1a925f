#include "decode/decoder.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "construct/eviction.hpp"
#include "construct/list_schedule.hpp"
#include "construct/partial_schedule.hpp"
#include "construct/segment_fill.hpp"
#include "construct/transfers.hpp"
#include "decode/affinity_keys.hpp"
#include "decode/paper_decoder.hpp"
#include "decode/priority_order.hpp"

namespace placewright {

namespace {

constexpr std::array<std::pair<std::string_view, DecoderKind>, 6> kNames{{
    {"paper", DecoderKind::paper},
    {"lazy", DecoderKind::lazy},
    {"early-free", DecoderKind::early_free},
    {"evict", DecoderKind::evict},
    {"segment-fill", DecoderKind::segment_fill},
    {"earliest-finish", DecoderKind::earliest_finish},
}};

bool has_affinities(DecoderKind kind) {
    return kind != DecoderKind::segment_fill && kind != DecoderKind::earliest_finish;
}

// Late transfers; if they block and time counts, with as few barriers as possible.
TransferTiming lazy_timing(const Problem& problem) {
    return problem.blocking && !problem.minimize_memory ? TransferTiming::batched : TransferTiming::late;
}

// Returns the priorities of ops in the layout with affinities.
std::span<const Key> priorities_of_ops(const Problem& problem, std::span<const Key> keys) {
    return keys.subspan(size_t(AffinityKeys(problem).op_priority(0)), size_t(problem.num_ops));
}

class PaperDecoder final : public Decoder {
  public:
    explicit PaperDecoder(const Problem& problem) : problem_(problem), scratch_(problem) {}

    Decoded decode(std::span<const Key> keys) override {
        placewright::decode(problem_, keys, scratch_);
        return {scratch_.device_of, {scratch_.order.data(), scratch_.num_steps}};
    }

  private:
    const Problem& problem_;
    DecodeScratch scratch_;
};

class AffinityDecoder final : public Decoder {
  public:
    AffinityDecoder(const Problem& problem, TransferTiming timing)
        : problem_(problem), timing_(timing), device_of_(problem.num_ops), queue_(problem), transfers_(problem) {}

    Decoded decode(std::span<const Key> keys) override {
        place_by_affinity(problem_, keys, device_of_);
        const auto ops = queue_.order(priorities_of_ops(problem_, keys));
        return {device_of_, transfers_.place(device_of_, ops, timing_)};
    }

  private:
    const Problem& problem_;
    const TransferTiming timing_;
    std::vector<int32_t> device_of_;
    PriorityOrder queue_;
    TransferPlacer transfers_;
};

// The target is the memory limits and, if memory is the objective, also a share of the peak that the same placement and
// order of ops have with late transfers.
class EvictingDecoder final : public Decoder {
  public:
    explicit EvictingDecoder(const Problem& problem)
        : problem_(problem),
          device_of_(problem.num_ops),
          target_(problem.num_devices),
          queue_(problem),
          eviction_(problem) {}

    Decoded decode(std::span<const Key> keys) override {
        place_by_affinity(problem_, keys, device_of_);
        const auto ops = queue_.order(priorities_of_ops(problem_, keys));
        std::ranges::copy(problem_.memory_limit, target_.begin());
        if (problem_.minimize_memory) {
            std::ranges::fill(target_, Problem::kNoLimit);
            eviction_.order(device_of_, ops, target_);
            const auto most = static_cast<int64_t>(kShareOfLatePeak * double(std::ranges::max(eviction_.peak())));
            for (size_t device = 0; device < target_.size(); ++device)
                target_[device] = std::min(most, problem_.memory_limit[device]);
        }
        return {device_of_, eviction_.order(device_of_, ops, target_)};
    }

  private:
    // The best of 75, 80, 85 and 90% on training graphs.
    static constexpr double kShareOfLatePeak = 0.85;

    const Problem& problem_;
    std::vector<int32_t> device_of_;
    std::vector<int64_t> target_;
    PriorityOrder queue_;
    Eviction eviction_;
};

class EarliestFinishDecoder final : public Decoder {
  public:
    explicit EarliestFinishDecoder(const Problem& problem)
        : problem_(problem), queue_(problem), schedule_(problem, problem.needs_memory), transfers_(problem) {}

    Decoded decode(std::span<const Key> keys) override {
        const auto ops = queue_.order(keys);
        schedule_.reset();
        list_schedule(problem_, ops, choice_for(problem_), schedule_);
        const auto device_of = schedule_.placement().devices();
        return {device_of, transfers_.place(device_of, ops, lazy_timing(problem_))};
    }

  private:
    const Problem& problem_;
    PriorityOrder queue_;
    PartialSchedule schedule_;
    TransferPlacer transfers_;
};

class SegmentFillDecoder final : public Decoder {
  public:
    explicit SegmentFillDecoder(const Problem& problem) : queue_(problem), scheduler_(problem) {}

    Decoded decode(std::span<const Key> keys) override {
        scheduler_.run(queue_.ranked(keys), BarrierTiming::when_one_starves);
        return {scheduler_.device_of(), scheduler_.order()};
    }

  private:
    PriorityOrder queue_;
    SegmentFill scheduler_;
};

}  // namespace

DecoderKind decoder_named(std::string_view name) {
    for (const auto& [known, kind] : kNames)
        if (known == name) return kind;
    throw std::invalid_argument("there is no decoder '" + std::string(name) + "'");
}

int64_t num_keys(const Problem& problem, DecoderKind kind) {
    return has_affinities(kind) ? AffinityKeys(problem).size() : problem.num_ops;
}

std::unique_ptr<Decoder> make_decoder(const Problem& problem, DecoderKind kind) {
    switch (kind) {
        case DecoderKind::paper:
            return std::make_unique<PaperDecoder>(problem);
        case DecoderKind::lazy:
            return std::make_unique<AffinityDecoder>(problem, lazy_timing(problem));
        case DecoderKind::early_free:
            return std::make_unique<AffinityDecoder>(problem, TransferTiming::early_free);
        case DecoderKind::evict:
            return std::make_unique<EvictingDecoder>(problem);
        case DecoderKind::segment_fill:
            return std::make_unique<SegmentFillDecoder>(problem);
        case DecoderKind::earliest_finish:
            return std::make_unique<EarliestFinishDecoder>(problem);
    }
    throw std::invalid_argument("there is no such decoder");
}

std::vector<Key> encode(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order,
                        DecoderKind kind) {
    std::vector<Key> keys(size_t(num_keys(p, kind)), 0);
    const bool affinities = has_affinities(kind);
    const AffinityKeys layout(p);
    for (int32_t op = 0; affinities && op < p.num_ops; ++op) keys[size_t(layout.affinity(op, device_of[op]))] = ~Key{0};
    const uint64_t spacing = (uint64_t{1} << 32) / (order.size() + 1);
    for (size_t k = 0; k < order.size(); ++k) {
        const auto [id, destination] = order[k];
        if (!affinities && !order[k].is_op()) continue;
        const int64_t op_key = affinities ? layout.op_priority(id) : id;
        const int64_t at = order[k].is_op() ? op_key : layout.transfer_priority(id, destination);
        keys[size_t(at)] = static_cast<Key>((order.size() - k) * spacing);
    }
    return keys;
}

}  // namespace placewright
