#include "coarsen/coarsening.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <utility>

#include "coarsen/clustering.hpp"
#include "problem/readiness.hpp"
#include "problem/storage_uses.hpp"
#include "support/disjoint_sets.hpp"

namespace placewright {

namespace {

// Returns rows with the places of each value, in the order of the values.
Csr members_by(std::span<const int32_t> value_of, int32_t num_values) {
    Csr members;
    members.begin.assign(num_values + 1, 0);
    for (int32_t value : value_of) ++members.begin[value + 1];
    std::partial_sum(members.begin.begin(), members.begin.end(), members.begin.begin());
    members.values.resize(value_of.size());
    std::vector<int32_t> next(members.begin.begin(), members.begin.end() - 1);
    for (size_t i = 0; i < value_of.size(); ++i) members.values[next[value_of[i]]++] = static_cast<int32_t>(i);
    return members;
}

void sort_and_unite(std::vector<int32_t>& values) {
    std::ranges::sort(values);
    values.erase(std::ranges::unique(values).begin(), values.end());
}

class CoarseBuilder {
  public:
    CoarseBuilder(const Problem& fine, std::span<const int32_t> cluster_of)
        : f_(fine), cluster_of_(cluster_of), coarse_(std::make_shared<Problem>()) {
        const int32_t size = 1 + *std::ranges::max_element(cluster_of);
        members_ = members_by(cluster_of, size);
        coarse_->num_ops = size;
    }

    std::shared_ptr<Problem> build() {
        copy_machine();
        add_times();
        find_outside();
        add_tensors();
        add_workspaces();
        add_rows();
        add_groups();
        coarse_->finish();
        return std::move(coarse_);
    }

  private:
    void copy_machine() {
        coarse_->num_devices = f_.num_devices;
        coarse_->latency_ns = f_.latency_ns;
        coarse_->inverse_bandwidth = f_.inverse_bandwidth;
        coarse_->memory_limit = f_.memory_limit;
        coarse_->host_of = f_.host_of;
        coarse_->launch_ns = f_.launch_ns;
        coarse_->blocking = f_.blocking;
        coarse_->signals = f_.signals;
        coarse_->minimize_memory = f_.minimize_memory;
        coarse_->resident_bytes = f_.resident_bytes;
    }

    void add_times() {
        coarse_->op_time_ns.assign(size_t(coarse_->num_ops) * size_t(f_.num_devices), 0);
        for (int32_t op = 0; op < f_.num_ops; ++op)
            for (int32_t device = 0; device < f_.num_devices; ++device)
                coarse_->op_time_ns[size_t(cluster_of_[op]) * f_.num_devices + device] += f_.op_time(op, device);
        if (f_.has_hosts) add_launches();
    }

    // Combines the launches of a cluster's ops, one after another: the cluster may start so early that each of them has
    // been launched when its turn comes. Ops that take no time are not launched.
    void add_launches() {
        coarse_->launches.resize(coarse_->op_time_ns.size());
        for (int32_t own = 0; own < coarse_->num_ops; ++own)
            for (int32_t device = 0; device < f_.num_devices; ++device) {
                Launch& together = coarse_->launches[size_t(own) * f_.num_devices + device];
                int64_t before_ns = 0;
                for (int32_t op : members_[own]) {
                    const Launch& launch = f_.launch(op, device);
                    if (launch.host_ns > 0)
                        together.lead_ns = std::max(together.lead_ns, together.host_ns + launch.lead_ns - before_ns);
                    together.host_ns += launch.host_ns;
                    before_ns += f_.op_time(op, device);
                }
            }
    }

    // Finds the tensors that other clusters read, that stay to the end, or whose memory holds such a tensor or one of
    // another cluster.
    void find_outside() {
        outside_.assign(f_.live_out.begin(), f_.live_out.end());
        shared_.assign(f_.num_tensors, 0);
        for (int32_t tensor = 0; tensor < f_.num_tensors; ++tensor)
            for (int32_t op : f_.consumers[tensor]) outside_[tensor] |= cluster_of_[op] != cluster(tensor);
        for (int32_t tensor = 0; tensor < f_.num_tensors; ++tensor) {
            const int32_t storage = f_.storage[tensor];
            if (storage == tensor) continue;
            outside_[storage] |= outside_[tensor] || cluster(storage) != cluster(tensor);
            shared_[storage] = shared_[tensor] = 1;
        }
    }

