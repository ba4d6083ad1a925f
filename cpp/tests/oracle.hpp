// The times and peaks of an order by docs/semantics.md, slow and obvious: the tests compare the core with it.
#pragma once

#include <algorithm>
#include <map>
#include <tuple>

#include "problem/problem.hpp"

namespace placewright::testing {

struct Times {
    std::vector<int64_t> start, finish;  // [step]
    int64_t step_time_ns = 0;
};

// The expected times: a step starts when the last of the earlier steps that it waits for releases it.
class ExpectedTimes {
  public:
    ExpectedTimes(const Problem& problem, std::span<const int32_t> device_of, std::span<const Step> order)
        : problem_(problem), device_of_(device_of), order_(order) {}

    Times times() const {
        Times times;
        for (size_t k = 0; k < order_.size(); ++k) {
            int64_t start = launched(k);
            for (size_t before = 0; before < k; ++before)
                start = std::max(start, released(before, order_[k], times.finish[before]));
            times.start.push_back(start);
            times.finish.push_back(start + duration(order_[k]));
            if (order_[k].is_op()) times.step_time_ns = std::max(times.step_time_ns, times.finish.back());
        }
        return times;
    }

  private:
    int32_t source(const Step& step) const { return device_of_[step.is_op() ? step.id : problem_.producer[step.id]]; }

    int64_t duration(const Step& step) const {
        return step.is_op() ? problem_.op_time(step.id, device_of_[step.id])
                            : problem_.transfer_time(step.id, source(step), step.destination);
    }

    // Returns the host that launches a step, -1 for none, and the time that the launch takes it and the step waits for.
    std::pair<int32_t, Launch> launch(const Step& step) const {
        int32_t device = source(step);
        if (!step.is_op() && problem_.host_of[device] < 0) device = step.destination;
        const int32_t host = problem_.host_of[device];
        if (host < 0 || (!step.is_op() && duration(step) == 0)) return {-1, {}};
        const int64_t time = problem_.launch_ns[device];
        const Launch found = step.is_op() ? problem_.launch(step.id, device) : Launch{time, time};
        return {found.host_ns > 0 ? host : -1, found};
    }

    // Returns when its host has launched a step: after all that it launches before it in the order, and the step
    // itself.
    int64_t launched(size_t k) const {
        const auto [host, own] = launch(order_[k]);
        if (host < 0) return 0;
        int64_t time = own.lead_ns;
        for (size_t before = 0; before < k; ++before)
            if (const auto [other, launch_before] = launch(order_[before]); other == host)
                time += launch_before.host_ns;
        return time;
    }

    bool occupies(const Step& step, int32_t device) const {
        return source(step) == device || (!step.is_op() && step.destination == device);
    }

    // Returns when `step` may start as far as an earlier step that ends at `finish` is concerned.
    int64_t released(size_t before, const Step& step, int64_t finish) const {
        const Step& earlier = order_[before];
        if (holds_resource(earlier, step) || delivers(earlier, step)) return finish;
        if (!problem_.signals || !earlier.is_op() || !step.is_op()) return 0;
        if (std::ranges::count(problem_.controls[earlier.id], step.id) == 0) return 0;
        const int32_t from = source(earlier), to = source(step);
        return finish +
               (from == to ? 0 : problem_.latency_ns[size_t(from) * size_t(problem_.num_devices) + size_t(to)]);
    }

    bool holds_resource(const Step& earlier, const Step& step) const {
        if (problem_.blocking)
            return occupies(earlier, source(step)) || (!step.is_op() && occupies(earlier, step.destination));
        return earlier.is_op() == step.is_op() && source(earlier) == source(step) &&
               (step.is_op() || earlier.destination == step.destination);
    }

    bool delivers(const Step& earlier, const Step& step) const {
        if (!step.is_op()) return earlier.is_op() && earlier.id == problem_.producer[step.id];
        if (earlier.is_op()) return false;
        return earlier.destination == source(step) && std::ranges::count(problem_.inputs[step.id], earlier.id) > 0;
    }

