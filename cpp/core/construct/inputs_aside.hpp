// Inputs that share their device with ops that work: set aside while those are placed, so that they decide nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "construct/placements.hpp"
#include "construct/segment_fill.hpp"
#include "problem/problem.hpp"

namespace placewright {

// [op] 1 for what is there when the step starts: it takes no time on any device and waits for nothing but such ops. A
// graph input, a weight that is an op.
std::vector<uint8_t> find_inputs(const Problem& problem);

// [op] 1 for an input that another device waits for, or that comes before such a one.
std::vector<uint8_t> find_remote_inputs(const Problem& problem, std::span<const int32_t> device_of);

// The order with its remote inputs at the beginning, where they delay nothing; their transfers stay where they are.
std::vector<Step> with_remote_inputs_first(const Problem& problem, std::span<const int32_t> device_of,
                                           std::span<const Step> order);

// Whom an input follows that shares its device with ops that work.
enum class InputsFollow {
    group,         // those ops alone; its readers may be anywhere
    first_reader,  // its first reader too, which then shares their device
};

class InputsAside {
  public:
    InputsAside(const Problem& whole, InputsFollow follow);

    // Whether there are such inputs.
    bool any() const { return !aside_.empty(); }

    // The problem without them. Their memory is resident with all who read it, and with the first of their group; who
    // reads them finds them everywhere. Valid only where there are any.
    const std::shared_ptr<Problem>& rest() const { return rest_; }

    // What was decided about the rest, with the inputs. One that another device reads stands at the beginning, where it
    // delays nothing, any other right before its first reader.
    PlacementAndOrder whole(const PlacementAndOrder& placed) const;

    // The same with transfers. An input leaves right before its first reader there, or where transfers block at the
    // beginning, as nothing has to wait yet.
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
    std::vector<int32_t> rest_of_;       // [op] op of the rest, -1 when set aside
    std::vector<int32_t> tensor_of_;     // [tensor of the rest] tensor
    std::vector<int32_t> first_reader_;  // [op] when set aside: who first waits for it in captured order, or -1
    std::vector<int32_t> neighbour_;     // [op] the first op of its group that is not set aside
};

}  // namespace placewright
