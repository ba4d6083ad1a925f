#include "rematerialize/eviction_decoder.hpp"

#include <algorithm>
#include <cmath>

namespace placewright {

namespace {

constexpr int32_t kMaxDepth = 4000;        // nested runs
constexpr int32_t kMaxWalk = 256;          // ops counted to find the time to make something again
constexpr int64_t kMostWork = 10'000'000;  // ops counted and pieces looked at, in all
constexpr int64_t kNever = INT64_MAX / 4;

}  // namespace

EvictionDecoder::EvictionDecoder(const OrderedOps& ops) : ops_(ops), begins_ns_(ops.num_ops() + 1, 0) {
    for (int32_t place = 0; place < ops.num_ops(); ++place)
        begins_ns_[place + 1] = begins_ns_[place] + ops.time_ns[place];
    seen_.assign(ops.num_ops(), 0);
}

void EvictionDecoder::reset() {
    const int32_t count = ops_.num_storages();
    now_ = depth_ = 0;
    time_ns_ = work_ = 0;
    in_use_ = ops_.resident_bytes;
    is_live_.assign(count, 0);
    pins_.assign(count, 0);
    next_reader_.assign(count, 0);
    live_.clear();
    place_in_live_.assign(count, -1);
    make_ns_.assign(count, 0);
    make_known_at_.assign(count, -1);
    ++change_;
}

bool EvictionDecoder::decode(EvictionExponents exponents, int64_t longest_ns, OpRuns& runs) {
    exponents_ = exponents;
    longest_ns_ = longest_ns;
    runs_ = &runs;
    runs.clear();
    reset();
    for (; now_ < ops_.num_ops(); ++now_, ++change_)
        if (!run(now_, true, -1)) return false;
    return true;
}

// Runs an op, after whatever makes the inputs that are missing. wanted: the storage for which a later run is made.
bool EvictionDecoder::run(int32_t place, bool is_first, int32_t wanted) {
    if (++depth_ > kMaxDepth) return false;
    for (int32_t storage : ops_.reads[place]) ++pins_[storage];
    for (int32_t storage : ops_.reads[place])
        if (!is_live_[storage] && !make_again(storage)) return false;
    int64_t bytes = ops_.scratch(place, is_first);
    for (int32_t storage : ops_.makes[place]) bytes += ops_.bytes[storage];
    make_room(bytes);
    time_ns_ += ops_.time_ns[place];
    if (time_ns_ >= longest_ns_ || work_ >= kMostWork) return false;
    OpRun made{place, is_first, 0};
    uint64_t bit = 1;
    for (int32_t storage : ops_.makes[place]) {
        if (is_first || storage == wanted || (!is_live_[storage] && is_read_later(storage))) {
            made.kept |= bit;
            add_live(storage);
        }
        bit <<= 1;
    }
    runs_->push_back(made);
    for (int32_t storage : ops_.reads[place])
        if (--pins_[storage] == 0 && !ops_.stays[storage] && !is_read_later(storage)) drop(storage);
    if (is_first)
        for (int32_t storage : ops_.makes[place])
            if (!ops_.stays[storage] && !is_read_later(storage)) drop(storage);
    --depth_;
    return true;
}

bool EvictionDecoder::make_again(int32_t storage) {
    const int32_t place = ops_.maker[storage];
    if (!ops_.may_go[storage] || !ops_.may_run_again(place, now_)) return false;
    ++pins_[storage];
    const bool made = run(place, false, storage);
    --pins_[storage];
    return made;
}

// Returns whether a run in progress needs it, or a first run after the current one reads it.
bool EvictionDecoder::is_read_later(int32_t storage) {
    if (pins_[storage] > 0) return true;
    const auto readers = ops_.readers[storage];
    int32_t& next = next_reader_[storage];
    while (next < static_cast<int32_t>(readers.size()) && readers[next] <= now_) ++next;
    return next < static_cast<int32_t>(readers.size());
}

void EvictionDecoder::add_live(int32_t storage) {
    is_live_[storage] = 1;
    in_use_ += ops_.bytes[storage];
    ++change_;
    if (!ops_.may_go[storage] || ops_.bytes[storage] == 0) return;
    place_in_live_[storage] = static_cast<int32_t>(live_.size());
    live_.push_back(storage);
}

void EvictionDecoder::drop(int32_t storage) {
    is_live_[storage] = 0;
    in_use_ -= ops_.bytes[storage];
    ++change_;
    if (place_in_live_[storage] < 0) return;
    const int32_t last = live_.back();
    live_[place_in_live_[storage]] = last;
    place_in_live_[last] = place_in_live_[storage];
    place_in_live_[storage] = -1;
    live_.pop_back();
}

void EvictionDecoder::make_room(int64_t bytes) {
    while (in_use_ + bytes > ops_.limit) {
        double least = INFINITY;
        int32_t chosen = -1;
        for (int32_t storage : live_) {
            ++work_;
            if (pins_[storage] > 0) continue;
            const double found = score(storage);
            if (found < least || (found == least && storage < chosen)) least = found, chosen = storage;
        }
        if (chosen < 0) return;
        drop(chosen);
    }
}

double EvictionDecoder::score(int32_t storage) {
    if (!is_read_later(storage)) return 0;  // nothing reads it any more
    const int32_t next = ops_.readers[storage][next_reader_[storage]];
    const int64_t make = time_to_make(storage, next);
    if (make >= kNever) return INFINITY;
    const double distance = double(begins_ns_[next] - begins_ns_[now_] + 1);
    const double cost = double(make + 1);
    return (exponents_.cost == 1 ? cost : std::pow(cost, exponents_.cost)) /
           (double(ops_.bytes[storage]) *
            (exponents_.distance == 1 ? distance : std::pow(distance, exponents_.distance)));
}

// Returns the time to make something again at a place, with all that would have to be made for it.
int64_t EvictionDecoder::time_to_make(int32_t storage, int32_t at) {
    if (make_known_at_[storage] == change_) return make_ns_[storage];
    ++walk_;
    walked_ns_ = 0;
    walked_ = 0;
    add_time_to_make(storage, at);
    make_known_at_[storage] = change_;
    return make_ns_[storage] = walked_ns_;
}

void EvictionDecoder::add_time_to_make(int32_t storage, int32_t at) {
    const int32_t place = ops_.maker[storage];
    if (seen_[place] == walk_) return;
    seen_[place] = walk_;
    ++work_;
    if (!ops_.may_go[storage] || !ops_.may_run_again(place, at)) walked_ns_ = kNever;
    if (walked_ns_ >= kNever || ++walked_ > kMaxWalk) return;
    walked_ns_ += ops_.time_ns[place];
    for (int32_t read : ops_.reads[place])
        if (!is_there(read, at)) add_time_to_make(read, at);
}

// Returns whether something is live, and will be at that place unless it is dropped.
bool EvictionDecoder::is_there(int32_t storage, int32_t at) const {
    const auto readers = ops_.readers[storage];
    return is_live_[storage] && (ops_.stays[storage] || (!readers.empty() && readers.back() >= at));
}

}  // namespace placewright
