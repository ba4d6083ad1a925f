#include "improve/exact_schedule.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "improve/pause.hpp"

namespace placewright {

namespace {

constexpr int64_t kMaxLinkOrders = 500;         // tried for one placement and order of all ops
constexpr int64_t kLongest = int64_t{1} << 56;  // ns, over two years; sums of these do not overflow

const Problem& checked(const Problem& problem) {
    if (!ExactSchedule::applies_to(problem)) throw std::invalid_argument("the problem has no exact schedule");
    return problem;
}

// Returns whether every path of ops and transfers is shorter than kLongest.
bool are_short(const Problem& p) {
    const DevicePairDelays delays(p);
    int64_t sum = 0;
    for (int64_t time : p.op_time_ns) sum += std::min(time, kLongest);
    for (int64_t time : delays.between_ns) sum += std::min(time, kLongest);
    return sum < kLongest;
}

}  // namespace

bool ExactSchedule::applies_to(const Problem& p) {
    return p.num_ops <= ScheduledOps::kMaxOps && p.num_devices > 1 && p.num_devices <= ScheduledOps::kMaxDevices &&
           !p.minimize_memory && !p.blocking && !p.has_hosts && (p.signals || p.controls.values.empty()) &&
           are_short(p);
}

ExactSchedule::ExactSchedule(std::shared_ptr<const Problem> problem, Solution start, int64_t divisor_ns)
    : problem_(std::move(problem)),
      divisor_ns_(divisor_ns),
      delays_(checked(*problem_)),
      windows_(*problem_, delays_),
      refuted_(*problem_),
      link_orders_(*problem_),
      scratch_(*problem_),
      scheduled_(*problem_),
      frames_(size_t(problem_->num_ops) + 1),
      best_(std::move(start)) {
    check_order(*problem_, best_.device_of, best_.order);
    const Outcome outcome = simulate(*problem_, best_.device_of, best_.order, scratch_);
    if (outcome.bytes_over_limit > 0) throw std::invalid_argument("start exceeds a memory limit");
    if (divisor_ns < 1) throw std::invalid_argument("divisor_ns must be 1 or more");
    best_ns_ = outcome.step_time_ns;
    limit_ns_ = best_ns_ - divisor_ns_;
    for (int32_t op = 0; op < problem_->num_ops; ++op)
        missing_.push_back(static_cast<int32_t>(delays_.before[op].size()));
}

void ExactSchedule::advance(int64_t evaluations, int64_t at_most) {
    const int64_t end = pause_at(evaluations_, evaluations, at_most);
    if (evaluations_ == 0 && end > 0) {
        ++evaluations_;
        depth_ = enter(frames_[0], nullptr) ? 0 : 1;
    }
    while (evaluations_ < end && depth_ > 0) step();
}

// Tries the next choice of the last frame, or leaves the frame if none is left.
void ExactSchedule::step() {
    Frame& last = frames_[depth_ - 1];
    if (last.tried == last.choices.size()) {
        if (last.is_refuted) refuted_.add(scheduled_.done, last.state);
        if (--depth_ > 0) leave(last.is_refuted);
        return;
    }
    const Choice& choice = last.choices[last.tried++];
    if (choice.end + choice.rest > limit_ns_) return;  // better schedules have been found since
    ++evaluations_;
    Frame& next = frames_[depth_];
    place(choice, next);
    const bool is_last = placed_.size() == size_t(problem_->num_ops);
    const bool is_refuted = is_last ? look_at_links() : enter(next, &last);
    if (is_last || is_refuted)
        leave(is_refuted);
    else
        ++depth_;
}

void ExactSchedule::place(const Choice& choice, Frame& frame) {
    const auto [start, end, rest, op, device] = frame.made = choice;
    const int32_t first = problem_->group[op];
    frame.now_before = std::exchange(scheduled_.now, start);
    frame.clock_before = std::exchange(scheduled_.clock_ns[size_t(device)], end);
    frame.allowed_before = scheduled_.allowed[size_t(first)];
    for (int32_t member : problem_->members[first]) scheduled_.allowed[size_t(member)] = uint64_t{1} << device;
    for (int32_t next : delays_.after[op]) --missing_[size_t(next)];
    scheduled_.done |= uint64_t{1} << op;
    scheduled_.finish_ns[size_t(op)] = end;
    scheduled_.device_of[size_t(op)] = device;
    placed_.push_back(op);
}

void ExactSchedule::take_back(const Frame& frame) {
    const auto [start, end, rest, op, device] = frame.made;
    placed_.pop_back();
    scheduled_.done &= ~(uint64_t{1} << op);
    for (int32_t next : delays_.after[op]) ++missing_[size_t(next)];
    for (int32_t member : problem_->members[problem_->group[op]])
        scheduled_.allowed[size_t(member)] = frame.allowed_before;
    scheduled_.clock_ns[size_t(device)] = frame.clock_before;
    scheduled_.now = frame.now_before;
}

// Returns whether the state leads to nothing better: the remaining ops do not fit, or a state that is no worse was
// refuted.
bool ExactSchedule::enter(Frame& frame, const Frame* parent) {
    if (!windows_.find(scheduled_, limit_ns_)) return true;
    find_state(frame);
    if (refuted_.covers(scheduled_.done, frame.state)) return true;
    frame.asleep.assign(size_t(problem_->num_devices), 0);
    if (parent != nullptr) {
        frame.asleep = parent->asleep;
        frame.asleep[size_t(frame.made.device)] = 0;
    }
    find_choices(frame);
    frame.tried = 0;
    frame.is_refuted = true;
    return false;
}

// Collects choices by start. Consider a choice that was refuted and one that starts no earlier: a schedule that begins
// with the latter and runs the refuted op first on its device is no better than one that begins with the refuted op. So
// that op need not be next there until another op has run there.
void ExactSchedule::find_choices(Frame& frame) {
    frame.choices.clear();
    for (int32_t op = 0; op < problem_->num_ops; ++op) {
        if (scheduled_.has(op) || missing_[size_t(op)] > 0) continue;
        for (int32_t device = 0; device < problem_->num_devices; ++device)
            if (windows_.end_ns(op, device) < OpWindows::kNever && !(frame.asleep[size_t(device)] >> op & 1))
                frame.choices.push_back({windows_.start_ns(op, device), windows_.end_ns(op, device),
                                         windows_.rest_ns(op, device), op, device});
    }
    std::ranges::sort(frame.choices, std::less{}, [](const Choice& choice) {
        return std::tuple(choice.start, -(choice.end + choice.rest), choice.op, choice.device);
    });
}

// Collects what matters to later ops: when devices are free, when inputs arrive on each device, and where groups have
// begun.
void ExactSchedule::find_state(Frame& frame) const {
    const int32_t num_devices = problem_->num_devices;
    frame.state.clear();
    for (int32_t device = 0; device < num_devices; ++device)
        frame.state.push_back(std::max(scheduled_.clock_ns[size_t(device)], scheduled_.now));
    for (int32_t op = 0; op < problem_->num_ops; ++op) {
        if (!scheduled_.has(op)) {
            for (int32_t device = 0; device < num_devices && problem_->members[problem_->group[op]].size() > 1;
                 ++device)
                frame.state.push_back(scheduled_.allowed[size_t(op)] >> device & 1 ? 0 : 1);
            continue;
        }
        for (int32_t i = delays_.after.begin[op]; i < delays_.after.begin[op + 1]; ++i) {
            if (scheduled_.has(delays_.after.values[i])) continue;
            for (int32_t device = 0; device < num_devices; ++device) {
                const int64_t apart =
                    delays_.apart_ns(delays_.places.values[i], scheduled_.device_of[size_t(op)], device);
                frame.state.push_back(std::max(scheduled_.finish_ns[size_t(op)] + apart, frame.state[size_t(device)]));
            }
        }
    }
}

// Returns from the state that the last choice led to.
void ExactSchedule::leave(bool is_refuted) {
    take_back(frames_[depth_]);
    const Choice& choice = frames_[depth_].made;
    Frame& last = frames_[depth_ - 1];
    if (is_refuted)
        last.asleep[size_t(choice.device)] |= uint64_t{1} << choice.op;
    else
        last.is_refuted = false;
}

// Looks for link orders once all ops are placed. Returns whether the ops end too late even if every transfer had a link
// of its own.
bool ExactSchedule::look_at_links() {
    const int64_t end = std::ranges::max(scheduled_.clock_ns);
    while (end <= limit_ns_) {
        auto found = link_orders_.find(scheduled_.device_of, placed_, limit_ns_, kMaxLinkOrders);
        evaluations_ += link_orders_.num_orders();
        has_open_ends_ |= link_orders_.gave_up();
        if (!found) break;
        const Outcome outcome = simulate(*problem_, found->device_of, found->order, scratch_);
        if (outcome.bytes_over_limit > 0 || outcome.step_time_ns > limit_ns_) {
            has_open_ends_ = true;
            break;
        }
        best_ = *std::move(found);
        best_ns_ = outcome.step_time_ns;
        limit_ns_ = best_ns_ - divisor_ns_;
    }
    return end > limit_ns_;
}

}  // namespace placewright
