// The instructions of pickle that torch.save writes, one step each; others are refused.
#include "weights/pickle_reader.h"

namespace camber::weights {

bool PickleReader::step_literal(unsigned char opcode) {
  switch (opcode) {
    case 'N':
      push(make(Kind::kNone));
      return true;
    case 0x88:
      push_integer(1);
      return true;
    case 0x89:
      push_integer(0);
      return true;
    case 'K':
      push_integer(static_cast<std::int64_t>(take_unsigned(1)));
      return true;
    case 'M':
      push_integer(static_cast<std::int64_t>(take_unsigned(2)));
      return true;
    case 'J':
      push_integer(static_cast<std::int32_t>(take_unsigned(4)));
      return true;
    case 0x8a:
      push_integer(take_long(take_unsigned(1)));
      return true;
    case 0x8b:
      push_integer(take_long(take_unsigned(4)));
      return true;
    case 'G':
      take(8);
      push(make(Kind::kNumber));
      return true;
    case 'X':
    case 'T':
    case 'B':
      push_text(take(take_unsigned(4)));
      return true;
    case 0x8c:
    case 'U':
    case 'C':
      push_text(take(take_unsigned(1)));
      return true;
    case 0x8d:
    case 0x8e:
    case 0x96:
      push_text(take(take_unsigned(8)));
      return true;
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
    default:
      return false;
  }
}

void PickleReader::push_last(std::size_t count) {
  if (stack_.size() < count) refuse_pickle("its pickle is damaged");
  const std::vector<PickledValue*> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  push_list(items);
}

bool PickleReader::step_container(unsigned char opcode) {
  switch (opcode) {
    case '(':
      push(make(Kind::kMark));
      return true;
    case '}':
      push(make(Kind::kDict));
      return true;
    case ']':
    case ')':
      push(make(Kind::kList));
      return true;
    case 0x8f:
      push(make(Kind::kOpaque));
      return true;  // a set
    case 't':
    case 'l':
      push_list(pop_to_mark());
      return true;
    case 0x85:
    case 0x86:
    case 0x87:
      push_last(static_cast<std::size_t>(opcode - 0x84));
      return true;
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
    case 0x90:
      pop_to_mark();
      return true;  // into a set
    case 0x91:
      pop_to_mark();
      push(make(Kind::kOpaque));
      return true;  // a frozen set
    default:
      return false;
  }
}

bool PickleReader::step(unsigned char opcode) {
  if (step_literal(opcode) || step_container(opcode)) return true;
  switch (opcode) {
    case '.':
      return false;
    case 0x80:
      take(1);
      return true;
    case 0x95:
      take(8);
      return true;
    case 'q':
      remember(take_unsigned(1));
      return true;
    case 'r':
      remember(take_unsigned(4));
      return true;
    case 0x94:
      remember(memo_.size());
      return true;
    case 'h':
      recall(take_unsigned(1));
      return true;
    case 'j':
      recall(take_unsigned(4));
      return true;
    case '0':
      pop();
      return true;
    case '1':
      pop_to_mark();
      return true;
    case '2':
      push(top());
      return true;
    case 'Q':
      persistent(pop());
      return true;
    case 'R':
    case 0x81: {
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
    case 'b':
      pop();
      top();
      return true;  // attributes, such as _metadata: nothing here depends on them
    default:
      refuse_pickle("its pickle holds an instruction that torch.save does not write");
  }
}

}  // namespace camber::weights