    void add_tensors() {
        coarse_of_.assign(f_.num_tensors, -1);
        coarse_->output_begin = {0};
        std::vector<std::pair<std::vector<int32_t>, int32_t>> outputs;  // readers and tensor
        for (int32_t own = 0; own < coarse_->num_ops; ++own) {
            outputs.clear();
            for (int32_t op : members_[own])
                for (int32_t tensor = f_.output_begin[op]; tensor < f_.output_begin[op + 1]; ++tensor)
                    if (outside_[tensor]) outputs.push_back({readers(tensor), tensor});
            std::ranges::sort(outputs);
            for (size_t i = 0; i < outputs.size(); ++i) {
                const bool joins = i > 0 && outputs[i].first == outputs[i - 1].first && is_plain(outputs[i].second) &&
                                   is_plain(outputs[i - 1].second);
                add_tensor(outputs[i].second, joins);
            }
            coarse_->output_begin.push_back(coarse_->num_tensors);
        }
        for (int32_t& storage : coarse_->storage) storage = coarse_of_[storage];
    }

    int32_t cluster(int32_t tensor) const { return cluster_of_[f_.producer[tensor]]; }
    bool is_plain(int32_t tensor) const { return !shared_[tensor] && !f_.live_out[tensor]; }

    std::vector<int32_t> readers(int32_t tensor) const {
        std::vector<int32_t> result;
        for (int32_t op : f_.consumers[tensor])
            if (cluster_of_[op] != cluster(tensor)) result.push_back(cluster_of_[op]);
        sort_and_unite(result);
        return result;
    }

    void add_tensor(int32_t tensor, bool joins_last) {
        if (!joins_last) {
            ++coarse_->num_tensors;
            coarse_->allocated_bytes.push_back(0);
            coarse_->transfer_bytes.push_back(0);
            coarse_->copy_bytes.push_back(0);
            coarse_->storage.push_back(f_.storage[tensor]);
            coarse_->live_out.push_back(f_.live_out[tensor]);
        }
        coarse_of_[tensor] = coarse_->num_tensors - 1;
        coarse_->allocated_bytes.back() += f_.allocated_bytes[tensor];
        coarse_->transfer_bytes.back() += f_.transfer_bytes[tensor];
        coarse_->copy_bytes.back() += f_.copy_bytes[tensor];
    }

    // Finds the most memory that a cluster's ops, one after another, hold of their own, workspaces included, less its
    // coarse outputs.
    void add_workspaces() {
        const StorageUses uses(f_);
        std::vector<int32_t> left(f_.num_tensors);
        for (int32_t tensor = 0; tensor < f_.num_tensors; ++tensor)
            left[tensor] = static_cast<int32_t>(uses.users[tensor].size());
        for (int32_t own = 0; own < coarse_->num_ops; ++own) {
            int64_t held = 0, most = 0, outputs = 0;
            for (int32_t op : members_[own]) {
                held += f_.output_bytes[op];
                most = std::max(most, held + f_.workspace_bytes[op]);
                for (int32_t storage : uses.used[op])
                    if (--left[storage] == 0 && !outside_[storage]) held -= f_.allocated_bytes[storage];
            }
            for (int32_t t = coarse_->output_begin[own]; t < coarse_->output_begin[own + 1]; ++t)
                outputs += coarse_->allocated_bytes[t];
            coarse_->workspace_bytes.push_back(std::max<int64_t>(0, most - outputs));
        }
    }

    // Adds what clusters read, wait for and keep resident: what their ops do, each once.
    void add_rows() {
        std::vector<int32_t> inputs, residents, before;
        std::vector<int32_t> read_by(coarse_->num_ops, -1);  // cluster -> the latest one that reads a tensor of it
        std::vector<std::vector<int32_t>> successors(coarse_->num_ops);
        for (int32_t own = 0; own < coarse_->num_ops; ++own) {
            inputs.clear(), residents.clear(), before.clear();
            read_by[own] = own;
            for (int32_t op : members_[own]) {
                for (int32_t tensor : f_.inputs[op]) {
                    if (cluster(tensor) != own) inputs.push_back(coarse_of_[tensor]);
                    read_by[cluster(tensor)] = own;
                }
                for (int32_t previous : f_.predecessors[op]) before.push_back(cluster_of_[previous]);
                residents.insert(residents.end(), f_.residents[op].begin(), f_.residents[op].end());
            }
            sort_and_unite(inputs), sort_and_unite(residents), sort_and_unite(before);
            append(coarse_->inputs, inputs);
            append(coarse_->residents, residents);
            for (int32_t previous : before)
                if (read_by[previous] != own) successors[previous].push_back(own);
        }
        coarse_->controls = Csr::from_rows(successors);
    }

