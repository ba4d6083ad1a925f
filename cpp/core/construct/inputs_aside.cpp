#include "construct/inputs_aside.hpp"

#include <algorithm>
#include <climits>
#include <numeric>

#include "support/disjoint_sets.hpp"

namespace placewright {

std::vector<uint8_t> find_inputs(const Problem& problem) {
    std::vector<uint8_t> is_input(problem.num_ops);
    for (int32_t op = 0; op < problem.num_ops; ++op) {
        const auto times = std::span(problem.op_time_ns).subspan(size_t(op) * problem.num_devices, problem.num_devices);
        is_input[op] =
            std::ranges::all_of(times, [](int64_t time) { return time == 0; }) &&
            std::ranges::all_of(problem.inputs[op], [&](int32_t t) { return is_input[problem.producer[t]]; }) &&
            std::ranges::all_of(problem.predecessors[op], [&](int32_t before) { return is_input[before]; });
    }
    return is_input;
}

std::vector<uint8_t> find_remote_inputs(const Problem& problem, std::span<const int32_t> device_of) {
    const std::vector<uint8_t> is_input = find_inputs(problem);
    std::vector<uint8_t> is_remote(problem.num_ops);
    for (int32_t op = problem.num_ops - 1; op >= 0; --op) {
        if (!is_input[op]) continue;
        for (int32_t edge : problem.edges[op])
            is_remote[op] |= device_of[edge >> 1] != device_of[op] || is_remote[edge >> 1];
    }
    return is_remote;
}

std::vector<Step> with_remote_inputs_first(const Problem& problem, std::span<const int32_t> device_of,
                                           std::span<const Step> order) {
    const std::vector<uint8_t> is_remote = find_remote_inputs(problem, device_of);
    const auto goes_first = [&](const Step& step) {
        if (step.is_op()) return is_remote[step.id] != 0;
        // A transfer goes first if a remote input needs it.
        return std::ranges::any_of(problem.consumers[step.id], [&](int32_t reader) {
            return is_remote[reader] && device_of[reader] == step.destination;
        });
    };
    std::vector<Step> result(order.begin(), order.end());
    std::ranges::stable_partition(result, goes_first);
    return result;
}

InputsAside::InputsAside(const Problem& whole, InputsFollow follow) : whole_(whole) {
    find_aside();
    if (!any()) return;
    rest_ = std::make_shared<Problem>();
    find_first_readers();
    make_ops();
    make_groups(follow);
    make_tensors();
    make_residents();
    rest_->finish();
}

template <class F>
void InputsAside::for_each_reader(int32_t op, F&& f) const {
    for (int32_t edge : whole_.edges[op]) f(edge >> 1);
}

// An input that waits for one that stays must stay too.
void InputsAside::find_aside() {
    const std::vector<uint8_t> is_input = find_inputs(whole_);
    neighbour_.assign(whole_.num_ops, -1);
    for (int32_t op = whole_.num_ops - 1; op >= 0; --op)
        if (!is_input[op]) neighbour_[whole_.group[op]] = op;
    is_aside_.assign(whole_.num_ops, 0);
    const auto is_aside = [&](int32_t op) { return is_aside_[op] != 0; };
    for (int32_t op = 0; op < whole_.num_ops; ++op) {
        neighbour_[op] = neighbour_[whole_.group[op]];
        is_aside_[op] =
            is_input[op] && neighbour_[op] >= 0 && std::ranges::all_of(whole_.predecessors[op], is_aside) &&
            std::ranges::all_of(whole_.inputs[op], [&](int32_t tensor) { return is_aside(whole_.producer[tensor]); });
        if (is_aside(op)) aside_.push_back(op);
    }
}

void InputsAside::find_first_readers() {
    first_reader_.assign(whole_.num_ops, -1);
    for (auto op = aside_.rbegin(); op != aside_.rend(); ++op)
        for_each_reader(*op, [&](int32_t reader) {
            const int32_t found = is_aside_[reader] ? first_reader_[reader] : reader;
            int32_t& first = first_reader_[*op];
            if (found >= 0 && (first < 0 || found < first)) first = found;
        });
}

void InputsAside::make_ops() {
    const int32_t D = rest_->num_devices = whole_.num_devices;
    rest_of_.assign(whole_.num_ops, -1);
    for (int32_t op = 0; op < whole_.num_ops; ++op) {
        if (is_aside_[op]) continue;
        rest_of_[op] = rest_->num_ops++;
        op_of_.push_back(op);
        rest_->workspace_bytes.push_back(whole_.workspace_bytes[op]);
        const auto times = std::span(whole_.op_time_ns).subspan(size_t(op) * D, D);
        rest_->op_time_ns.insert(rest_->op_time_ns.end(), times.begin(), times.end());
        if (!whole_.has_hosts) continue;
        const auto launches = std::span(whole_.launches).subspan(size_t(op) * D, D);
        rest_->launches.insert(rest_->launches.end(), launches.begin(), launches.end());
    }
    rest_->host_of = whole_.host_of;
    rest_->launch_ns = whole_.launch_ns;
    rest_->latency_ns = whole_.latency_ns;
    rest_->inverse_bandwidth = whole_.inverse_bandwidth;
    rest_->memory_limit = whole_.memory_limit;
    rest_->blocking = whole_.blocking;
    rest_->signals = whole_.signals;
    rest_->minimize_memory = whole_.minimize_memory;
}

// Does not join groups that no device may hold together.
void InputsAside::make_groups(InputsFollow follow) {
    DisjointSets sets(whole_.num_ops);
    std::vector<uint64_t> allowed = whole_.allowed;
    const auto join = [&](int32_t a, int32_t b) {
        const int32_t first = sets.find(a), second = sets.find(b);
        const uint64_t both = allowed[first] & allowed[second];
        if (first != second && (both & whole_.everywhere()) != 0) allowed[sets.join(first, second)] = both;
    };
    for (int32_t op = 0; op < whole_.num_ops; ++op) join(whole_.group[op], op);
    if (follow == InputsFollow::first_reader)
        for (int32_t op : aside_)
            if (first_reader_[op] >= 0) join(op, first_reader_[op]);
    std::vector<int32_t> first_of(whole_.num_ops, -1);
    for (int32_t op : op_of_) {
        const int32_t set = sets.find(op);
        if (first_of[set] < 0) first_of[set] = rest_of_[op];
        rest_->group.push_back(first_of[set]);
        rest_->allowed.push_back(allowed[set]);
    }
}

void InputsAside::make_tensors() {
    std::vector<int32_t> number(whole_.num_tensors, -1);
    rest_->output_begin = {0};
    for (int32_t op : op_of_) {
        for (int32_t tensor = whole_.output_begin[op]; tensor < whole_.output_begin[op + 1]; ++tensor) {
            number[tensor] = rest_->num_tensors++;
            tensor_of_.push_back(tensor);
            rest_->allocated_bytes.push_back(whole_.allocated_bytes[tensor]);
            rest_->transfer_bytes.push_back(whole_.transfer_bytes[tensor]);
            rest_->copy_bytes.push_back(whole_.copy_bytes[tensor]);
            rest_->live_out.push_back(whole_.live_out[tensor]);
        }
        rest_->output_begin.push_back(rest_->num_tensors);
    }
    for (int32_t tensor : tensor_of_) {
        const int32_t storage = number[whole_.storage[tensor]];
        rest_->storage.push_back(storage >= 0 ? storage : number[tensor]);
    }
    std::vector<std::vector<int32_t>> inputs, controls;
    for (int32_t op : op_of_) {
        auto& read = inputs.emplace_back();
        for (int32_t tensor : whole_.inputs[op])
            if (number[tensor] >= 0) read.push_back(number[tensor]);
        auto& next = controls.emplace_back();
        for (int32_t follower : whole_.controls[op]) next.push_back(rest_of_[follower]);
    }
    rest_->inputs = Csr::from_rows(inputs);
    rest_->controls = Csr::from_rows(controls);
}

void InputsAside::make_residents() {
    std::vector<std::vector<int32_t>> rows;
    for (int32_t op : op_of_) rows.emplace_back(whole_.residents[op].begin(), whole_.residents[op].end());
    rest_->resident_bytes = whole_.resident_bytes;
    for (int32_t op : aside_) {
        std::vector<int32_t>& neighbours = rows[rest_of_[neighbour_[op]]];
        neighbours.insert(neighbours.end(), whole_.residents[op].begin(), whole_.residents[op].end());
        for (int32_t tensor = whole_.output_begin[op]; tensor < whole_.output_begin[op + 1]; ++tensor) {
            const auto resident = static_cast<int32_t>(rest_->resident_bytes.size());
            rest_->resident_bytes.push_back(std::max(whole_.allocated_bytes[tensor], whole_.copy_bytes[tensor]));
            if (whole_.allocated_bytes[tensor] > 0) neighbours.push_back(resident);
            for (int32_t reader : whole_.consumers[tensor])
                if (!is_aside_[reader]) rows[rest_of_[reader]].push_back(resident);
        }
    }
    for (auto& row : rows) {
        std::ranges::sort(row);
        row.erase(std::ranges::unique(row).begin(), row.end());
    }
    rest_->residents = Csr::from_rows(rows);
}

std::vector<int32_t> InputsAside::whole_placement(std::span<const int32_t> device_of) const {
    std::vector<int32_t> result(whole_.num_ops);
    for (size_t op = 0; op < op_of_.size(); ++op) result[op_of_[op]] = device_of[op];
    for (int32_t op : aside_) result[op] = result[neighbour_[op]];
    return result;
}

// Inserts inputs into an order of the other ops, or of these and their transfers.
class InputsAside::Inserter {
  public:
    Inserter(const InputsAside& inputs, std::span<const int32_t> device_of, std::span<const Step> rest)
        : inputs_(inputs),
          whole_(inputs.whole_),
          device_of_(device_of),
          position_(whole_.num_ops, INT_MAX),
          is_remote_(find_remote_inputs(whole_, device_of)),
          sent_(whole_.num_tensors) {
        for (size_t k = 0; k < rest.size(); ++k)
            if (rest[k].is_op()) position_[rest[k].id] = static_cast<int32_t>(k);
        // An input's position is that of the first op that waits for it.
        for (auto op = inputs_.aside_.rbegin(); op != inputs_.aside_.rend(); ++op)
            inputs_.for_each_reader(
                *op, [&](int32_t reader) { position_[*op] = std::min(position_[*op], position_[reader]); });
    }

