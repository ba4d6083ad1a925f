#include "construct/partition.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <utility>

namespace placewright {

namespace {

constexpr uint64_t bit(int32_t device) { return uint64_t{1} << device; }

// Groups of ops connected by the tensors they make and read. A tensor counts once for each further part that reads it,
// so what the splits cut adds up to the bytes moved.
struct Hypergraph {
    std::vector<int32_t> vertex_of;  // [op]
    std::vector<uint64_t> allowed;   // [vertex] mask of devices
    std::vector<double> time;        // [vertex] summed over devices
    std::vector<int64_t> bytes;      // [net]
    Csr pins;                        // net -> vertices
    Csr nets;                        // vertex -> nets
};

Hypergraph hypergraph_of(const Problem& p) {
    Hypergraph h;
    for (int32_t op = 0; op < p.num_ops; ++op) {
        const bool first = p.group[op] == op;
        h.vertex_of.push_back(first ? static_cast<int32_t>(h.time.size()) : h.vertex_of[p.group[op]]);
        if (first) {
            h.allowed.push_back(p.allowed[op]);
            h.time.push_back(0);
        }
        for (int32_t device = 0; device < p.num_devices; ++device)
            h.time[h.vertex_of[op]] += double(p.op_time(op, device));
    }
    std::vector<std::vector<int32_t>> pins, nets(h.time.size());
    for (int32_t tensor = 0; tensor < p.num_tensors; ++tensor) {
        std::vector<int32_t> own{h.vertex_of[p.producer[tensor]]};
        for (int32_t op : p.consumers[tensor]) own.push_back(h.vertex_of[op]);
        std::ranges::sort(own);
        own.erase(std::unique(own.begin(), own.end()), own.end());
        if (own.size() < 2 || p.transfer_bytes[tensor] == 0) continue;
        for (int32_t vertex : own) nets[vertex].push_back(static_cast<int32_t>(pins.size()));
        h.bytes.push_back(p.transfer_bytes[tensor]);
        pins.push_back(std::move(own));
    }
    h.pins = Csr::from_rows(pins);
    h.nets = Csr::from_rows(nets);
    return h;
}

// Returns the speed of each device: the inverse of the time that all ops take there; 1 for all if one takes none.
std::vector<double> speeds(const Problem& p) {
    std::vector<double> total(p.num_devices);
    for (int32_t op = 0; op < p.num_ops; ++op)
        for (int32_t device = 0; device < p.num_devices; ++device) total[device] += double(p.op_time(op, device));
    const bool timeless = std::ranges::any_of(total, [](double time) { return time == 0; });
    for (double& value : total) value = timeless ? 1 : 1 / value;
    return total;
}

// One split of some vertices into two sides.
class Bisection {
  public:
    Bisection(const Hypergraph& graph, std::span<const int32_t> vertices, std::array<uint64_t, 2> devices, double share,
              double imbalance)
        : h_(graph), vertices_(vertices), side_(graph.time.size(), kAbsent), held_(graph.bytes.size()) {
        double total = 0, longest = 0;
        for (int32_t vertex : vertices) {
            total += h_.time[vertex];
            longest = std::max(longest, h_.time[vertex]);
        }
        target_ = share * total;
        slack_ = std::max(imbalance * total, longest);
        gain_.resize(h_.time.size());
        free_.resize(h_.time.size());
        is_open_.resize(h_.time.size());
        fill(devices);
    }

    // Makes one pass: every free vertex moves once, the best first, whatever it costs; then the moves after the least
    // cut are taken back. Returns whether the cut became less.
    bool improve() {
        open();
        std::vector<int32_t> moved;
        int64_t gained = 0, most = 0;
        size_t kept = 0;
        for (int32_t vertex = next(); vertex >= 0; vertex = next()) {
            gained += gain_[vertex];
            move(vertex);
            moved.push_back(vertex);
            if (gained > most) {
                most = gained;
                kept = moved.size();
            }
        }
        for (size_t i = moved.size(); i > kept; --i) flip(moved[i - 1]);
        return most > 0 || settle();
    }

