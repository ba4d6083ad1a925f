#include "problem/delays.hpp"

#include <algorithm>
#include <utility>

namespace placewright {

namespace {

// The links that can give the shortest transfer: no other link has both a smaller latency and a greater bandwidth.
std::vector<std::pair<int64_t, int64_t>> best_links(const Problem& p) {
    std::vector<std::pair<int64_t, int64_t>> links, best;
    for (int32_t from = 0; from < p.num_devices; ++from)
        for (int32_t to = 0; to < p.num_devices; ++to) {
            const size_t link = size_t(from) * p.num_devices + to;
            if (from != to) links.emplace_back(p.latency_ns[link], p.inverse_bandwidth[link]);
        }
    std::ranges::sort(links);
    for (const auto& link : links)
        if (best.empty() || link.second < best.back().second) best.push_back(link);
    return best;
}

int64_t least_transfer_ns(std::span<const std::pair<int64_t, int64_t>> links, int64_t bytes) {
    int64_t least = Delays::kNever;
    for (const auto& [latency_ns, inverse_bandwidth] : links) {
        const auto scaled = static_cast<unsigned __int128>(bytes) * uint64_t(inverse_bandwidth);
        least = std::min(least, latency_ns + static_cast<int64_t>((scaled + 0xffffffffu) >> 32));
    }
    return least;
}

}  // namespace

Delays::Delays(const Problem& p) {
    const auto links = best_links(p);
    std::vector<std::pair<int32_t, int64_t>> row;
    before.values.reserve(p.inputs.values.size());
    for (int32_t op = 0; op < p.num_ops; ++op) {
        row.clear();
        const auto together = [&](int32_t other) { return p.num_devices == 1 || p.group[op] == p.group[other]; };
        for (int32_t tensor : p.inputs[op]) {
            const int32_t other = p.producer[tensor];
            row.emplace_back(other, together(other) ? kNever : least_transfer_ns(links, p.transfer_bytes[tensor]));
        }
        // In mode "order" a control dependency causes no delay across devices; one given as a tensor is among the
        // inputs.
        for (int32_t other : p.predecessors[op]) {
            if (together(other))
                row.emplace_back(other, kNever);
            else if (p.signals)
                row.emplace_back(other, links.front().first);
        }
        std::ranges::sort(row);
        for (size_t i = 0; i < row.size(); ++i) {
            if (i + 1 < row.size() && row[i + 1].first == row[i].first) continue;  // the last of equals is the longest
            before.values.push_back(row[i].first);
            between_ns.push_back(row[i].second);
        }
        before.begin.push_back(static_cast<int32_t>(before.values.size()));
    }
}

Delays Delays::reversed() const {
    Delays result(*this);
    const int32_t num_ops = before.num_rows();
    std::vector<int32_t> next(size_t(num_ops) + 1, 0);
    for (int32_t other : before.values) ++next[size_t(num_ops) - other];
    for (int32_t op = 0; op < num_ops; ++op) next[size_t(op) + 1] += next[op];
    result.before.begin = next;
    for (int32_t op = num_ops - 1; op >= 0; --op)
        for (int32_t i = before.begin[op]; i < before.begin[op + 1]; ++i) {
            const int32_t place = next[size_t(num_ops) - 1 - before.values[i]]++;
            result.before.values[place] = num_ops - 1 - op;
            result.between_ns[place] = between_ns[i];
        }
    return result;
}

}  // namespace placewright
