// Threads that run batches of independent items. The result of an item does not depend on the thread that runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace placewright {

class WorkerPool {
  public:
    // `threads` counts the caller; 1 makes no thread.
    explicit WorkerPool(int32_t threads);
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    int32_t num_threads() const { return static_cast<int32_t>(threads_.size()) + 1; }

    // Calls body(item, thread) for every item in [0, count); returns when all are done.
    void run(int32_t count, const std::function<void(int32_t, int32_t)>& body);

  private:
    void work(int32_t thread);
    void drain(int32_t thread);
    void stop();

    std::vector<std::thread> threads_;
    const std::function<void(int32_t, int32_t)>* body_ = nullptr;
    int32_t count_ = 0;
    std::atomic<int32_t> unclaimed_{0};  // items not yet claimed; negative once threads find none left
    std::atomic<int32_t> done_{0};
    std::atomic<uint32_t> batch_{0};
    std::atomic<bool> stop_{false};
};

}  // namespace placewright