    std::vector<int32_t> on_side(int side) const {
        std::vector<int32_t> result;
        for (int32_t vertex : vertices_)
            if (side_[vertex] == side) result.push_back(vertex);
        return result;
    }

  private:
    static constexpr uint8_t kAbsent = 2;

    // Puts vertices that may go to one side only there; the others fill the first side in captured order up to its
    // share.
    void fill(const std::array<uint64_t, 2>& devices) {
        for (int32_t vertex : vertices_) {
            free_[vertex] = (h_.allowed[vertex] & devices[0]) != 0 && (h_.allowed[vertex] & devices[1]) != 0;
            if (free_[vertex]) continue;
            side_[vertex] = (h_.allowed[vertex] & devices[0]) == 0;
            first_time_ += side_[vertex] == 0 ? h_.time[vertex] : 0;
        }
        for (int32_t vertex : vertices_) {
            if (!free_[vertex]) continue;
            const bool fits = first_time_ + h_.time[vertex] / 2 <= target_;
            side_[vertex] = !fits;
            first_time_ += fits ? h_.time[vertex] : 0;
        }
        for (int32_t vertex : vertices_)
            for (int32_t net : h_.nets[vertex]) ++held_[net][side_[vertex]];
    }

    // Moves one vertex that reduces the cut, if there is one. A pass considers only the best vertex of a side: if that
    // does not fit, one behind it may still gain. Returns whether one moved.
    bool settle() {
        for (int32_t vertex : vertices_) {
            if (!free_[vertex] || !fits(vertex)) continue;
            int64_t gain = 0;
            for (int32_t net : h_.nets[vertex]) gain += gain_on(net, side_[vertex]);
            if (gain <= 0) continue;
            flip(vertex);
            return true;
        }
        return false;
    }

    void open() {
        for (int32_t vertex : vertices_) {
            if (!free_[vertex]) continue;
            gain_[vertex] = 0;
            for (int32_t net : h_.nets[vertex]) gain_[vertex] += gain_on(net, side_[vertex]);
            open_[side_[vertex]].insert({-gain_[vertex], vertex});
            is_open_[vertex] = 1;
        }
    }

    // Returns the bytes that no longer cross if a vertex of `side` on `net` leaves that side.
    int64_t gain_on(int32_t net, int side) const {
        const auto [here, there] = std::pair(held_[net][side], held_[net][1 - side]);
        if (here + there < 2) return 0;
        return here == 1 ? h_.bytes[net] : there == 0 ? -h_.bytes[net] : 0;
    }

    // Returns the open vertex of highest gain that keeps the balance or does not worsen it; -1 if there is none. If the
    // best of neither side does, both are closed for the rest of the pass.
    int32_t next() {
        while (!open_[0].empty() || !open_[1].empty()) {
            int chosen = -1;
            for (int side : {first_time_ < target_ ? 1 : 0, first_time_ < target_ ? 0 : 1})
                if (!open_[side].empty() && fits(open_[side].begin()->second) &&
                    (chosen < 0 || open_[side].begin()->first < open_[chosen].begin()->first))
                    chosen = side;
            if (chosen >= 0) return open_[chosen].begin()->second;
            for (auto& side : open_)
                if (!side.empty()) close(side.begin()->second);
        }
        return -1;
    }

    bool fits(int32_t vertex) const {
        const double after = first_time_ + (side_[vertex] == 0 ? -h_.time[vertex] : h_.time[vertex]);
        return std::abs(after - target_) <= std::max(slack_, std::abs(first_time_ - target_));
    }

    void close(int32_t vertex) {
        open_[side_[vertex]].erase({-gain_[vertex], vertex});
        is_open_[vertex] = 0;
    }

