// Tests without a framework: TEST registers a function under a sentence; CHECK reports a condition that fails and
// continues.
#pragma once

#include <cstdint>
#include <vector>

namespace placewright::testing {

struct Test {
    const char* sentence;
    void (*run)();
};

inline std::vector<Test>& all_tests() {
    static std::vector<Test> tests;
    return tests;
}

struct Registration {
    Registration(const char* sentence, void (*run)()) { all_tests().push_back({sentence, run}); }
};

// The seed of the case under test, named in reports.
inline uint64_t current_seed = 0;

inline int failures = 0;

void report_failure(const char* file, int line, const char* what);

}  // namespace placewright::testing

#define PLACEWRIGHT_CONCATENATED(a, b) a##b
#define PLACEWRIGHT_NAME(prefix, line) PLACEWRIGHT_CONCATENATED(prefix, line)

#define TEST(sentence)                                                                              \
    static void PLACEWRIGHT_NAME(test_at_, __LINE__)();                                             \
    static const ::placewright::testing::Registration PLACEWRIGHT_NAME(registration_at_, __LINE__)( \
        sentence, &PLACEWRIGHT_NAME(test_at_, __LINE__));                                           \
    static void PLACEWRIGHT_NAME(test_at_, __LINE__)()

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) ::placewright::testing::report_failure(__FILE__, __LINE__, #condition); \
    } while (false)

#define CHECK_THROWS(exception, statement)                                                              \
    do {                                                                                                \
        bool caught = false;                                                                            \
        try {                                                                                           \
            statement;                                                                                  \
        } catch (const exception&) {                                                                    \
            caught = true;                                                                              \
        }                                                                                               \
        if (!caught) ::placewright::testing::report_failure(__FILE__, __LINE__, "throws: " #statement); \
    } while (false)
