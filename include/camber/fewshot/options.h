#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include <camber/config/field.h>
#include <camber/nn/bounded_scale_options.h>

/// What the few-shot modules can be told; no torch header here.
namespace camber::fewshot {

/// What sharpens the attention over prototypes: the bounded scale multiplies the cosines, or the older form divides
/// them by sqrt(intrinsic_width), which leaves the attention uniform (kept for comparison).
enum class Sharpness { kScale, kFixed };

/// What turns an example into the intrinsic feature f_phy.
enum class EncoderKind { kConv4, kSaResNet12, kMlp, kIdentity };

/// What takes class information out of the domain feature.
///   none                nothing
///   sap                 semantic anchor purification
///   class_mean          less the support's mean of the nearest prototype's class, plus the mean of those means
///   class_mean_oracle   less the mean of its true class in the episode: uses the queries' labels, a bound, no method
///   null_space          projected onto the null space of the support's class means
///   gradient_reversal   nothing here; an adversary that tells the class from the feature trains it backwards
enum class Purifier { kNone, kSap, kClassMean, kClassMeanOracle, kNullSpace, kGradientReversal };

}  // namespace camber::fewshot

namespace camber::config {

template <>
inline constexpr auto enum_names<fewshot::Sharpness> =
    std::array{std::pair{fewshot::Sharpness::kScale, std::string_view("scale")},
               std::pair{fewshot::Sharpness::kFixed, std::string_view("fixed")}};

template <>
inline constexpr auto enum_names<fewshot::EncoderKind> =
    std::array{std::pair{fewshot::EncoderKind::kConv4, std::string_view("conv4")},
               std::pair{fewshot::EncoderKind::kSaResNet12, std::string_view("sa_resnet12")},
               std::pair{fewshot::EncoderKind::kMlp, std::string_view("mlp")},
               std::pair{fewshot::EncoderKind::kIdentity, std::string_view("identity")}};

template <>
inline constexpr auto enum_names<fewshot::Purifier> =
    std::array{std::pair{fewshot::Purifier::kNone, std::string_view("none")},
               std::pair{fewshot::Purifier::kSap, std::string_view("sap")},
               std::pair{fewshot::Purifier::kClassMean, std::string_view("class_mean")},
               std::pair{fewshot::Purifier::kClassMeanOracle, std::string_view("class_mean_oracle")},
               std::pair{fewshot::Purifier::kNullSpace, std::string_view("null_space")},
               std::pair{fewshot::Purifier::kGradientReversal, std::string_view("gradient_reversal")}};

}  // namespace camber::config

namespace camber::fewshot {

/// Options of SemanticAnchorPurification.
struct PurificationOptions {
  std::int64_t domain_width = 64;
  std::int64_t intrinsic_width = 640;
  double dropout = 0.1;
  bool centre_prototypes = false;
  Sharpness sharpness = Sharpness::kScale;
  nn::BoundedScaleOptions scale = nn::scale_preset("logit");

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("dropout", dropout, "share of the projected features dropped in training",
            config::Range{.min = 0, .max = 0.99});
    visitor("centre_prototypes", centre_prototypes, "subtract the prototypes' mean before they are normalised");
    visitor("sharpness", sharpness, "scale: cosines times the bounded scale; fixed: divided by sqrt(width)");
    visitor("scale", scale, "the scale of the cosines");
  }
  /// Throws std::invalid_argument for widths below 1 and a scale of more than one number.
  void validate() const;
  friend bool operator==(const PurificationOptions&, const PurificationOptions&) = default;
};

struct EncoderOptions {
  EncoderKind kind = EncoderKind::kConv4;
  std::int64_t channels = 32;
  std::int64_t width = 64;
  double mix_style = 0.5;
  double drop_block = 0.1;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("kind", kind, "conv4 and sa_resnet12 for images, mlp for tables, identity for features");
    visitor("channels", channels, "conv4: channels of every block; sa_resnet12: of the first stage (64 at full size)",
            config::Range{.min = 1, .max = 4096});
    visitor("width", width, "mlp: width of its layers and of the feature", config::Range{.min = 1, .max = 65536});
    visitor("mix_style", mix_style, "sa_resnet12: chance that a batch mixes its styles in training",
            config::Range{.min = 0, .max = 1});
    visitor("drop_block", drop_block, "sa_resnet12: share of the last two stages' maps dropped in blocks",
            config::Range{.min = 0, .max = 0.5});
  }
  friend bool operator==(const EncoderOptions&, const EncoderOptions&) = default;
};

