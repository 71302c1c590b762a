#include "camber/nuscenes/table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

namespace camber::nuscenes {

std::string_view TextStore::keep(std::string_view text) {
  constexpr std::size_t kTextBlock = 32768;
  if (text.empty()) return {};
  if (capacity_ - used_ < text.size()) {
    capacity_ = std::max(kTextBlock, text.size());
    used_ = 0;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(capacity_));
  }
  char* const position = blocks_.back().get() + used_;
  std::memcpy(position, text.data(), text.size());
  used_ += text.size();
  return {position, text.size()};
}

void TextStore::absorb(TextStore&& other) {
  if (other.blocks_.empty()) return;
  blocks_.insert(blocks_.end(), std::make_move_iterator(other.blocks_.begin()),
                 std::make_move_iterator(other.blocks_.end()));
  used_ = other.used_;
  capacity_ = other.capacity_;
  other = TextStore();
}

void TokenIndex::reserve(std::size_t rows) {
  slots_.assign(std::bit_ceil(std::max<std::size_t>(16, rows + rows / 2)), Slot{});
  mask_ = slots_.size() - 1;
}

// Eight bytes at a time, multiplied and folded: tokens are short, and their bytes are already random.
std::uint64_t TokenIndex::hash_of(std::string_view token) {
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  std::uint64_t hash = token.size() * kMultiplier;
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 29;
  };
  std::size_t i = 0;
  for (; i + 8 <= token.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, token.data() + i, 8);
    mix(word);
  }
  std::uint64_t tail = 0;
  if (i < token.size()) std::memcpy(&tail, token.data() + i, token.size() - i);
  mix(tail);
  hash *= kMultiplier;
  return hash ^ (hash >> 32);
}

}  // namespace camber::nuscenes