    static void append(Csr& csr, const std::vector<int32_t>& row) {
        csr.values.insert(csr.values.end(), row.begin(), row.end());
        csr.begin.push_back(static_cast<int32_t>(csr.values.size()));
    }

    // Lets clusters with ops of one group share a device, and so on with the groups of all their ops.
    void add_groups() {
        DisjointSets together(coarse_->num_ops);
        for (int32_t op = 0; op < f_.num_ops; ++op)
            together.join(together.find(cluster_of_[op]), together.find(cluster_of_[f_.group[op]]));
        std::vector<int32_t> first(coarse_->num_ops, -1);  // [root]
        for (int32_t own = 0; own < coarse_->num_ops; ++own) {
            int32_t& first_of_all = first[together.find(own)];
            if (first_of_all < 0) first_of_all = own;
            coarse_->group.push_back(first_of_all);
        }
        coarse_->allowed.assign(coarse_->num_ops, ~uint64_t{0});
        for (int32_t op = 0; op < f_.num_ops; ++op) coarse_->allowed[coarse_->group[cluster_of_[op]]] &= f_.allowed[op];
        for (int32_t own = 0; own < coarse_->num_ops; ++own)
            coarse_->allowed[own] = coarse_->allowed[coarse_->group[own]];
    }

    const Problem& f_;
    std::span<const int32_t> cluster_of_;
    std::shared_ptr<Problem> coarse_;
    Csr members_;                     // cluster -> ops
    std::vector<uint8_t> outside_;    // [tensor] 1: it is in the coarse problem
    std::vector<uint8_t> shared_;     // [tensor] 1: it shares its memory with another
    std::vector<int32_t> coarse_of_;  // [tensor] -1 for those inside a cluster
};

}  // namespace

std::shared_ptr<Problem> coarse_problem(const Problem& fine, std::span<const int32_t> cluster_of) {
    const bool numbered = cluster_of.size() == size_t(fine.num_ops) &&
                          std::ranges::all_of(cluster_of, [&](int32_t c) { return c >= 0 && c < fine.num_ops; });
    if (!numbered) throw std::invalid_argument("cluster_of needs one cluster per op, counted from 0");
    return CoarseBuilder(fine, cluster_of).build();
}

Coarsening coarsen(const Problem& fine, int32_t max_clusters) {
    std::vector<int32_t> cluster_of = cluster_ops(fine, max_clusters);
    return {coarse_problem(fine, cluster_of), std::move(cluster_of)};
}

PlacementAndOrder expand(const Problem& fine, std::span<const int32_t> cluster_of,
                         std::span<const int32_t> coarse_device_of, std::span<const int32_t> coarse_ops) {
    const Csr members = members_by(cluster_of, static_cast<int32_t>(coarse_device_of.size()));
    PlacementAndOrder result;
    result.device_of.reserve(fine.num_ops);
    result.ops.reserve(fine.num_ops);
    for (int32_t op = 0; op < fine.num_ops; ++op) result.device_of.push_back(coarse_device_of[cluster_of[op]]);
    for (int32_t own : coarse_ops) result.ops.insert(result.ops.end(), members[own].begin(), members[own].end());
    return result;
}

PlacementAndOrder project(const Problem& coarse, std::span<const int32_t> cluster_of,
                          std::span<const int32_t> device_of, std::span<const int32_t> ops) {
    PlacementAndOrder result{std::vector<int32_t>(coarse.num_ops, -1), {}};
    std::vector<int32_t> position(coarse.num_ops);
    for (size_t k = 0; k < ops.size(); ++k) position[cluster_of[ops[k]]] = static_cast<int32_t>(k);
    for (size_t op = 0; op < cluster_of.size(); ++op) {
        int32_t& device = result.device_of[coarse.group[cluster_of[op]]];
        if (device < 0) device = device_of[op];
    }
    for (int32_t own = 0; own < coarse.num_ops; ++own) {
        const int32_t wanted = result.device_of[coarse.group[own]];
        const bool allowed = coarse.allowed[own] >> wanted & 1;
        result.device_of[own] = allowed ? wanted : std::countr_zero(coarse.allowed[own]);
    }
    using Entry = std::pair<int32_t, int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    Readiness readiness(coarse);
    const auto push = [&](int32_t own) { ready.push({position[own], own}); };
    readiness.for_each_source(push);
    while (!ready.empty()) {
        const int32_t own = ready.top().second;
        ready.pop();
        result.ops.push_back(own);
        readiness.finish(own, push);
    }
    return result;
}

}  // namespace placewright
