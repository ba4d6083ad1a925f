#include "improve/superstep_state.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>

namespace placewright {

namespace {

// Returns, per op, each op it waits for once. A producer's edge wins over a control dependency on the same op.
Csr edges_before(const Problem& p) {
    Csr edges;
    edges.values.reserve(p.inputs.values.size() + p.predecessors.values.size());
    for (int32_t op = 0; op < p.num_ops; ++op) {
        const auto row = std::ptrdiff_t(edges.values.size());
        for (int32_t tensor : p.inputs[op]) edges.values.push_back(2 * p.producer[tensor] + 1);
        for (int32_t before : p.predecessors[op]) edges.values.push_back(2 * before + p.signals);
        std::sort(edges.values.begin() + row, edges.values.end(), std::greater<>());
        const auto same_op = [](int32_t one, int32_t other) { return one >> 1 == other >> 1; };
        edges.values.erase(std::unique(edges.values.begin() + row, edges.values.end(), same_op), edges.values.end());
        edges.begin.push_back(static_cast<int32_t>(edges.values.size()));
    }
    return edges;
}

Csr reversed(const Csr& edges) {
    Csr result;
    result.begin.assign(edges.begin.size(), 0);
    for (int32_t edge : edges.values) ++result.begin[size_t(edge >> 1) + 1];
    std::partial_sum(result.begin.begin(), result.begin.end(), result.begin.begin());
    result.values.resize(edges.values.size());
    std::vector<int32_t> next(result.begin.begin(), result.begin.end() - 1);
    for (int32_t op = 0; op < edges.num_rows(); ++op)
        for (int32_t edge : edges[op]) result.values[size_t(next[size_t(edge >> 1)]++)] = 2 * op + (edge & 1);
    return result;
}

// Returns the ops of each segment in captured order, which is valid.
Csr ops_by_segment(std::span<const Place> places) {
    int32_t num_segments = 0;
    for (const Place& place : places) num_segments = std::max(num_segments, place.segment + 1);
    Csr rows;
    rows.begin.assign(size_t(num_segments) + 1, 0);
    for (const Place& place : places) ++rows.begin[size_t(place.segment) + 1];
    std::partial_sum(rows.begin.begin(), rows.begin.end(), rows.begin.begin());
    rows.values.resize(places.size());
    std::vector<int32_t> next(rows.begin.begin(), rows.begin.end() - 1);
    for (size_t op = 0; op < places.size(); ++op)
        rows.values[size_t(next[size_t(places[op].segment)]++)] = static_cast<int32_t>(op);
    return rows;
}

// One empty segment is inserted per about this many, or two in all if there are few.
constexpr int32_t kSegmentsPerInsertion = 16;

// Tightens an end of a reach by one more op: the first segment becomes no smaller for an op before (`is_beyond` is
// greater), the last no greater for one after (less). An op that may be on another device limits every device alike, as
// an end without devices does. There are no branches, because the op that limits is unpredictable.
template <class IsBeyond>
void limit(int32_t& end, uint64_t& devices, int32_t segment, uint64_t device, IsBeyond is_beyond) {
    const bool beyond = is_beyond(segment, end);
    devices = (devices & (uint64_t{beyond} - 1)) | (device & -static_cast<uint64_t>(beyond || segment == end));
    end = beyond ? segment : end;
}

}  // namespace

bool has_free_barriers(const Problem& p) {
    bool free = p.num_devices > 1 && p.blocking && !p.minimize_memory && !p.has_hosts;
    for (int32_t link = 0; link < p.num_devices * p.num_devices; ++link) {
        const bool joins_two = link % (p.num_devices + 1) != 0;
        free = free && !(joins_two && (p.latency_ns[link] != 0 || p.inverse_bandwidth[link] != 0));
    }
    return free;
}

std::vector<Place> places_of(const Problem& p, std::span<const int32_t> device_of, std::span<const Step> order) {
    std::vector<Place> places(size_t(p.num_ops));
    int32_t segment = 0;
    bool after_op = false;
    for (const Step& step : order) {
        if (!step.is_op()) {
            segment += after_op;
            after_op = false;
            continue;
        }
        Place& place = places[step.id];
        place = {segment, device_of[step.id]};
        // Transfers and signals that other orders place differently may demand a later segment.
        for (int32_t tensor : p.inputs[step.id]) {
            const Place& source = places[p.producer[tensor]];
            place.segment = std::max(place.segment, source.segment + (source.device != place.device));
        }
        for (int32_t before : p.predecessors[step.id]) {
            const bool apart = p.signals && places[before].device != place.device;
            place.segment = std::max(place.segment, places[before].segment + apart);
        }
        after_op = true;
    }
    return places;
}

std::vector<int32_t> devices_of(std::span<const Place> places) {
    std::vector<int32_t> device_of(places.size());
    std::ranges::transform(places, device_of.begin(), &Place::device);
    return device_of;
}

std::vector<Step> order_of(const Problem& p, std::span<const Place> places) {
    const Csr segments = ops_by_segment(places);
    std::vector<uint64_t> present(size_t(p.num_tensors));
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor)
        present[tensor] = uint64_t{1} << places[p.producer[tensor]].device;
    std::vector<Step> order;
    order.reserve(size_t(p.num_ops) * 2);
    for (int32_t segment = 0; segment < segments.num_rows(); ++segment) {
        for (int32_t op : segments[segment])
            for (int32_t tensor : p.inputs[op]) {
                const int32_t device = places[op].device;
                if (present[tensor] >> device & 1) continue;
                present[tensor] |= uint64_t{1} << device;
                order.push_back({tensor, device});
            }
        for (int32_t op : segments[segment]) order.push_back(Step::op(op));
    }
    return order;
}

