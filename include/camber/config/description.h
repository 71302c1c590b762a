#pragma once
#include <string>
#include <vector>

#include "camber/config/field.h"
#include "camber/config/value.h"

/// An option struct turned into data: every field with its name, value, meaning and what is allowed. Checking and
/// showing options works on this form, without templates; options.h makes it from a struct.
namespace camber::config {

/// A named choice: the fields that it sets, with their values.
struct Preset {
  std::string name{};
  Table values{};
};

struct Description {
  enum class Kind { kBoolean, kInteger, kNumber, kString, kChoice, kTable, kList };

  std::string name{};
  std::string meaning{};
  Kind kind = Kind::kTable;
  Range range{};   ///< what the struct allows
  Range limits{};  ///< what the field's type can hold
  std::vector<std::string> choices{};
  Value value{};                       ///< of anything but a table or a list
  std::vector<Description> fields{};   ///< of a table; of a list: its elements
  std::vector<Description> element{};  ///< of a list: one entry, a new element with its defaults
  std::vector<Preset> presets{};       ///< of a table: what `preset` may name
};

/// The present values as a tree.
Value to_value(const Description& description);

/// Puts the values of every `preset` that a tree names over those that were written before it, and takes the name out.
/// Throws std::invalid_argument for a name that is none.
void apply_presets(Value& tree, const Description& description);

/// Checks a tree against the description and gives every value its field's type: text from the command line is read, a
/// whole number becomes a number where one is asked for. Throws std::invalid_argument for unknown keys, wrong types,
/// values out of range and words that are no choice, with the source, what came, what is allowed and the nearest known
/// name.
void check(Value& tree, const Description& description);

/// "a number of at least 0", "sgd or adamw", "a list of whole numbers from 1 to 9".
std::string allowed(const Description& description);

/// "from 0 to 1", "of at least 0", "of at most 5", or nothing.
std::string readable_range(const Range& range);

/// One line for every option, in the order of the struct; a field of a list of tables appears as `cameras[].width`.
struct OptionRow {
  std::string path{};      ///< "train.learning_rate"
  std::string type{};      ///< "number", "sgd|adamw", "list of tables"
  std::string standard{};  ///< the present value in TOML's notation
  std::string limits{};    ///< "at least 0", or nothing
  std::string meaning{};
};
std::vector<OptionRow> option_rows(const Description& description);

/// A complete TOML file: every option with its value and, as a comment, its meaning and what is allowed.
std::string write_toml(const Description& description);

/// The same as a table in Markdown: option, type, default, allowed, meaning.
std::string write_markdown(const Description& description);

/// An option that has different values.
struct Difference {
  std::string path{};
  std::string first{};  ///< in TOML's notation
  std::string second{};
};
std::vector<Difference> differences(const Description& first, const Description& second);

}  // namespace camber::config
