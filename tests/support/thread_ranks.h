#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "camber/distributed/process_group.h"

namespace camber::proof {

/// Ranks that are threads of this process, for tests of what ranks do to each other that need no launcher.
class ThreadRanks {
 public:
  using Group = std::shared_ptr<distributed::ProcessGroup>;

  /// Calls work(group) on `ranks` threads; throws the first error after all have ended. A rank that throws is gone for
  /// those that wait for it.
  static void run(std::int64_t ranks, const std::function<void(const Group&)>& work) {
    const auto table = std::make_shared<Table>(ranks);
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(ranks));
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          work(std::make_shared<Rank>(table, rank));
        } catch (...) {
          const std::lock_guard lock(table->mutex);
          if (!table->error) table->error = std::current_exception();
          table->changed.notify_all();
        }
      });
    for (std::thread& thread : threads) thread.join();
    if (table->error) std::rethrow_exception(table->error);
  }

 private:
  struct Table {
    explicit Table(std::int64_t count) : ranks(count), messages(static_cast<std::size_t>(count)) {}
    void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready) {
      changed.wait(lock, [&] { return error || ready(); });
      if (error) throw std::runtime_error("another rank is gone");
    }
    std::int64_t ranks;
    std::mutex mutex;
    std::condition_variable changed;
    std::exception_ptr error;
    std::vector<std::string> messages;
    std::int64_t arrived = 0, round = 0;
    std::map<std::int64_t, std::map<std::int64_t, at::Tensor>> sums;  // by number of the sum, by rank
  };

  class Sum : public distributed::PendingSum {
   public:
    Sum(std::shared_ptr<Table> table, std::int64_t number, at::Tensor tensor)
        : table_(std::move(table)), number_(number), tensor_(std::move(tensor)) {}
    void wait() override {
      std::unique_lock lock(table_->mutex);
      auto& parts = table_->sums[number_];
      table_->wait(lock, [&] { return static_cast<std::int64_t>(parts.size()) == table_->ranks; });
      tensor_.zero_();
      for (const auto& [rank, part] : parts) tensor_.add_(part);
    }

   private:
    std::shared_ptr<Table> table_;
    std::int64_t number_;
    at::Tensor tensor_;
  };

  class Rank : public distributed::ProcessGroup {
   public:
    Rank(std::shared_ptr<Table> table, std::int64_t rank) : table_(std::move(table)), rank_(rank) {}
    std::int64_t rank() const override { return rank_; }
    std::int64_t size() const override { return table_->ranks; }
    std::unique_ptr<distributed::PendingSum> begin_sum(const at::Tensor& tensor) override {
      const std::lock_guard lock(table_->mutex);
      table_->sums[begun_][rank_] = tensor.clone();
      table_->changed.notify_all();
      return std::make_unique<Sum>(table_, begun_++, tensor);
    }
    void sum(const at::Tensor& tensor) override {
      at::Tensor total = at::zeros_like(tensor);
      for (const std::string& bytes : exchange(bytes_of(tensor))) total.add_(like(tensor, bytes));
      tensor.copy_(total);
    }
    void broadcast(const at::Tensor& tensor) override { tensor.copy_(like(tensor, exchange(bytes_of(tensor))[0])); }
    std::vector<std::string> exchange(const std::string& own) override {
      std::unique_lock lock(table_->mutex);
      meet(lock, [&] { table_->messages[static_cast<std::size_t>(rank_)] = own; });
      std::vector<std::string> all = table_->messages;
      meet(lock, [] {});  // nobody writes again before all have read
      return all;
    }
    std::vector<std::string> gather(const std::string& own) override {
      std::vector<std::string> all = exchange(own);
      return rank_ == 0 ? all : std::vector<std::string>();
    }

   private:
    static std::string bytes_of(const at::Tensor& tensor) {
      const at::Tensor whole = tensor.contiguous();
      return {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()};
    }
    static at::Tensor like(const at::Tensor& tensor, const std::string& bytes) {
      at::Tensor result = at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
      std::copy(bytes.begin(), bytes.end(), static_cast<char*>(result.data_ptr()));
      return result;
    }
    void meet(std::unique_lock<std::mutex>& lock, const std::function<void()>& act) {
      act();
      const std::int64_t round = table_->round;
      if (++table_->arrived == table_->ranks) {
        table_->arrived = 0;
        ++table_->round;
        table_->changed.notify_all();
        return;
      }
      table_->wait(lock, [&] { return table_->round != round; });
    }

    std::shared_ptr<Table> table_;
    std::int64_t rank_, begun_ = 0;
  };
};

}  // namespace camber::proof
