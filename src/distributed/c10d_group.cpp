#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/types.h>

#include "camber/distributed/process_group.h"
#include "distributed/shared_slots.h"

namespace camber::distributed {
namespace {

using Clock = std::chrono::steady_clock;

// Messages up to this size travel with their length in one collective, longer ones need a second.
constexpr std::int64_t kShort = 256;
constexpr std::size_t kSmallSum = SharedSlots::kCapacity;
constexpr auto kLengthBytes = static_cast<std::int64_t>(sizeof(std::int64_t));

// What c10d throws when a rank is gone speaks of sockets and threads.
template <class Work>
void finish(const Work& work) {
  try {
    work->wait();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw std::runtime_error("[distributed] another process of this run is gone or stuck: " +
                             text.substr(0, text.find('\n')));
  }
}

class C10dSum : public PendingSum {
 public:
  C10dSum(c10::intrusive_ptr<c10d::Work> work, Clock::duration& waited) : work_(std::move(work)), waited_(waited) {}
  void wait() override {
    const auto begin = Clock::now();
    finish(work_);
    waited_ += Clock::now() - begin;
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  Clock::duration& waited_;
};

class C10dGroup : public ProcessGroup {
 public:
  C10dGroup(const std::string& sums, const std::string& values)
      : sums_(c10d::resolve_process_group(sums)), values_(c10d::resolve_process_group(values)) {
    if (sums_->getSize() != values_->getSize() || sums_->getRank() != values_->getRank())
      throw std::invalid_argument("[distributed] both groups must have the same ranks");
    slots_ = std::make_unique<SharedSlots>(rank(), size(), [this](const auto& own) { return exchange(own); });
    if (!slots_->joined()) slots_.reset();
  }

  std::int64_t rank() const override { return values_->getRank(); }
  std::int64_t size() const override { return values_->getSize(); }

  std::unique_ptr<PendingSum> begin_sum(const at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors{tensor};
    return std::make_unique<C10dSum>(sums_->allreduce(tensors), waited_);
  }

  // Few numbers go through the memory that ranks of one machine share. Elsewhere Gloo passes them to everybody in a
  // third of the time in which it adds them up.
  void sum(const at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors{tensor};
    if (tensor.nbytes() * static_cast<std::size_t>(size()) > kSmallSum || !tensor.is_cpu()) {
      waiting([&] { finish(values_->allreduce(tensors)); });
      return;
    }
    if (slots_) {
      sum_in_slots(tensor);
      return;
    }
    std::vector<std::vector<at::Tensor>> parts(1);
    for (std::int64_t i = 0; i < size(); ++i) parts[0].push_back(torch::empty_like(tensor));
    waiting([&] { finish(values_->allgather(parts, tensors)); });
    tensor.copy_(parts[0][0]);
    for (std::size_t i = 1; i < parts[0].size(); ++i) tensor.add_(parts[0][i]);
  }

  void broadcast(const at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors{tensor};
    waiting([&] { finish(values_->broadcast(tensors)); });
  }

  std::vector<std::string> exchange(const std::string& own) override {
    if (slots_) {
      std::vector<SharedSlots::Message> messages;
      waiting([&] { messages = slots_->exchange(std::as_bytes(std::span(own))); });
      std::vector<std::string> all;
      std::size_t longest = 0;
      for (const auto& [length, bytes] : messages) {
        all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        longest = std::max(longest, length);
      }
      return longest <= SharedSlots::kCapacity ? all : all_of(own, static_cast<std::int64_t>(longest) + kLengthBytes);
    }
    std::vector<std::string> all = all_of(own, kShort);
    const auto longest = std::max_element(lengths_.begin(), lengths_.end());
    if (*longest + kLengthBytes > kShort) all = all_of(own, *longest + kLengthBytes);
    return all;
  }

  std::vector<std::string> gather(const std::string& own) override {
    const std::vector<double> most = largest({static_cast<double>(own.size())});
    const auto width = static_cast<std::int64_t>(most[0]) + kLengthBytes;
    std::vector<at::Tensor> inputs{message(own, width)};
    std::vector<std::vector<at::Tensor>> outputs;
    if (is_first()) outputs.push_back(buffers(width));
    waiting([&] { finish(values_->gather(outputs, inputs)); });
    return is_first() ? texts(outputs[0]) : std::vector<std::string>();
  }

 private:
  template <class Call>
  void waiting(const Call& call) {
    const auto begin = Clock::now();
    call();
    waited_ += Clock::now() - begin;
  }

  void sum_in_slots(const at::Tensor& tensor) {
    std::vector<SharedSlots::Message> messages;
    const at::Tensor whole = tensor.contiguous();  // in one order on every rank
    const std::span own(static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes());
    waiting([&] { messages = slots_->exchange(own); });
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].length != own.size())
        throw std::logic_error("[distributed] every rank must sum tensors of one size, got " +
                               std::to_string(own.size()) + " bytes here and " + std::to_string(messages[i].length) +
                               " on rank " + std::to_string(i));
      const at::Tensor part =
          torch::from_blob(const_cast<std::byte*>(messages[i].bytes.data()), tensor.sizes(), tensor.options());
      if (i == 0)
        tensor.copy_(part);
      else
        tensor.add_(part);
    }
  }

  // Length, then as much of the text as the width has room for.
  static at::Tensor message(const std::string& own, std::int64_t width) {
    at::Tensor bytes = torch::zeros({width}, torch::kUInt8);
    const auto length = static_cast<std::int64_t>(own.size());
    std::memcpy(bytes.data_ptr(), &length, sizeof length);
    std::memcpy(static_cast<char*>(bytes.data_ptr()) + kLengthBytes, own.data(),
                static_cast<std::size_t>(std::min(length, width - kLengthBytes)));
    return bytes;
  }

  std::vector<at::Tensor> buffers(std::int64_t width) const {
    std::vector<at::Tensor> all;
    all.reserve(static_cast<std::size_t>(size()));
    for (std::int64_t i = 0; i < size(); ++i) all.push_back(torch::empty({width}, torch::kUInt8));
    return all;
  }

  std::vector<std::string> texts(const std::vector<at::Tensor>& messages) {
    std::vector<std::string> all;
    lengths_.clear();
    for (const at::Tensor& bytes : messages) {
      std::int64_t length = 0;
      std::memcpy(&length, bytes.const_data_ptr(), sizeof length);
      lengths_.push_back(length);
      const auto* text = static_cast<const char*>(bytes.const_data_ptr()) + kLengthBytes;
      all.emplace_back(text, static_cast<std::size_t>(std::min(length, bytes.numel() - kLengthBytes)));
    }
    return all;
  }

  std::vector<std::string> all_of(const std::string& own, std::int64_t width) {
    std::vector<at::Tensor> inputs{message(own, width)};
    std::vector<std::vector<at::Tensor>> outputs{buffers(width)};
    waiting([&] { finish(values_->allgather(outputs, inputs)); });
    return texts(outputs[0]);
  }

  c10::intrusive_ptr<c10d::ProcessGroup> sums_, values_;
  std::unique_ptr<SharedSlots> slots_;  // null: not all ranks are on one machine
  std::vector<std::int64_t> lengths_;   // of the messages received last
};

}  // namespace

std::shared_ptr<ProcessGroup> c10d_group(const std::string& sums, const std::string& values) {
  return std::make_shared<C10dGroup>(sums, values);
}

}  // namespace camber::distributed
