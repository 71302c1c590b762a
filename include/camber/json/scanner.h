#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace camber::json {

/// Reads a JSON file block by block and cuts whole values out of it as raw text, so that a file of any size is parsed
/// piece by piece in memory that one piece needs. It balances brackets and knows strings, nothing more: what is inside
/// a value is checked by whoever parses it.
class Scanner {
 public:
  explicit Scanner(std::filesystem::path path);
  ~Scanner();
  Scanner(const Scanner&) = delete;
  Scanner& operator=(const Scanner&) = delete;

  /// The next character that is not white space, not taken; -1 at the end of the file.
  int peek();
  /// Takes the next character that is not white space when it is `wanted`.
  bool take(char wanted);
  /// Takes `wanted` or refuses the file: "must go on with <meaning>".
  void expect(char wanted, std::string_view meaning);
  /// Appends the raw text of the next value.
  void append_value(std::string& text);
  /// Refuses anything but white space up to the end of the file.
  void expect_end();

  std::uint64_t position() const { return consumed_ + cursor_; }
  const std::filesystem::path& path() const { return path_; }
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  bool refill();
  void append_nested(std::string& text);
  void append_string(std::string& text);
  void append_scalar(std::string& text);
  void append_taken(std::string& text, std::size_t count);

  std::filesystem::path path_;
  int file_;
  std::size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  std::size_t cursor_ = 0, filled_ = 0;
  std::uint64_t consumed_ = 0;  // bytes of the file before the buffer
};

/// The longest single value that is accepted: a table's row, or one sample's boxes.
inline constexpr std::size_t kLargestValue = std::size_t{256} << 20;

}  // namespace camber::json
