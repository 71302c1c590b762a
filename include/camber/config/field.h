#pragma once
#include <array>
#include <limits>
#include <string_view>
#include <utility>

/// What an option struct needs to describe itself, and nothing more: option headers include this file alone.
///
/// Every option struct is an aggregate that lists its fields once:
///
///   enum class Optimizer { kSgd, kAdamW };
///   template <> inline constexpr auto camber::config::enum_names<Optimizer> = std::array{
///       std::pair{Optimizer::kSgd, std::string_view("sgd")}, std::pair{Optimizer::kAdamW, std::string_view("adamw")}};
///
///   struct TrainOptions {
///     double learning_rate = 2e-3;
///     Optimizer optimizer = Optimizer::kAdamW;
///     BoundedScaleOptions scale{};
///
///     template <class Visitor>
///     void visit(Visitor& visitor) {
///       visitor("learning_rate", learning_rate, "peak learning rate", config::Range{.min = 0});
///       visitor("optimizer", optimizer, "which optimiser");
///       visitor("scale", scale, "the bounded scale");  // a struct with a visit of its own: a table
///     }
///     void validate() const;  // optional: the rules between fields
///   };
///
/// A struct may have named choices of some of its fields, with a static member function:
///
///   static std::vector<std::pair<std::string, BoundedScaleOptions>> presets();
///
/// Then `preset = "aggressive"` in its table, or `--scale.preset=aggressive`, sets the fields in which presets differ
/// from the defaults. A field that is written beside the preset, or later (the command line comes after the file),
/// wins.
///
/// From that list come TOML reading and writing, `--a.b=value`, help text, the documentation and the checkpoint header.
/// Fields may be bool, integers, double, std::string, std::filesystem::path (a file, named relative to the file in
/// which it stands: file_at), enums, structs with visit, and std::vector of any of these.
namespace camber::config {

/// The names of an enum's values, in the order in which help shows them. Specialise it for every enum that is an
/// option.
template <class Enum>
inline constexpr auto enum_names = nullptr;

/// Inclusive bounds of a number.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

}  // namespace camber::config