struct PrototypeHeadOptions {
  bool normalize = true;
  bool scaled = false;
  nn::BoundedScaleOptions scale = nn::scale_preset("logit");

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("normalize", normalize, "features of unit length before prototypes and distances");
    visitor("scaled", scaled, "multiply the distances by a bounded scale; else by 1");
    visitor("scale", scale, "the scale of the distances");
  }
  void validate() const;
  friend bool operator==(const PrototypeHeadOptions&, const PrototypeHeadOptions&) = default;
};

/// A temperature in three phases: `start` until the share `hold` of the training, then on a straight line to `end` at
/// the share `until`, and `end` from there on. (The host model's schedules have three phases; their numbers are not
/// known, these are ours.)
struct TemperatureSchedule {
  double start = 0.2;
  double end = 0.07;
  double hold = 0.2;
  double until = 0.7;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("start", start, "temperature of the first phase", config::Range{.min = 1e-3});
    visitor("end", end, "temperature of the last phase", config::Range{.min = 1e-3});
    visitor("hold", hold, "share of the training after which it begins to move", config::Range{.min = 0, .max = 1});
    visitor("until", until, "share of the training at which it arrives", config::Range{.min = 0, .max = 1});
  }
  /// progress from 0 to 1.
  double at(double progress) const;
  void validate() const;
  friend bool operator==(const TemperatureSchedule&, const TemperatureSchedule&) = default;
};

/// Weights of the host model's losses beside the cross-entropy of the queries, and of the baseline's adversary.
struct LossWeights {
  double domain = 0.2;
  double class_contrast = 0.3;
  double domain_contrast = 0.15;
  double orthogonality = 0.1;
  double adversary = 0.1;
  TemperatureSchedule class_temperature{};
  TemperatureSchedule domain_temperature{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    const config::Range positive{.min = 0};
    visitor("domain", domain, "cross-entropy of the domain classifier", positive);
    visitor("class_contrast", class_contrast, "supervised contrast of the intrinsic features by class", positive);
    visitor("domain_contrast", domain_contrast, "supervised contrast of the domain features by domain", positive);
    visitor("orthogonality", orthogonality, "squared cosine between purified and intrinsic features", positive);
    visitor("adversary", adversary, "gradient_reversal: cross-entropy of the class adversary", positive);
    visitor("class_temperature", class_temperature, "temperature of the class contrast");
    visitor("domain_temperature", domain_temperature, "temperature of the domain contrast");
  }
  friend bool operator==(const LossWeights&, const LossWeights&) = default;
};

/// Options of EpisodeModel; the defaults are the host model at a size for processors.
struct EpisodeModelOptions {
  EncoderOptions encoder{};
  bool domain_branch = true;
  std::int64_t domain_width = 64;
  Purifier purifier = Purifier::kSap;
  PurificationOptions purification{};
  bool feed_classifier = false;
  PrototypeHeadOptions head{};
  LossWeights losses{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("encoder", encoder, "the intrinsic encoder");
    visitor("domain_branch", domain_branch, "the domain encoder and all that hangs on it; else a prototype net alone");
    visitor("domain_width", domain_width, "width of the domain feature", config::Range{.min = 2});
    visitor("purifier", purifier, "what takes class information out of the domain feature");
    visitor("purification", purification, "semantic anchor purification");
    visitor("feed_classifier", feed_classifier,
            "subtract a learned map of the purified feature from what is classified");
    visitor("head", head, "the prototype head");
    visitor("losses", losses, "weights of the losses");
  }
  /// Throws std::invalid_argument where the parts do not fit together.
  void validate() const;
  friend bool operator==(const EpisodeModelOptions&, const EpisodeModelOptions&) = default;
};

}  // namespace camber::fewshot
