#include "improve/op_cluster.hpp"

namespace placewright {

namespace {

constexpr uint64_t kGrowth = 100, kDevice = 300;  // indices of a stream
constexpr uint32_t kDevicesSeen = 16;             // neighbours among which one is drawn

}  // namespace

OpCluster::OpCluster(const Problem& problem) : problem_(problem), joined_in_(problem.num_ops) {
    members_.reserve(problem.num_ops);
}

void OpCluster::add_group(int32_t op) {
    for (int32_t member : group(op)) {
        if (contains(member)) continue;
        joined_in_[member] = number_;
        members_.push_back(member);
    }
}

void OpCluster::grow(const RandomStream& stream, std::span<const int32_t> device_of, int32_t op, int32_t size,
                     Direction direction) {
    const int32_t here = device_of[size_t(op)];
    members_.clear();
    ++number_;
    add_group(op);
    const auto is_full = [&] { return members_.size() >= size_t(size); };
    for (size_t i = 0; i < members_.size() && !is_full(); ++i) {
        const int32_t member = members_[i];
        const uint64_t bits = stream.bits(kGrowth + i);
        uint64_t seen = 0;
        const auto consider = [&](int32_t other) {
            const bool is_drawn = bits >> (2 * seen++ % 60) & 3;
            if (is_drawn && !is_full() && device_of[size_t(other)] == here && !contains(other)) add_group(other);
        };
        if (direction != Direction::down)
            for (int32_t tensor : problem_.inputs[member]) consider(problem_.producer[tensor]);
        if (direction != Direction::up)
            for (int32_t tensor = problem_.output_begin[member]; tensor < problem_.output_begin[member + 1]; ++tensor)
                for (int32_t consumer : problem_.consumers[tensor]) consider(consumer);
    }
}

int32_t OpCluster::neighbouring_device(const RandomStream& stream, std::span<const int32_t> device_of) const {
    const int32_t here = device_of[size_t(members_[0])];
    int32_t found = -1;
    uint32_t seen = 0;
    const auto consider = [&](int32_t other) {
        if (contains(other) || device_of[size_t(other)] == here) return;
        ++seen;
        if (stream.below(kDevice + seen, seen) == 0) found = device_of[size_t(other)];
    };
    for (int32_t member : members_) {
        for (int32_t tensor : problem_.inputs[member]) consider(problem_.producer[tensor]);
        for (int32_t tensor = problem_.output_begin[member]; tensor < problem_.output_begin[member + 1]; ++tensor)
            for (int32_t consumer : problem_.consumers[tensor]) consider(consumer);
        if (seen > kDevicesSeen) break;
    }
    return found;
}

}  // namespace placewright
