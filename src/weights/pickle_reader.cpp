#include "weights/pickle_reader.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "camber/json/values.h"

namespace camber::weights {
namespace {

constexpr std::array<std::pair<std::string_view, torch::ScalarType>, 10> kStorages{{
    {"torch.FloatStorage", torch::kFloat},
    {"torch.DoubleStorage", torch::kDouble},
    {"torch.HalfStorage", torch::kHalf},
    {"torch.BFloat16Storage", torch::kBFloat16},
    {"torch.LongStorage", torch::kLong},
    {"torch.IntStorage", torch::kInt},
    {"torch.ShortStorage", torch::kShort},
    {"torch.CharStorage", torch::kChar},
    {"torch.ByteStorage", torch::kByte},
    {"torch.BoolStorage", torch::kBool},
}};

std::optional<torch::ScalarType> storage_type(std::string_view name) {
  for (const auto& [known, type] : kStorages)
    if (known == name) return type;
  return std::nullopt;
}

constexpr std::string_view kDictionary = "collections.OrderedDict";
constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";

// Plain data that checkpoints carry beside the weights; what they would make is passed over.
constexpr std::array<std::string_view, 26> kHarmless{"collections.defaultdict",
                                                     "collections.Counter",
                                                     "collections.deque",
                                                     "builtins.set",
                                                     "builtins.frozenset",
                                                     "builtins.complex",
                                                     "builtins.bytearray",
                                                     "builtins.slice",
                                                     "builtins.range",
                                                     "builtins.object",
                                                     "builtins.dict",
                                                     "builtins.list",
                                                     "builtins.int",
                                                     "builtins.float",
                                                     "builtins.str",
                                                     "__builtin__.set",
                                                     "__builtin__.object",
                                                     "__builtin__.complex",
                                                     "__builtin__.bytearray",
                                                     "_codecs.encode",
                                                     "copyreg._reconstructor",
                                                     "copy_reg._reconstructor",
                                                     "argparse.Namespace",
                                                     "torch.Size",
                                                     "torch.device",
                                                     "torch.serialization._get_layout"};
constexpr std::array<std::string_view, 13> kHarmlessModules{"numpy.core.multiarray._reconstruct",
                                                            "numpy.core.multiarray.scalar",
                                                            "numpy._core.multiarray._reconstruct",
                                                            "numpy._core.multiarray.scalar",
                                                            "numpy.dtype",
                                                            "numpy.ndarray",
                                                            "datetime.",
                                                            "pathlib.",
                                                            "mmcv.utils.config.",
                                                            "mmengine.config.",
                                                            "mmengine.logging.history_buffer.",
                                                            "addict.",
                                                            "torch.storage.TypedStorage"};

bool is_known_type(std::string_view name) {  // torch.float32 and the like
  return name.starts_with("torch.") && name.find_first_of("_ABCDEFGHIJKLMNOPQRSTUVWXYZ", 6) == std::string_view::npos &&
         name.find('.', 6) == std::string_view::npos && name.find_first_of("0123456789", 6) != std::string_view::npos;
}

bool is_harmless(std::string_view name) {
  return std::find(kHarmless.begin(), kHarmless.end(), name) != kHarmless.end() || is_known_type(name) ||
         std::any_of(
             kHarmlessModules.begin(), kHarmlessModules.end(),
             [&](std::string_view known) {
               return name == known || (known.ends_with('.') && name.starts_with(known));
             });
}

// What is copied out of a value that many others may share stays short, so that no file makes more than it holds.
constexpr std::size_t kMostDimensions = 64, kLongestKey = 64;

std::vector<std::int64_t> integers_of(const PickledValue& list) {
  if (list.items.size() > kMostDimensions) refuse_pickle("a tensor in it has more than 64 dimensions");
  std::vector<std::int64_t> result;
  for (const PickledValue* item : list.items) {
    if (item->kind != PickledValue::Kind::kInteger) refuse_pickle("a tensor in it has sizes that are no numbers");
    result.push_back(item->integer);
  }
  return result;
}

}  // namespace

void refuse_pickle(const std::string& what) {
  throw std::runtime_error(what);
}

PickledValue& PickleReader::make(Kind kind) {
  values_.push_back({.kind = kind});
  return values_.back();
}

void PickleReader::push_text(std::string_view text) {
  auto& value = make(Kind::kText);
  value.text = text;
  push(value);
}

void PickleReader::push_integer(std::int64_t number) {
  auto& value = make(Kind::kInteger);
  value.integer = number;
  push(value);
}

void PickleReader::push_list(std::vector<PickledValue*> items) {
  auto& value = make(Kind::kList);
  value.items.assign(items.begin(), items.end());
  push(value);
}

void PickleReader::push_global(std::string_view module, std::string_view name) {
  auto& value = make(Kind::kGlobal);
  value.text = std::string(module) + "." + std::string(name);
  if (value.text != kDictionary && value.text != kRebuildTensor && value.text != kRebuildParameter &&
      !storage_type(value.text) && !is_harmless(value.text))
    refuse_pickle("it asks to call '" + json::shown_text(value.text) +
                  "', which makes no weights; nothing of it was run");
  push(value);
}

PickledValue& PickleReader::top() {
  if (stack_.empty()) refuse_pickle("its pickle is damaged");
  return *stack_.back();
}

PickledValue& PickleReader::pop() {
  PickledValue& value = top();
  stack_.pop_back();
  return value;
}

std::vector<PickledValue*> PickleReader::pop_to_mark() {
  const auto mark = std::find_if(stack_.rbegin(), stack_.rend(),
                                 [](const PickledValue* value) { return value->kind == Kind::kMark; });
  if (mark == stack_.rend()) refuse_pickle("its pickle is damaged");
  std::vector<PickledValue*> items(mark.base(), stack_.end());
  stack_.erase(mark.base() - 1, stack_.end());
  return items;
}

std::string_view PickleReader::take(std::uint64_t count) {
  if (count > bytes_.size() - at_) refuse_pickle("its pickle is cut short");
  const auto result = bytes_.substr(at_, count);
  at_ += count;
  return result;
}

std::string_view PickleReader::take_line() {
  const auto end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) refuse_pickle("its pickle is cut short");
  const auto result = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return result;
}

