#include "camber/json/scanner.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "camber/storage/file.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace camber::json {
namespace {

constexpr std::size_t kBlock = 64;
constexpr std::size_t kLargestBuffer = std::size_t{1} << 18;

// As large as the file where that is small: a data set has thirteen tables, most of them of a few rows.
std::size_t buffer_for(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0 || status.st_size < 0) return kLargestBuffer;
  return std::clamp<std::size_t>(static_cast<std::size_t>(status.st_size), kBlock, kLargestBuffer);
}

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

std::string shown_character(int c) {
  return std::string(1, c < ' ' || c > '~' ? '?' : static_cast<char>(c));
}

// One bit a character of a block of 64.
struct BlockMasks {
  std::uint64_t quote = 0, backslash = 0, open = 0, close = 0;
};

#if defined(__SSE2__)
BlockMasks masks_of(const char* block) {
  BlockMasks masks;
  for (std::ptrdiff_t part = 0; part < 4; ++part) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * part));
    const auto equal = [part](const __m128i& among, char c) {
      const int bits = _mm_movemask_epi8(_mm_cmpeq_epi8(among, _mm_set1_epi8(c)));
      return static_cast<std::uint64_t>(static_cast<std::uint32_t>(bits)) << (16 * part);
    };
    // '[' and '{', ']' and '}' differ in one bit only: 0x20.
    const __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    masks.quote |= equal(bytes, '"');
    masks.backslash |= equal(bytes, '\\');
    masks.open |= equal(folded, '{');
    masks.close |= equal(folded, '}');
  }
  return masks;
}
#else
BlockMasks masks_of(const char* block) {
  BlockMasks masks;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    const char c = block[i];
    if (c == '"') masks.quote |= bit;
    if (c == '\\') masks.backslash |= bit;
    if (c == '{' || c == '[') masks.open |= bit;
    if (c == '}' || c == ']') masks.close |= bit;
  }
  return masks;
}
#endif

// Bit i becomes the exclusive or of bits 0..i: it turns quotes into the spans between them.
std::uint64_t prefix_xor(std::uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

// Whether a character inside a string is its closing quote; `escaped` goes from one to the next.
bool ends_string(char c, bool& escaped) {
  const bool quote = c == '"' && !escaped;
  escaped = c == '\\' && !escaped;
  return quote;
}

// Where brackets close: fed with the characters of one nested value from its first bracket on.
class BracketBalance {
 public:
  /// Returns how many of the characters belong to the value; all of them when it goes on.
  std::size_t feed(const char* text, std::size_t size) {
    std::size_t done = 0;
    while (size - done >= kBlock) {
      const BlockMasks masks = masks_of(text + done);
      if (escaped_ || masks.backslash != 0) {
        const std::size_t taken = feed_characters(text + done, kBlock);
        done += taken;
        if (closed_) return done;
        continue;
      }
      const std::uint64_t inside = prefix_xor(masks.quote) ^ (in_string_ ? ~std::uint64_t{0} : 0);
      const std::uint64_t open = masks.open & ~inside, close = masks.close & ~inside;
      if (depth_ <= std::popcount(close)) {
        const std::size_t taken = feed_characters(text + done, kBlock);
        done += taken;
        if (closed_) return done;
        continue;
      }
      depth_ += std::popcount(open) - std::popcount(close);
      in_string_ = (inside >> 63) != 0;
      done += kBlock;
    }
    return done + feed_characters(text + done, size - done);
  }
  bool closed() const { return closed_; }

 private:
  std::size_t feed_characters(const char* text, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      const char c = text[i];
      if (in_string_) {
        in_string_ = !ends_string(c, escaped_);
      } else if (c == '"') {
        in_string_ = true;
      } else if (c == '{' || c == '[') {
        ++depth_;
      } else if (c == '}' || c == ']') {
        if (--depth_ <= 0) {
          closed_ = true;
          return i + 1;
        }
      }
    }
    return size;
  }

  std::int64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false, closed_ = false;
};

}  // namespace

Scanner::Scanner(std::filesystem::path path)
    : path_(std::move(path)),
      file_(storage::open_regular_file(path_)),
      capacity_(buffer_for(file_)),
      buffer_(std::make_unique_for_overwrite<char[]>(capacity_)) {}

Scanner::~Scanner() {
  ::close(file_);
}

void Scanner::refuse(std::string_view what) const {
  throw std::runtime_error("[read_json] " + path_.string() + ", byte " + std::to_string(position()) + ": " +
                           std::string(what));
}

bool Scanner::refill() {
  consumed_ += filled_;
  cursor_ = filled_ = 0;
  for (;;) {
    const ssize_t count = ::read(file_, buffer_.get(), capacity_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(std::string("cannot be read: ") + std::strerror(errno));
    filled_ = static_cast<std::size_t>(count);
    return count > 0;
  }
}

int Scanner::peek() {
  for (;;) {
    while (cursor_ < filled_ && is_space(buffer_[cursor_])) ++cursor_;
    if (cursor_ < filled_) return static_cast<unsigned char>(buffer_[cursor_]);
    if (!refill()) return -1;
  }
}

bool Scanner::take(char wanted) {
  if (peek() != static_cast<unsigned char>(wanted)) return false;
  ++cursor_;
  return true;
}

void Scanner::expect(char wanted, std::string_view meaning) {
  if (take(wanted)) return;
  const int found = peek();
  std::string sentence = "must go on with " + std::string(meaning) + ", ";
  if (found < 0)
    sentence += "but ends here";
  else
    sentence += "got '" + shown_character(found) + "'";
  refuse(sentence);
}

void Scanner::expect_end() {
  const int found = peek();
  if (found >= 0) refuse("must end here, got '" + shown_character(found) + "'");
}

void Scanner::append_taken(std::string& text, std::size_t count) {
  if (text.size() + count > kLargestValue) refuse("a single value must be smaller than 256 MB");
  text.append(buffer_.get() + cursor_, count);
  cursor_ += count;
}

void Scanner::append_value(std::string& text) {
  switch (peek()) {
    case -1:
      refuse("must go on with a value, but ends here");
    case '{':
    case '[':
      return append_nested(text);
    case '"':
      return append_string(text);
    default:
      return append_scalar(text);
  }
}

void Scanner::append_nested(std::string& text) {
  BracketBalance balance;
  while (!balance.closed()) {
    if (cursor_ == filled_ && !refill()) refuse("ends in the middle of a value");
    append_taken(text, balance.feed(buffer_.get() + cursor_, filled_ - cursor_));
  }
}

void Scanner::append_string(std::string& text) {
  bool escaped = false, closed = false;
  std::size_t count = 1;  // the opening quote
  while (!closed) {
    if (cursor_ + count >= filled_) {
      append_taken(text, filled_ - cursor_);
      count = 0;
      if (!refill()) refuse("ends in the middle of a string");
    }
    closed = ends_string(buffer_[cursor_ + count++], escaped);
  }
  append_taken(text, count);
}

void Scanner::append_scalar(std::string& text) {
  constexpr std::string_view kEnds = ",:{}[]\" \n\t\r";
  const std::size_t before = text.size();
  for (;;) {
    std::size_t count = 0;
    while (cursor_ + count < filled_ && kEnds.find(buffer_[cursor_ + count]) == std::string_view::npos) ++count;
    append_taken(text, count);
    if (cursor_ < filled_ || !refill()) break;
  }
  if (text.size() == before) refuse("must go on with a value, got '" + shown_character(buffer_[cursor_]) + "'");
}

}  // namespace camber::json
