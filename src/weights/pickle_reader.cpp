#include "weights/pickle_reader.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace camber::weights {
namespace {

[[noreturn]] void refuse_pickle(const std::string& what) {
  throw std::runtime_error(what);
}

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
constexpr std::array<std::string_view, 26> kHarmless{
    "collections.defaultdict", "collections.Counter", "collections.deque", "builtins.set", "builtins.frozenset",
    "builtins.complex", "builtins.bytearray", "builtins.slice", "builtins.range", "builtins.object", "builtins.dict",
    "builtins.list", "builtins.int", "builtins.float", "builtins.str", "__builtin__.set", "__builtin__.object",
    "__builtin__.complex", "__builtin__.bytearray", "_codecs.encode", "copyreg._reconstructor",
    "copy_reg._reconstructor", "argparse.Namespace", "torch.Size", "torch.device", "torch.serialization._get_layout"};
constexpr std::array<std::string_view, 13> kHarmlessModules{
    "numpy.core.multiarray._reconstruct", "numpy.core.multiarray.scalar", "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar", "numpy.dtype", "numpy.ndarray", "datetime.", "pathlib.", "mmcv.utils.config.",
    "mmengine.config.", "mmengine.logging.history_buffer.", "addict.", "torch.storage.TypedStorage"};

bool is_known_type(std::string_view name) {  // torch.float32 and the like
  return name.starts_with("torch.") && name.find_first_of("_ABCDEFGHIJKLMNOPQRSTUVWXYZ", 6) == std::string_view::npos &&
         name.find('.', 6) == std::string_view::npos && name.find_first_of("0123456789", 6) != std::string_view::npos;
}

bool is_harmless(std::string_view name) {
  return std::find(kHarmless.begin(), kHarmless.end(), name) != kHarmless.end() || is_known_type(name) ||
         std::any_of(kHarmlessModules.begin(), kHarmlessModules.end(),
                     [&](std::string_view known) { return name == known || (known.ends_with('.') && name.starts_with(known)); });
}

std::vector<std::int64_t> integers_of(const PickledValue& list) {
  std::vector<std::int64_t> result;
  for (const PickledValue* item : list.items) {
    if (item->kind != PickledValue::Kind::kInteger) refuse_pickle("a tensor in it has sizes that are no numbers");
    result.push_back(item->integer);
  }
  return result;
}

}  // namespace

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
    refuse_pickle("it asks to call '" + value.text + "', which makes no weights; nothing of it was run");
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
  for (std::size_t i = 0; i < count; ++i) value |= static_cast<std::uint64_t>(static_cast<unsigned char>(taken[i])) << (8 * i);
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
    // OrderedDict([[key, value], ...]), as older protocols write it.
    if (arguments.items.size() == 1 && arguments.items[0]->kind == Kind::kList)
      for (const PickledValue* pair : arguments.items[0]->items)
        if (pair->items.size() == 2) top().items.insert(top().items.end(), pair->items.begin(), pair->items.end());
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
                     items[2]->kind == Kind::kText && items[4]->kind == Kind::kInteger;
  const auto type = sound ? storage_type(items[1]->text) : std::nullopt;
  if (!type) refuse_pickle("a storage in it is of a kind that is not known here");
  auto& value = make(Kind::kStorage);
  value.tensor = PickledTensor{.storage = items[2]->text, .type = *type, .storage_numel = items[4]->integer};
  push(value);
}

bool PickleReader::step_literal(unsigned char opcode) {
  switch (opcode) {
    case 'N': push(make(Kind::kNone)); return true;
    case 0x88: push_integer(1); return true;
    case 0x89: push_integer(0); return true;
    case 'K': push_integer(static_cast<std::int64_t>(take_unsigned(1))); return true;
    case 'M': push_integer(static_cast<std::int64_t>(take_unsigned(2))); return true;
    case 'J': push_integer(static_cast<std::int32_t>(take_unsigned(4))); return true;
    case 0x8a: push_integer(take_long(take_unsigned(1))); return true;
    case 0x8b: push_integer(take_long(take_unsigned(4))); return true;
    case 'G': take(8); push(make(Kind::kNumber)); return true;
    case 'X': case 'T': case 'B': push_text(take(take_unsigned(4))); return true;
    case 0x8c: case 'U': case 'C': push_text(take(take_unsigned(1))); return true;
    case 0x8d: case 0x8e: case 0x96: push_text(take(take_unsigned(8))); return true;
    case 'c': {
      const auto module = take_line();
      push_global(module, take_line());
      return true;
    }
    case 0x93: {
      const auto& name = pop();
      push_global(pop().text, name.text);
      return true;
    }
    default: return false;
  }
}

bool PickleReader::step_container(unsigned char opcode) {
  switch (opcode) {
    case '(': push(make(Kind::kMark)); return true;
    case '}': push(make(Kind::kDict)); return true;
    case ']': case ')': push(make(Kind::kList)); return true;
    case 0x8f: push(make(Kind::kOpaque)); return true;  // a set
    case 't': case 'l': push_list(pop_to_mark()); return true;
    case 0x85: case 0x86: case 0x87: {
      const auto count = static_cast<std::size_t>(opcode - 0x84);
      if (stack_.size() < count) refuse_pickle("its pickle is damaged");
      const std::vector<PickledValue*> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
      stack_.resize(stack_.size() - count);
      push_list(items);
      return true;
    }
    case 'd': {
      const auto items = pop_to_mark();
      auto& dict = make(Kind::kDict);
      set_items(dict, items);
      push(dict);
      return true;
    }
    case 's': {
      auto& value = pop();
      auto& key = pop();
      set_items(top(), {&key, &value});
      return true;
    }
    case 'u': {
      const auto items = pop_to_mark();
      set_items(top(), items);
      return true;
    }
    case 'a': {
      auto& item = pop();
      if (top().kind == Kind::kList) top().items.push_back(&item);
      return true;
    }
    case 'e': {
      const auto items = pop_to_mark();
      if (top().kind == Kind::kList) top().items.insert(top().items.end(), items.begin(), items.end());
      return true;
    }
    case 0x90: pop_to_mark(); return true;                             // into a set
    case 0x91: pop_to_mark(); push(make(Kind::kOpaque)); return true;  // a frozen set
    default: return false;
  }
}

bool PickleReader::step(unsigned char opcode) {
  if (step_literal(opcode) || step_container(opcode)) return true;
  switch (opcode) {
    case '.': return false;
    case 0x80: take(1); return true;
    case 0x95: take(8); return true;
    case 'q': remember(take_unsigned(1)); return true;
    case 'r': remember(take_unsigned(4)); return true;
    case 0x94: remember(memo_.size()); return true;
    case 'h': recall(take_unsigned(1)); return true;
    case 'j': recall(take_unsigned(4)); return true;
    case '0': pop(); return true;
    case '1': pop_to_mark(); return true;
    case '2': push(top()); return true;
    case 'Q': persistent(pop()); return true;
    case 'R': case 0x81: {
      const auto& arguments = pop();
      call(pop(), arguments);
      return true;
    }
    case 0x92: {  // with keywords
      pop();
      const auto& arguments = pop();
      call(pop(), arguments);
      return true;
    }
    case 'b': pop(); top(); return true;  // attributes, such as _metadata: nothing here depends on them
    default: refuse_pickle("its pickle holds an instruction that torch.save does not write");
  }
}

const PickledValue& PickleReader::read() {
  while (step(static_cast<unsigned char>(take(1)[0]))) {
  }
  if (top().kind == Kind::kMark) refuse_pickle("its pickle is damaged");
  return top();
}

}  // namespace camber::weights
