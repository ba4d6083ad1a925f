// The idle time of a device or link, into which work is inserted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace placewright {

// Idle slots from 0 to kForever, one before each piece of work and one after the last. Neighbouring slots form chunks;
// a search skips chunks that have no slot long enough. Slots of zero length are kept for work that takes no time.
class IdleSlots {
  public:
    // Returns the first time from `ready` on at which work of that duration fits.
    int64_t earliest(int64_t ready, int64_t duration) const {
        size_t chunk = chunk_at(ready);
        int64_t start = first_fit(chunks_[chunk], ready, duration);
        while (start < 0)
            if (chunks_[++chunk].longest >= duration) start = first_fit(chunks_[chunk], ready, duration);
        return start;
    }

    // Occupies the time that `earliest` found.
    void occupy(int64_t start, int64_t duration) {
        const size_t place = chunk_at(start);
        std::vector<Slot>& slots = chunks_[place].slots;
        const auto slot = std::ranges::upper_bound(slots, start, {}, &Slot::begin) - 1;
        const Slot after{start + duration, slot->end};
        slot->end = start;
        slots.insert(slot + 1, after);
        if (slots.size() > kChunk)
            split(place);
        else
            chunks_[place].measure();
    }

  private:
    static constexpr size_t kChunk = 128;
    struct Slot {
        int64_t begin, end;
    };
    struct Chunk {
        std::vector<Slot> slots;
        int64_t longest = 0;

        void measure() {
            longest = 0;
            for (const Slot& slot : slots) longest = std::max(longest, slot.end - slot.begin);
        }
    };

    size_t chunk_at(int64_t time) const {
        const auto later =
            std::ranges::upper_bound(chunks_, time, {}, [](const Chunk& chunk) { return chunk.slots.front().begin; });
        return static_cast<size_t>(later - chunks_.begin()) - 1;
    }

    // Returns the start, or -1 if the work fits in no slot of the chunk.
    static int64_t first_fit(const Chunk& chunk, int64_t ready, int64_t duration) {
        auto slot = std::ranges::upper_bound(chunk.slots, ready, {}, &Slot::begin);
        if (slot != chunk.slots.begin() && ready + duration <= (slot - 1)->end) return ready;
        for (; slot != chunk.slots.end(); ++slot)
            if (slot->begin + duration <= slot->end) return slot->begin;
        return -1;
    }

    void split(size_t place) {
        Chunk second;
        std::vector<Slot>& slots = chunks_[place].slots;
        second.slots.assign(slots.begin() + kChunk / 2, slots.end());
        slots.resize(kChunk / 2);
        chunks_[place].measure();
        second.measure();
        chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(place) + 1, std::move(second));
    }

    static constexpr int64_t kForever = INT64_MAX / 2;
    std::vector<Chunk> chunks_{Chunk{{{0, kForever}}, kForever}};
};

}  // namespace placewright