    const Problem& problem_;
    std::span<const int32_t> device_of_;
    std::span<const Step> order_;
};

// The expected peaks: the most bytes in use per device. Every piece of memory is held from one event to another, and
// the events are processed in time order, at one instant in the order of the steps, a start before its own finish.
class ExpectedPeaks {
  public:
    ExpectedPeaks(const Problem& problem, std::span<const int32_t> device_of, std::span<const Step> order,
                  const Times& times)
        : problem_(problem), device_of_(device_of), order_(order), times_(times) {}

    std::vector<int64_t> peaks() {
        for (size_t k = 0; k < order_.size(); ++k) order_[k].is_op() ? add_op(k) : add_transfer(k);
        hold_residents();
        std::vector<int64_t> in_use(size_t(problem_.num_devices)), peak(size_t(problem_.num_devices));
        std::map<Event, std::vector<std::pair<int32_t, int64_t>>> changes;
        for (const auto& [key, piece] : pieces_) {
            changes[piece.first].push_back({std::get<1>(key), piece.bytes});
            changes[piece.last].push_back({std::get<1>(key), -piece.bytes});
        }
        for (const auto& [event, by_device] : changes) {
            for (const auto& [device, bytes] : by_device) in_use[size_t(device)] += bytes;
            for (size_t device = 0; device < peak.size(); ++device)
                peak[device] = std::max(peak[device], in_use[device]);
        }
        return peak;
    }

  private:
    using Event = std::pair<int64_t, int64_t>;  // time; 2 * position, plus 1 for a finish
    enum Kind { workspace, tensor, resident };
    struct Piece {
        int64_t bytes = 0;
        Event first{INT64_MAX, 0}, last{-1, 0};
    };

    Event start(size_t k) const { return {times_.start[k], int64_t(2 * k)}; }
    Event finish(size_t k) const { return {times_.finish[k], int64_t(2 * k + 1)}; }

    void hold(Kind kind, int32_t device, int32_t id, int64_t bytes, Event first, Event last) {
        Piece& piece = pieces_[{kind, device, id}];
        piece.bytes = std::max(piece.bytes, bytes);
        piece.first = std::min(piece.first, first);
        piece.last = std::max(piece.last, last);
    }

    void add_op(size_t k) {
        const int32_t op = order_[k].id, device = device_of_[op];
        hold(workspace, device, op, problem_.workspace_bytes[op], start(k), finish(k));
        for (int32_t t = problem_.output_begin[op]; t < problem_.output_begin[op + 1]; ++t)
            if (problem_.storage[t] == t)
                hold(tensor, device, t, problem_.allocated_bytes[t], start(k),
                     problem_.live_out[t] ? Event{INT64_MAX, 0} : finish(k));
        for (int32_t t : problem_.inputs[op]) {
            const int32_t held = device_of_[problem_.producer[t]] == device ? problem_.storage[t] : t;
            hold(tensor, device, held, 0, finish(k), finish(k));
        }
    }

    void add_transfer(size_t k) {
        const int32_t t = order_[k].id;
        hold(tensor, order_[k].destination, t, problem_.copy_bytes[t], start(k), start(k));
        hold(tensor, device_of_[problem_.producer[t]], problem_.storage[t], 0, finish(k), finish(k));
    }

    void hold_residents() {
        for (int32_t op = 0; op < problem_.num_ops; ++op)
            for (int32_t r : problem_.residents[op])
                hold(resident, device_of_[op], r, problem_.resident_bytes[r], {-1, 0}, {INT64_MAX, 0});
    }

    const Problem& problem_;
    std::span<const int32_t> device_of_;
    std::span<const Step> order_;
    const Times& times_;
    std::map<std::tuple<Kind, int32_t, int32_t>, Piece> pieces_;
};

}  // namespace placewright::testing
