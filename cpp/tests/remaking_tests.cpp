#include "bounds/remaking.hpp"
#include "check.hpp"

namespace placewright::testing {

namespace {

int64_t bound_of(const Remaking& remaking) {
    std::vector<double> prices(remaking.room.size(), 0.1);
    return remaking_bound(remaking, prices, 200, 1'000'000);
}

// Two pieces of 10 bytes at one moment with room for 10; to make them again takes 3 and 5 ns.
Remaking two_pieces() {
    return {.room = {10},
            .moment = {0, 0},
            .bytes = {10, 10},
            .is_way = {0, 0},
            .may_go = {1, 1},
            .way_from = {},
            .way_to = {},
            .made = {0, 1},
            .run = {0, 1},
            .time_ns = {3, 5}};
}

TEST("the cheaper of two pieces is made again") { CHECK(bound_of(two_pieces()) == 3); }

TEST("what is read to make it and cannot be made again is held beside") {
    // It has 4 bytes: dropping the first piece frees 6, and 4 of 10 bytes of the second go for 4/10 of 5 ns.
    Remaking remaking = two_pieces();
    remaking.moment.push_back(0);
    remaking.bytes.push_back(4);
    remaking.is_way.push_back(1);
    remaking.may_go.push_back(0);
    remaking.way_from = {0};
    remaking.way_to = {2};
    CHECK(bound_of(remaking) == 5);
}

TEST("what is read to make it is made again as well") {
    // It takes 1 ns: 3 + 1.
    Remaking remaking = two_pieces();
    remaking.moment.push_back(0);
    remaking.bytes.push_back(10);
    remaking.is_way.push_back(1);
    remaking.may_go.push_back(1);
    remaking.way_from = {0};
    remaking.way_to = {2};
    remaking.made.push_back(2);
    remaking.run.push_back(2);
    remaking.time_ns.push_back(1);
    CHECK(bound_of(remaking) == 4);
}

TEST("one run serves two moments") {
    Remaking remaking = two_pieces();
    remaking.room = {10, 10};
    remaking.moment = {0, 0, 1, 1};
    remaking.bytes = {10, 10, 10, 10};
    remaking.is_way = {0, 0, 0, 0};
    remaking.may_go = {1, 1, 1, 1};
    remaking.made = {0, 1, 2, 3};
    remaking.run = {0, 1, 0, 1};
    CHECK(bound_of(remaking) == 3);
}

}  // namespace

}  // namespace placewright::testing