    // Moves a vertex for this pass and updates the gains on its nets; on nets of many pins they rarely change.
    void move(int32_t vertex) {
        close(vertex);
        const int from = side_[vertex];
        for (int32_t net : h_.nets[vertex]) {
            const std::array<int64_t, 2> before{gain_on(net, 0), gain_on(net, 1)};
            shift(net, from);
            const std::array<int64_t, 2> more{gain_on(net, 0) - before[0], gain_on(net, 1) - before[1]};
            if (more[0] != 0 || more[1] != 0) add_gains(net, more);
        }
        turn(vertex);
    }

    void add_gains(int32_t net, std::array<int64_t, 2> more) {
        for (int32_t vertex : h_.pins[net]) {
            const int side = side_[vertex];
            if (!is_open_[vertex] || more[side] == 0) continue;
            auto node = open_[side].extract({-gain_[vertex], vertex});
            gain_[vertex] += more[side];
            node.value().first = -gain_[vertex];
            open_[side].insert(std::move(node));
        }
    }

    void flip(int32_t vertex) {
        for (int32_t net : h_.nets[vertex]) shift(net, side_[vertex]);
        turn(vertex);
    }

    // Moves one pin of the net from that side to the other.
    void shift(int32_t net, int from) {
        --held_[net][from];
        ++held_[net][1 - from];
    }

    void turn(int32_t vertex) {
        first_time_ += side_[vertex] == 0 ? -h_.time[vertex] : h_.time[vertex];
        side_[vertex] = static_cast<uint8_t>(1 - side_[vertex]);
    }

    const Hypergraph& h_;
    std::span<const int32_t> vertices_;
    double target_ = 0, slack_ = 0, first_time_ = 0;             // time of the first side
    std::vector<uint8_t> side_;                                  // [vertex] 0, 1 or kAbsent
    std::vector<uint8_t> free_;                                  // [vertex] may be on both sides
    std::vector<uint8_t> is_open_;                               // [vertex] is in open_
    std::vector<std::array<int32_t, 2>> held_;                   // [net] pins on each side
    std::vector<int64_t> gain_;                                  // [vertex]
    std::array<std::set<std::pair<int64_t, int32_t>>, 2> open_;  // (-gain, vertex), by side
};

struct Partitioning {
    const Hypergraph& graph;
    const PartitionConfig& config;
    const std::vector<double>& speed;
    std::vector<int32_t> device_of;  // [vertex]

    void split(std::span<const int32_t> vertices, int32_t first, int32_t last) {
        if (last - first == 1) {
            for (int32_t vertex : vertices) device_of[vertex] = first;
            return;
        }
        const int32_t middle = (first + last + 1) / 2;
        std::array<uint64_t, 2> devices{};
        for (int32_t device = first; device < last; ++device) devices[device >= middle] |= bit(device);
        const double own = std::accumulate(speed.begin() + first, speed.begin() + middle, 0.0);
        const double all = std::accumulate(speed.begin() + first, speed.begin() + last, 0.0);
        Bisection bisection(graph, vertices, devices, own / all, config.imbalance);
        for (int32_t pass = 0; pass < config.passes && bisection.improve();) ++pass;
        split(bisection.on_side(0), first, middle);
        split(bisection.on_side(1), middle, last);
    }
};

}  // namespace

std::vector<int32_t> partition(const Problem& problem, const PartitionConfig& config) {
    const Hypergraph graph = hypergraph_of(problem);
    const std::vector<double> speed = speeds(problem);
    std::vector<int32_t> vertices(graph.time.size());
    std::iota(vertices.begin(), vertices.end(), 0);
    Partitioning partitioning{graph, config, speed, std::vector<int32_t>(vertices.size())};
    partitioning.split(vertices, 0, problem.num_devices);
    std::vector<int32_t> device_of;
    for (int32_t op = 0; op < problem.num_ops; ++op) device_of.push_back(partitioning.device_of[graph.vertex_of[op]]);
    return device_of;
}

}  // namespace placewright
