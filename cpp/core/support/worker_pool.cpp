#include "support/worker_pool.hpp"

#include <algorithm>

namespace placewright {

namespace {

// Generations follow each other within microseconds, so a short spin beats going to sleep.
constexpr int kSpins = 4000;

template <class Value>
void wait_while_equal(std::atomic<Value>& value, Value old) {
    for (int i = 0; i < kSpins; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    value.wait(old, std::memory_order_acquire);
}

}  // namespace

WorkerPool::WorkerPool(int32_t threads) {
    threads_.reserve(size_t(std::max(0, threads - 1)));
    try {
        for (int32_t i = 1; i < threads; ++i) threads_.emplace_back([this, i] { work(i); });
    } catch (...) {  // the system has no more threads
        stop();
        throw;
    }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
    stop_ = true;
    batch_.fetch_add(1, std::memory_order_release);
    batch_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(int32_t count, const std::function<void(int32_t, int32_t)>& body) {
    body_ = &body;
    count_ = count;
    done_.store(0, std::memory_order_relaxed);
    unclaimed_.store(count, std::memory_order_release);
    batch_.fetch_add(1, std::memory_order_release);
    if (!threads_.empty()) batch_.notify_all();
    drain(0);
    for (int32_t done = done_.load(std::memory_order_acquire); done != count;
         done = done_.load(std::memory_order_acquire))
        wait_while_equal(done_, done);
}

void WorkerPool::work(int32_t thread) {
    uint32_t seen = 0;
    while (true) {
        wait_while_equal(batch_, seen);
        seen = batch_.load(std::memory_order_acquire);
        if (stop_) return;
        drain(thread);
    }
}

// Runs items until none is left. A batch cannot end while one of its items is claimed and not done, so values read
// after a claim stay valid until then. A thread that wakes up late finds no item, or joins the next batch.
void WorkerPool::drain(int32_t thread) {
    int32_t ran = 0;
    for (int32_t item; (item = unclaimed_.fetch_sub(1, std::memory_order_acquire) - 1) >= 0; ++ran)
        (*body_)(item, thread);
    if (ran == 0) return;
    const int32_t count = count_;
    if (done_.fetch_add(ran, std::memory_order_acq_rel) + ran == count) done_.notify_one();
}

}  // namespace placewright