    std::vector<Step> run(std::span<const Step> rest, bool with_transfers) {
        std::vector<int32_t> first, later;
        for (int32_t op : inputs_.aside_) (is_remote_[op] ? first : later).push_back(op);
        const auto place = [&](int32_t op) { return position_[op]; };
        std::ranges::stable_sort(first, {}, place);
        std::ranges::stable_sort(later, {}, place);
        for (int32_t op : first) {
            order_.push_back(Step::op(op));
            if (with_transfers) send_at_once(op);
        }
        auto next = later.begin();
        for (size_t k = 0; k < rest.size(); ++k) {
            for (; next != later.end() && position_[*next] <= static_cast<int32_t>(k); ++next)
                order_.push_back(Step::op(*next));
            if (with_transfers && rest[k].is_op()) send_to(rest[k].id);
            order_.push_back(rest[k]);
        }
        for (; next != later.end(); ++next) order_.push_back(Step::op(*next));
        return std::move(order_);
    }

  private:
    // Sends an input to all its readers if transfers block, else only to other inputs, which may be at the beginning
    // too.
    void send_at_once(int32_t op) {
        for (int32_t tensor = whole_.output_begin[op]; tensor < whole_.output_begin[op + 1]; ++tensor)
            for (int32_t reader : whole_.consumers[tensor])
                if (whole_.blocking || inputs_.is_aside_[reader]) send(tensor, device_of_[reader]);
    }

