#include "construct/eviction.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace placewright {

namespace {

// At most this many evictable pieces that do not fit at their destination are passed over before an op; keeps the walk
// linear.
constexpr int32_t kMaxRefusals = 8;

template <class F>
void for_each_device(uint64_t mask, F&& f) {
    for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

}  // namespace

Eviction::Eviction(const Problem& problem)
    : problem_(problem),
      next_alias_(problem.num_tensors, -1),
      uses_left_(size_t(problem.num_tensors) * problem.num_devices),
      needed_on_(problem.num_tensors),
      waiting_for_(problem.num_tensors),
      sends_left_(problem.num_tensors),
      in_use_(problem.num_devices),
      peak_(problem.num_devices),
      resident_on_(problem.resident_bytes.size()),
      level_(problem.num_ops),
      heap_begin_(problem.num_devices + 1),
      heap_size_(problem.num_devices),
      heaps_(problem.num_tensors) {
    for (int32_t tensor = problem.num_tensors - 1; tensor >= 0; --tensor) {
        const int32_t storage = problem.storage[tensor];
        if (storage != tensor) next_alias_[tensor] = std::exchange(next_alias_[storage], tensor);
    }
    int64_t max_transfers = 0;
    for (int32_t tensor = 0; tensor < problem.num_tensors; ++tensor)
        max_transfers += std::min<int64_t>(std::ssize(problem.consumers[tensor]), problem.num_devices - 1);
    order_.reserve(size_t(problem.num_ops + max_transfers));
}

std::span<const Step> Eviction::order(std::span<const int32_t> device_of, std::span<const int32_t> ops,
                                      std::span<const int64_t> target, int64_t max_bytes) {
    prepare(device_of);
    for (int32_t place = 0; place < problem_.num_ops; ++place) {
        run(ops[place], place, target);
        if (largest_ > max_bytes) return {};
    }
    return order_;
}

void Eviction::prepare(std::span<const int32_t> device_of) {
    device_of_ = device_of;
    order_.clear();
    count_uses(device_of);
    load_residents(device_of);
    std::ranges::copy(in_use_, peak_.begin());
    largest_ = std::ranges::max(peak_);
}

// Counts uses as the simulation does, and finds where each tensor is needed and how many are at home on each device.
void Eviction::count_uses(std::span<const int32_t> device_of) {
    const Problem& p = problem_;
    std::ranges::fill(uses_left_, 0);
    std::ranges::fill(waiting_for_, 0);
    std::ranges::fill(sends_left_, 0);
    std::ranges::fill(heap_begin_, 0);
    std::ranges::fill(heap_size_, 0);
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor) {
        const int32_t home = device_of[p.producer[tensor]];
        int32_t& at_home = uses_left(p.storage[tensor], home);
        at_home += p.live_out[tensor];
        uint64_t needed_on = 0;
        for (int32_t consumer : p.consumers[tensor]) {
            const int32_t device = device_of[consumer];
            if (device == home) {
                ++at_home;
            } else {
                ++uses_left(tensor, device);
                needed_on |= uint64_t{1} << device;
            }
        }
        at_home += std::popcount(needed_on);
        needed_on_[tensor] = needed_on;
        ++heap_begin_[home + 1];
    }
    for (int32_t device = 0; device < p.num_devices; ++device) heap_begin_[device + 1] += heap_begin_[device];
}

void Eviction::load_residents(std::span<const int32_t> device_of) {
    const Problem& p = problem_;
    std::ranges::fill(in_use_, 0);
    if (p.residents.values.empty()) return;
    std::ranges::fill(resident_on_, 0);
    for (int32_t op = 0; op < p.num_ops; ++op) {
        const uint64_t here = uint64_t{1} << device_of[op];
        for (int32_t resident : p.residents[op]) {
            in_use_[device_of[op]] += resident_on_[resident] & here ? 0 : p.resident_bytes[resident];
            resident_on_[resident] |= here;
        }
    }
}

