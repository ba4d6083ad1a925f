// Runs every test, or those whose sentence contains the first argument; exits with 1 when a check failed.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "check.hpp"

namespace placewright::testing {

void report_failure(const char* file, int line, const char* what) {
    constexpr int kMaxReports = 50;
    if (++failures <= kMaxReports)
        std::fprintf(stderr, "%s:%d: seed %llu: %s\n", file, line, static_cast<unsigned long long>(current_seed), what);
}

}  // namespace placewright::testing

int main(int argc, char** argv) {
    using namespace placewright::testing;
    int ran = 0;
    for (const Test& test : all_tests()) {
        if (argc > 1 && std::strstr(test.sentence, argv[1]) == nullptr) continue;
        const int failures_before = failures;
        const auto began = std::chrono::steady_clock::now();
        current_seed = 0;
        test.run();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        std::printf("%-4s %5.2f s  %s\n", failures == failures_before ? "ok" : "FAIL", seconds, test.sentence);
        ++ran;
    }
    std::printf("%d tests, %d failed checks\n", ran, failures);
    return ran == 0 || failures > 0 ? 1 : 0;
}