std::uint64_t PickleReader::take_unsigned(std::size_t count) {
  const auto taken = take(count);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(taken[i])) << (8 * i);
  return value;
}

// Two's complement of any length; what does not fit into 64 bits is no size of a tensor, and becomes 0.
std::int64_t PickleReader::take_long(std::uint64_t count) {
  if (count > 8) {
    take(count);
    return 0;
  }
  std::uint64_t value = take_unsigned(count);
  if (count > 0 && count < 8 && (value >> (8 * count - 1)) != 0) value |= ~std::uint64_t{0} << (8 * count);
  return static_cast<std::int64_t>(value);
}

void PickleReader::recall(std::uint64_t index) {
  const auto at = memo_.find(index);
  if (at == memo_.end()) refuse_pickle("its pickle is damaged");
  push(*at->second);
}

void PickleReader::set_items(PickledValue& target, const std::vector<PickledValue*>& items) {
  if (target.kind == Kind::kOpaque) return;
  if (target.kind != Kind::kDict || items.size() % 2 != 0) refuse_pickle("its pickle is damaged");
  target.items.insert(target.items.end(), items.begin(), items.end());
}

void PickleReader::rebuild_tensor(const PickledValue& arguments) {
  const auto& items = arguments.items;
  const bool sound = items.size() >= 4 && items[0]->kind == Kind::kStorage && items[1]->kind == Kind::kInteger &&
                     items[2]->kind == Kind::kList && items[3]->kind == Kind::kList;
  if (!sound) refuse_pickle("a tensor in it is not described as torch.save does");
  auto& value = make(Kind::kTensor);
  value.tensor = items[0]->tensor;
  value.tensor->offset = items[1]->integer;
  value.tensor->sizes = integers_of(*items[2]);
  value.tensor->strides = integers_of(*items[3]);
  push(value);
}

void PickleReader::call(const PickledValue& callee, const PickledValue& arguments) {
  if (callee.kind == Kind::kGlobal && callee.text == kDictionary) {
    push(make(Kind::kDict));
  } else if (callee.kind == Kind::kGlobal && callee.text == kRebuildTensor) {
    rebuild_tensor(arguments);
  } else if (callee.kind == Kind::kGlobal && callee.text == kRebuildParameter && !arguments.items.empty() &&
             arguments.items[0]->kind == Kind::kTensor) {
    auto& value = make(Kind::kTensor);
    value.tensor = arguments.items[0]->tensor;
    push(value);
  } else if (callee.kind == Kind::kGlobal || callee.kind == Kind::kOpaque) {
    push(make(Kind::kOpaque));
  } else {
    refuse_pickle("its pickle is damaged");
  }
}

// ("storage", torch.FloatStorage, key, location, numel)
void PickleReader::persistent(const PickledValue& id) {
  const auto& items = id.items;
  const bool sound = items.size() == 5 && items[0]->text == "storage" && items[1]->kind == Kind::kGlobal &&
                     items[2]->kind == Kind::kText && items[2]->text.size() <= kLongestKey &&
                     items[4]->kind == Kind::kInteger;
  const auto type = sound ? storage_type(items[1]->text) : std::nullopt;
  if (!type) refuse_pickle("a storage in it is of a kind that is not known here");
  auto& value = make(Kind::kStorage);
  value.tensor = PickledTensor{.storage = items[2]->text, .type = *type};
  push(value);
}

const PickledValue& PickleReader::read() {
  while (step(static_cast<unsigned char>(take(1)[0]))) {
  }
  if (top().kind == Kind::kMark) refuse_pickle("its pickle is damaged");
  return top();
}

}  // namespace camber::weights