void Eviction::run(int32_t op, int32_t place, std::span<const int64_t> target) {
    const Problem& p = problem_;
    const int32_t device = device_of_[op];
    const uint64_t here = uint64_t{1} << device;
    const int64_t own = p.output_bytes[op] + p.workspace_bytes[op];
    int64_t needed = own;
    for (int32_t tensor : p.inputs[op])
        if (waiting_for_[tensor] & here) needed += p.copy_bytes[tensor];
    if (in_use_[device] + needed > target[device]) make_room(device, needed, target);
    for (int32_t tensor : p.inputs[op])
        if (waiting_for_[tensor] & here) send(tensor, device);
    occupy(device, own);
    level_[place] = in_use_[device];
    order_.push_back(Step::op(op));
    finish(op, device);
}

void Eviction::make_room(int32_t device, int64_t needed, std::span<const int64_t> target) {
    std::array<Evictable, kMaxRefusals> refused;
    int32_t refusals = 0;
    while (in_use_[device] + needed > target[device] && heap_size_[device] > 0 && refusals < kMaxRefusals) {
        const Evictable next = pop(device);
        if (sends_left_[next.storage] == 0) continue;
        if (fits_elsewhere(next.storage, target))
            evict(next.storage);
        else
            refused[refusals++] = next;
    }
    while (refusals > 0) push(device, refused[--refusals]);
}

bool Eviction::fits_elsewhere(int32_t storage, std::span<const int64_t> target) const {
    bool fits = true;
    for (int32_t tensor = storage; tensor >= 0; tensor = next_alias_[tensor])
        for_each_device(waiting_for_[tensor], [&](int32_t destination) {
            fits &= in_use_[destination] + problem_.copy_bytes[tensor] <= target[destination];
        });
    return fits;
}

void Eviction::evict(int32_t storage) {
    for (int32_t tensor = storage; tensor >= 0; tensor = next_alias_[tensor])
        for_each_device(waiting_for_[tensor], [&](int32_t destination) { send(tensor, destination); });
}

void Eviction::send(int32_t tensor, int32_t destination) {
    const int32_t home = device_of_[problem_.producer[tensor]], storage = problem_.storage[tensor];
    order_.push_back({tensor, destination});
    waiting_for_[tensor] &= ~(uint64_t{1} << destination);
    --sends_left_[storage];
    occupy(destination, problem_.copy_bytes[tensor]);
    if (--uses_left(storage, home) == 0) in_use_[home] -= problem_.allocated_bytes[storage];
}

void Eviction::finish(int32_t op, int32_t device) {
    const Problem& p = problem_;
    int64_t freed = p.workspace_bytes[op];
    for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor) {
        if (uses_left(tensor, device) == 0 && p.storage[tensor] == tensor) freed += p.allocated_bytes[tensor];
        waiting_for_[tensor] = needed_on_[tensor];
        sends_left_[p.storage[tensor]] += std::popcount(needed_on_[tensor]);
    }
    for (int32_t tensor : p.inputs[op]) {
        const bool local = device_of_[p.producer[tensor]] == device;
        const int32_t held = local ? p.storage[tensor] : tensor;
        const int64_t bytes = local ? p.allocated_bytes[held] : p.copy_bytes[held];
        freed += --uses_left(held, device) == 0 ? bytes : 0;
        if (local) offer_if_evictable(held, device);
    }
    for (int32_t tensor = p.output_begin[op]; tensor < p.output_begin[op + 1]; ++tensor)
        if (needed_on_[tensor] != 0) offer_if_evictable(p.storage[tensor], device);
    in_use_[device] -= freed;
}

// Offers a storage for eviction if only transfers still use it.
void Eviction::offer_if_evictable(int32_t storage, int32_t home) {
    if (sends_left_[storage] == 0 || sends_left_[storage] != uses_left(storage, home)) return;
    if (problem_.allocated_bytes[storage] == 0) return;
    push(home, {problem_.allocated_bytes[storage], storage});
}

void Eviction::push(int32_t device, const Evictable& evictable) {
    Evictable* const heap = heaps_.data() + heap_begin_[device];
    if (heap_size_[device] == heap_begin_[device + 1] - heap_begin_[device]) return;
    heap[heap_size_[device]++] = evictable;
    std::push_heap(heap, heap + heap_size_[device]);
}

Eviction::Evictable Eviction::pop(int32_t device) {
    Evictable* const heap = heaps_.data() + heap_begin_[device];
    std::pop_heap(heap, heap + heap_size_[device]);
    return heap[--heap_size_[device]];
}

}  // namespace placewright