Supersteps::Supersteps(const Problem& problem, std::span<const Place> places)
    : problem_(problem),
      before_(edges_before(problem)),
      after_(reversed(before_)),
      next_(problem.num_ops),
      previous_(problem.num_ops) {
    assign(places);
}

void Supersteps::assign(std::span<const Place> places) {
    places_.assign(places.begin(), places.end());
    num_segments_ = 0;
    for (const Place& place : places_) num_segments_ = std::max(num_segments_, place.segment + 1);
    loads_.assign(size_t(num_segments_) * size_t(problem_.num_devices), 0);
    first_.assign(loads_.size(), -1);
    longest_.assign(size_t(num_segments_), 0);
    value_ = 0;
    for (int32_t op = 0; op < problem_.num_ops; ++op) {
        link(op);
        change_load(places_[op], problem_.op_time(op, places_[op].device));
    }
    assert(is_consistent());
}

Supersteps::Reach Supersteps::reach(int32_t op) const {
    Reach reach{0, num_segments_ - 1, 0, 0};
    for (int32_t edge : before_[op]) {
        const Place& other = places_[edge >> 1];
        const uint64_t device = uint64_t(edge & 1) << other.device;
        limit(reach.first_segment, reach.devices_at_first, other.segment, device, std::greater<>());
    }
    for (int32_t edge : after_[op]) {
        const Place& other = places_[edge >> 1];
        const uint64_t device = uint64_t(edge & 1) << other.device;
        limit(reach.last_segment, reach.devices_at_last, other.segment, device, std::less<>());
    }
    return reach;
}

Supersteps::Reach Supersteps::reach_with_group(int32_t op, int32_t device) const {
    Reach reach{0, num_segments_ - 1, 0, 0};
    const auto device_of = [&](int32_t edge) {
        const int32_t other = edge >> 1;
        const bool together = problem_.group[other] == problem_.group[op];
        return uint64_t(edge & 1) << (together ? device : places_[other].device);
    };
    for (int32_t edge : before_[op])
        limit(reach.first_segment, reach.devices_at_first, places_[edge >> 1].segment, device_of(edge),
              std::greater<>());
    for (int32_t edge : after_[op])
        limit(reach.last_segment, reach.devices_at_last, places_[edge >> 1].segment, device_of(edge), std::less<>());
    return reach;
}

bool Supersteps::are_adjacent(int32_t op, int32_t other) const {
    const auto is_other = [&](int32_t edge) { return edge >> 1 == other; };
    return std::ranges::any_of(before_[op], is_other) || std::ranges::any_of(after_[op], is_other);
}

int32_t Supersteps::next_at(Place place) {
    int32_t& first = first_[at(place)];
    return first < 0 ? -1 : first = next_[first];
}

// Returns the longest load of the place's segment if the place had this load.
int64_t Supersteps::longest_with(Place place, int64_t load) const {
    const int64_t* row = &loads_[at({place.segment, 0})];
    if (problem_.num_devices == 2) return std::max(load, row[1 - place.device]);
    const int64_t longest = longest_[place.segment];
    if (load >= longest) return load;
    if (row[place.device] < longest) return longest;
    for (int32_t device = 0; device < problem_.num_devices; ++device)
        if (device != place.device) load = std::max(load, row[device]);
    return load;
}

