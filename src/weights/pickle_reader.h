#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <torch/types.h>

namespace camber::weights {

/// A tensor as a pickle describes it: a view of a storage that lies elsewhere in the file.
struct PickledTensor {
  std::string storage{};  // its key
  torch::ScalarType type{};
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes{}, strides{};
};

/// A value of a pickle. Values belong to the reader and refer to each other by pointers, so that nesting of any depth
/// and values that hold themselves cost nothing.
struct PickledValue {
  enum class Kind { kNone, kNumber, kInteger, kText, kList, kDict, kTensor, kStorage, kGlobal, kOpaque, kMark };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;
  std::string text{};                        // kText; kGlobal: "module.name"
  std::vector<const PickledValue*> items{};  // kList (tuples too); kDict: keys and values in turn
  std::optional<PickledTensor> tensor{};     // kTensor, kStorage
};

/// Throws std::runtime_error with this text.
[[noreturn]] void refuse_pickle(const std::string& what);

/// Takes a pickle apart as data. Throws std::runtime_error whose text completes "FILE must be a file of torch.save, but
/// ...".
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}
  const PickledValue& read();

 private:
  using Kind = PickledValue::Kind;

  PickledValue& make(Kind kind);
  void push(PickledValue& value) { stack_.push_back(&value); }
  void push_text(std::string_view text);
  void push_integer(std::int64_t value);
  void push_global(std::string_view module, std::string_view name);
  void push_list(std::vector<PickledValue*> items);
  void push_last(std::size_t count);  // as a tuple
  PickledValue& pop();
  PickledValue& top();
  std::vector<PickledValue*> pop_to_mark();
  std::string_view take(std::uint64_t count);
  std::string_view take_line();
  std::uint64_t take_unsigned(std::size_t bytes);
  std::int64_t take_long(std::uint64_t bytes);

  bool step(unsigned char opcode);  // false at the end
  bool step_literal(unsigned char opcode);
  bool step_container(unsigned char opcode);
  void remember(std::uint64_t index) { memo_[index] = &top(); }
  void recall(std::uint64_t index);
  void set_items(PickledValue& target, const std::vector<PickledValue*>& items);
  void call(const PickledValue& callee, const PickledValue& arguments);
  void persistent(const PickledValue& id);
  void rebuild_tensor(const PickledValue& arguments);

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::deque<PickledValue> values_;
  std::vector<PickledValue*> stack_;
  std::unordered_map<std::uint64_t, PickledValue*> memo_;
};

}  // namespace camber::weights
