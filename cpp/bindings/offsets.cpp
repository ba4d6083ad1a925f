// Offsets of buffers for Python.
#include <nanobind/stl/tuple.h>

#include <limits>
#include <tuple>

#include "arrays.hpp"
#include "offsets/arena.hpp"

namespace placewright {

void bind_offsets(nb::module_& m) {
    using nb::arg;
    m.def(
        "smallest_arena",
        [](ArrayIn<int32_t> begin, ArrayIn<int32_t> end, ArrayIn<int64_t> size, int64_t effort) {
            const size_t num_buffers = size.size();
            if (num_buffers == 0 || begin.size() != num_buffers || end.size() != num_buffers)
                throw std::invalid_argument("begin, end and size need one number per buffer, of one buffer at least");
            std::vector<TimedBuffer> buffers;
            int64_t total = 0;
            for (size_t b = 0; b < num_buffers; ++b) {
                const TimedBuffer buffer{begin(b), end(b), size(b)};
                if (buffer.begin < 0 || buffer.end <= buffer.begin || buffer.size <= 0)
                    throw std::invalid_argument("a buffer ends after it begins, at 0 or later, and has a size above 0");
                if (buffer.size > std::numeric_limits<int64_t>::max() / 2 - total)
                    throw std::invalid_argument("the sizes add up to too much");
                total += buffer.size;
                buffers.push_back(buffer);
            }
            Arena arena;
            {
                nb::gil_scoped_release released;
                arena = smallest_arena(buffers, effort);
            }
            return std::tuple(to_array(std::move(arena.offset)), arena.size, arena.bound);
        },
        arg("begin").noconvert(), arg("end").noconvert(), arg("size").noconvert(), arg("effort"),
        "Offsets of buffers that are alive from event `begin` up to event `end`, the size of their arena, and a lower "
        "bound on the size of any arena.");
}

}  // namespace placewright