// The same with two loads of one segment changed.
int64_t Supersteps::longest_with(Place one, int64_t load_of_one, Place other, int64_t load_of_other) const {
    int64_t longest = std::max(load_of_one, load_of_other);
    if (problem_.num_devices == 2) return longest;
    const int64_t* row = &loads_[at({one.segment, 0})];
    for (int32_t device = 0; device < problem_.num_devices; ++device)
        if (device != one.device && device != other.device) longest = std::max(longest, row[device]);
    return longest;
}

int64_t Supersteps::change_in_value(Place one, int64_t change_of_one, Place other, int64_t change_of_other) const {
    assert(one != other);
    const int64_t load_of_one = loads_[at(one)] + change_of_one;
    const int64_t load_of_other = loads_[at(other)] + change_of_other;
    if (one.segment == other.segment)
        return longest_with(one, load_of_one, other, load_of_other) - longest_[one.segment];
    return longest_with(one, load_of_one) - longest_[one.segment] + longest_with(other, load_of_other) -
           longest_[other.segment];
}

void Supersteps::change_load(Place place, int64_t change) {
    int64_t& load = loads_[at(place)];
    const int64_t longest = longest_with(place, load + change);
    load += change;
    value_ += longest - longest_[place.segment];
    longest_[place.segment] = longest;
}

void Supersteps::link(int32_t op) {
    int32_t& first = first_[at(places_[op])];
    if (first < 0) {
        first = next_[op] = previous_[op] = op;
        return;
    }
    next_[op] = first;
    previous_[op] = previous_[first];
    next_[previous_[first]] = op;
    previous_[first] = op;
}

void Supersteps::unlink(int32_t op) {
    int32_t& first = first_[at(places_[op])];
    if (next_[op] == op) {
        first = -1;
        return;
    }
    next_[previous_[op]] = next_[op];
    previous_[next_[op]] = previous_[op];
    if (first == op) first = next_[op];
}

void Supersteps::move(int32_t op, Place to) {
    unlink(op);
    change_load(places_[op], -problem_.op_time(op, places_[op].device));
    places_[op] = to;
    change_load(to, problem_.op_time(op, to.device));
    link(op);
}

std::vector<Place> Supersteps::merged(std::span<const Place> places) const {
    const Csr segments = ops_by_segment(places);
    std::vector<int32_t> number(size_t(segments.num_rows()));
    int32_t current = 0;
    for (int32_t segment = 0; segment < segments.num_rows(); ++segment) {
        const auto needs_barrier = [&](int32_t op) {
            return std::ranges::any_of(before_[op], [&](int32_t edge) {
                const Place& other = places[size_t(edge >> 1)];
                return edge & 1 && other.device != places[op].device && number[other.segment] == current;
            });
        };
        const bool apart = std::ranges::any_of(segments[segment], needs_barrier);
        number[segment] = current += apart;
    }
    std::vector<Place> result(places.begin(), places.end());
    for (Place& place : result) place.segment = number[place.segment];
    return result;
}

void Supersteps::repack(const RandomStream& stream) {
    std::vector<Place> places = merged(places_);
    const int32_t last = std::ranges::max(places, {}, &Place::segment).segment;
    const auto share = static_cast<uint32_t>(std::clamp(last / 2, 1, kSegmentsPerInsertion));
    std::vector<int32_t> number(size_t(last) + 1);
    int32_t inserted = 0;
    for (int32_t segment = 0; segment <= last; ++segment) {
        number[segment] = segment + inserted;
        inserted += stream.below(uint64_t(segment), share) == 0;
    }
    for (Place& place : places) place.segment = number[place.segment];
    assign(places);
}

bool Supersteps::is_consistent() const {
    for (int32_t op = 0; op < problem_.num_ops; ++op) {
        const int32_t device = places_[op].device;
        if (!reach(op).holds(places_[op]) || !(problem_.allowed[op] >> device & 1)) return false;
        if (device != places_[problem_.group[op]].device) return false;
    }
    int64_t value = 0;
    int32_t num_found = 0;
    for (int32_t segment = 0; segment < num_segments_; ++segment) {
        int64_t longest = 0;
        for (int32_t device = 0; device < problem_.num_devices; ++device) {
            const int32_t first = first_[at({segment, device})];
            int64_t load = 0;
            for (int32_t op = first; op >= 0; op = next_[op] == first ? -1 : next_[op], ++num_found) {
                if (places_[op] != Place{segment, device} || previous_[next_[op]] != op) return false;
                load += problem_.op_time(op, device);
            }
            if (load != loads_[at({segment, device})]) return false;
            longest = std::max(longest, load);
        }
        if (longest != longest_[segment]) return false;
        value += longest;
    }
    return value == value_ && num_found == problem_.num_ops;
}

}  // namespace placewright
