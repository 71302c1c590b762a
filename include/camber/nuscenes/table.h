#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace camber::nuscenes {

/// The number of a row in its table; kNone where the tables have an empty token.
using Index = std::int32_t;
inline constexpr Index kNone = -1;

/// Where the tables keep their text: views into it stay valid as long as it lives, also when it is moved or merged.
class TextStore {
 public:
  std::string_view keep(std::string_view text);
  /// Takes over everything that another store keeps.
  void absorb(TextStore&& other);

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t used_ = 0, capacity_ = 0;  // of the last block
};

/// Finds rows by token: open addressing over (part of the hash, row).
class TokenIndex {
 public:
  /// Prepares for `rows` tokens.
  void reserve(std::size_t rows);
  /// Notes the token of the next row. Returns the row that had the same token before, else kNone.
  template <class TokenOf>
  Index insert(std::string_view token, Index row, TokenOf&& token_of) {
    const std::uint64_t hash = hash_of(token);
    std::size_t slot = hash & mask_;
    for (; slots_[slot].row != kNone; slot = (slot + 1) & mask_)
      if (slots_[slot].tag == tag_of(hash) && token_of(slots_[slot].row) == token) return slots_[slot].row;
    slots_[slot] = {tag_of(hash), row};
    return kNone;
  }
  template <class TokenOf>
  Index find(std::string_view token, TokenOf&& token_of) const {
    if (slots_.empty()) return kNone;
    const std::uint64_t hash = hash_of(token);
    for (std::size_t slot = hash & mask_; slots_[slot].row != kNone; slot = (slot + 1) & mask_)
      if (slots_[slot].tag == tag_of(hash) && token_of(slots_[slot].row) == token) return slots_[slot].row;
    return kNone;
  }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    Index row = kNone;
  };
  static std::uint64_t hash_of(std::string_view token);
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
};

/// The rows of one table in the order of its file, found by number or by token. A row is a struct with a `token`.
///
///   const Sample& sample = tables.sample[tables.sample.find(token)];
template <class Row>
class Table {
 public:
  explicit Table(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  const Row& operator[](Index row) const { return rows_[static_cast<std::size_t>(row)]; }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }
  /// The row with this token, or kNone.
  Index find(std::string_view token) const {
    return index_.find(
        token, [this](Index row) { return rows_[static_cast<std::size_t>(row)].token; });
  }

  /// For whoever fills the table: its rows, and the index over their tokens, built once they are complete. Returns the
  /// first row whose token an earlier row has too, else kNone.
  std::vector<Row>& rows() { return rows_; }
  Index build_index() {
    index_.reserve(rows_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row)
      if (index_.insert(rows_[row].token, static_cast<Index>(row),
                        [this](Index other) { return rows_[static_cast<std::size_t>(other)].token; }) != kNone)
        return static_cast<Index>(row);
    return kNone;
  }

 private:
  std::string name_;
  std::vector<Row> rows_;
  TokenIndex index_;
};

}  // namespace camber::nuscenes