    void send_to(int32_t reader) {
        for (int32_t tensor : whole_.inputs[reader])
            if (inputs_.is_aside_[whole_.producer[tensor]]) send(tensor, device_of_[reader]);
    }

    void send(int32_t tensor, int32_t device) {
        if (device == device_of_[whole_.producer[tensor]] || sent_[tensor] >> device & 1) return;
        sent_[tensor] |= uint64_t{1} << device;
        order_.push_back({tensor, device});
    }

    const InputsAside& inputs_;
    const Problem& whole_;
    std::span<const int32_t> device_of_;
    std::vector<int32_t> position_;  // [op] in the order of the rest; for an input, where it is first needed
    std::vector<uint8_t> is_remote_;
    std::vector<uint64_t> sent_;  // [tensor] mask of devices
    std::vector<Step> order_;
};

PlacementAndOrder InputsAside::whole(const PlacementAndOrder& placed) const {
    PlacementAndOrder result{whole_placement(placed.device_of), {}};
    std::vector<Step> rest;
    for (int32_t op : placed.ops) rest.push_back(Step::op(op_of_[op]));
    for (const Step& step : Inserter(*this, result.device_of, rest).run(rest, false)) result.ops.push_back(step.id);
    return result;
}

Solution InputsAside::whole(const Solution& placed) const {
    Solution result{whole_placement(placed.device_of), {}};
    std::vector<Step> rest;
    for (const Step& step : placed.order)
        rest.push_back(step.is_op() ? Step::op(op_of_[step.id]) : Step{tensor_of_[step.id], step.destination});
    result.order = Inserter(*this, result.device_of, rest).run(rest, true);
    return result;
}

}  // namespace placewright
