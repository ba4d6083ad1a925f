#include <functional>

#include "cases.hpp"

namespace placewright::testing {

namespace {

bool refused(const std::function<void(Problem&)>& change) {
    Problem problem = *random_problem({.num_ops = 20, .with_groups = true}, 3);
    for (auto* derived : {&problem.tensor_edge_begin, &problem.tensor_of_consumer, &problem.sources}) derived->clear();
    problem.edges = {};
    change(problem);
    try {
        problem.finish();
    } catch (const std::invalid_argument&) {
        return true;
    }
    return false;
}

TEST("a problem is accepted as it is and refused when its arrays contradict each other") {
    CHECK(!refused([](Problem&) {}));
    CHECK(refused([](Problem& p) { p.num_ops = 0; }));
    CHECK(refused([](Problem& p) { p.num_devices = 0; }));
    CHECK(refused([](Problem& p) { p.num_devices = 65; }));
    CHECK(refused([](Problem& p) { p.op_time_ns.pop_back(); }));
    CHECK(refused([](Problem& p) { p.transfer_bytes.push_back(1); }));
    CHECK(refused([](Problem& p) { p.inputs.values.back() = p.num_tensors; }));
    CHECK(refused([](Problem& p) { p.inputs.values.front() = -1; }));
    CHECK(refused([](Problem& p) { p.inputs.values.front() = p.num_tensors - 1; }));
    CHECK(refused([](Problem& p) {  // an op reads what it makes
        const auto reads_and_makes = [&](int32_t op) {
            return !p.inputs[op].empty() && p.output_begin[op] < p.output_begin[op + 1];
        };
        int32_t op = 0;
        while (!reads_and_makes(op)) ++op;
        p.inputs.values[size_t(p.inputs.begin[op])] = p.output_begin[op];
    }));
    CHECK(refused([](Problem& p) { p.inputs.begin.back() += 1; }));
    CHECK(refused([](Problem& p) { std::swap(p.inputs.begin[1], p.inputs.begin.back()); }));
    CHECK(refused([](Problem& p) { p.controls.begin.clear(); }));
    CHECK(refused([](Problem& p) { p.controls.values.back() = 0; }));
    CHECK(refused([](Problem& p) { p.output_begin.back() -= 1; }));
    CHECK(refused([](Problem& p) { p.storage.back() = p.num_tensors; }));
    CHECK(refused([](Problem& p) { p.group.front() = 1; }));
    CHECK(refused([](Problem& p) { p.allowed.front() = uint64_t{1} << 5; }));
}

TEST("the derived arrays describe the same graph") {
    for_each_problem(100, [](const auto& p, uint64_t) {
        for (int32_t op = 0; op < p->num_ops; ++op) {
            CHECK(p->in_degree[op] == int32_t(p->inputs[op].size() + p->predecessors[op].size()));
            for (int32_t t : p->inputs[op]) CHECK(std::ranges::count(p->consumers[t], op) == 1);
            for (int32_t next : p->controls[op]) CHECK(std::ranges::count(p->predecessors[next], op) == 1);
            for (int32_t t = p->output_begin[op]; t < p->output_begin[op + 1]; ++t) CHECK(p->producer[t] == op);
        }
    });
}

TEST("a transfer takes the latency and its bytes over the bandwidth, rounded up, without overflow") {
    Problem p = *random_problem({.num_ops = 20, .free_links = false}, 3);
    p.latency_ns.assign(4, 20);
    p.inverse_bandwidth.assign(4, int64_t{1} << 31);  // half a nanosecond per byte
    p.transfer_bytes.front() = 7;
    CHECK(p.transfer_time(0, 0, 1) == 20 + 4);
    p.transfer_bytes.front() = int64_t{1} << 50;
    CHECK(p.transfer_time(0, 1, 0) == 20 + (int64_t{1} << 49));
}

}  // namespace

}  // namespace placewright::testing
