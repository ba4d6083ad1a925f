// Inputs that share their device with ops that do work. They are set aside while those are placed, so that they affect
// no decision.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "construct/placements.hpp"
#include "construct/segment_fill.hpp"
#include "problem/problem.hpp"

namespace placewright {

// [op] 1 for an input, which is there when the step starts: it takes no time on any device and waits for nothing but
// such ops. Examples are a graph input and a weight that is an op.
std::vector<uint8_t> find_inputs(const Problem& problem);

// [op] 1 for an input that another device waits for, or that comes before such an input.
std::vector<uint8_t> find_remote_inputs(const Problem& problem, std::span<const int32_t> device_of);

// Returns the order with its remote inputs at the beginning, where they delay nothing. Their transfers stay in place,
// except those that remote inputs need.
std::vector<Step> with_remote_inputs_first(const Problem& problem, std::span<const int32_t> device_of,
                                           std::span<const Step> order);

// The ops that determine the device of an input that shares it with ops that do work.
enum class InputsFollow {
    group,         // the ops of its group alone; its readers may be anywhere
    first_reader,  // also its first reader, which then shares their device
};

class InputsAside {
  public:
    InputsAside(const Problem& whole, InputsFollow follow);

    // Returns whether there are such inputs.
    bool any() const { return !aside_.empty(); }

    // The problem without them. Their memory is resident with all their readers and with the first op of their group;
    // readers find them on every device. Valid only if there are any.
    const std::shared_ptr<Problem>& rest() const { return rest_; }

    // Adds the inputs to what was decided about the rest. An input that another device reads goes to the beginning,
    // where it delays nothing, any other right before its first reader.
    PlacementAndOrder whole(const PlacementAndOrder& placed) const;

    // The same with transfers. An input is sent right before its first reader there, or at the beginning if transfers
    // block, as nothing has to wait yet.
    Solution whole(const Solution& placed) const;

  private:
    class Inserter;

    void find_aside();
    void find_first_readers();
    void make_groups(InputsFollow follow);
    void make_ops();
    void make_tensors();
    void make_residents();
    template <class F>
    void for_each_reader(int32_t op, F&& f) const;
    std::vector<int32_t> whole_placement(std::span<const int32_t> device_of) const;

    const Problem& whole_;
    std::shared_ptr<Problem> rest_;
    std::vector<uint8_t> is_aside_;      // [op]
    std::vector<int32_t> aside_;         // ops
    std::vector<int32_t> op_of_;         // [op of the rest] op
    std::vector<int32_t> rest_of_;       // [op] op of the rest, -1 if set aside
    std::vector<int32_t> tensor_of_;     // [tensor of the rest] tensor
    std::vector<int32_t> first_reader_;  // [op] if set aside: the first op in captured order that waits for it, or -1
    std::vector<int32_t> neighbour_;     // [op] the first op of its group that is not set aside
};

}  // namespace placewright
