#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <camber/config/field.h>
#include <camber/episodes/episode.h>
#include <camber/fewshot/options.h>
#include <camber/simulation/glyphs.h>
#include <camber/train/optimizer_options.h>
#include <camber/train/schedule.h>

/// Options of a few-shot run; no torch header here.
namespace camber::runs {

enum class SourceKind { kGlyphs, kOmniglot, kDomainFolders, kImageFolders, kLibFewShot, kLetter, kFeatures };

}  // namespace camber::runs

template <>
inline constexpr auto camber::config::enum_names<camber::runs::SourceKind> =
    std::array{std::pair{camber::runs::SourceKind::kGlyphs, std::string_view("glyphs")},
               std::pair{camber::runs::SourceKind::kOmniglot, std::string_view("omniglot")},
               std::pair{camber::runs::SourceKind::kDomainFolders, std::string_view("domain_folders")},
               std::pair{camber::runs::SourceKind::kImageFolders, std::string_view("image_folders")},
               std::pair{camber::runs::SourceKind::kLibFewShot, std::string_view("libfewshot")},
               std::pair{camber::runs::SourceKind::kLetter, std::string_view("letter")},
               std::pair{camber::runs::SourceKind::kFeatures, std::string_view("features")}};

namespace camber::runs {

/// Where examples come from and how they are divided. Classes of training and test are disjoint unless target_domain
/// is given: then the classes are the same, a domain is held out, and the run is called what it is, domain
/// generalisation.
struct SourceOptions {
  SourceKind kind = SourceKind::kGlyphs;
  std::string path{};
  std::string test_path{};
  std::string runs_path{};
  bool drop_shared_classes = false;
  std::int64_t size = 28;
  bool colour = false;
  bool ink = false;
  bool rotations = false;
  std::int64_t test_classes = 20;
  std::int64_t validation_classes = 0;
  bool test_on_validation = false;
  std::string target_domain{};
  double held_out_share = 0.3;
  std::int64_t split_seed = 0;
  simulation::GlyphOptions glyphs{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("kind", kind, "what the data are");
    visitor("path", path, "folder, zip, tar or file; looked for here and below CAMBER_DATA");
    visitor("test_path", test_path, "data of the test; empty: classes or a domain of `path` are held out");
    visitor("runs_path", runs_path, "omniglot: the official 20-way runs");
    visitor("drop_shared_classes", drop_shared_classes,
            "leave classes out of the test that training has; else an error");
    visitor("size", size, "side that images are scaled to; 0: as they are", config::Range{.min = 0, .max = 1024});
    visitor("colour", colour, "three planes; else brightness");
    visitor("ink", ink, "dark strokes on light ground become 1 on 0");
    visitor("rotations", rotations, "training classes turned by 90, 180 and 270 degrees as classes of their own");
    visitor("test_classes", test_classes, "classes held out for the test where there is no test_path",
            config::Range{.min = 0});
    visitor("validation_classes", validation_classes, "training classes held out to choose settings by",
            config::Range{.min = 0});
    visitor("test_on_validation", test_on_validation, "test on the validation classes: to choose settings");
    visitor("target_domain", target_domain, "hold this domain out and keep all classes: domain generalisation");
    visitor("held_out_share", held_out_share, "target_domain: share of the sources' images kept from training",
            config::Range{.min = 0.01, .max = 0.9});
    visitor("split_seed", split_seed, "seed of all divisions, apart from the run's", config::Range{.min = 0});
    visitor("glyphs", glyphs, "the glyph generator");
  }
  /// Throws std::invalid_argument with one sentence.
  void validate() const;
  friend bool operator==(const SourceOptions&, const SourceOptions&) = default;
};

/// A way to be tested.
struct TestSetting {
  std::int64_t n_way = 5;
  std::int64_t k_shot = 1;
  std::int64_t queries = 5;
  std::int64_t episodes = 600;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("n_way", n_way, "classes of an episode", config::Range{.min = 2});
    visitor("k_shot", k_shot, "examples of each class", config::Range{.min = 1});
    visitor("queries", queries, "questions of each class", config::Range{.min = 1});
    visitor("episodes", episodes, "episodes of the test", config::Range{.min = 1});
  }
  friend bool operator==(const TestSetting&, const TestSetting&) = default;
};

struct TrainingOptions {
  std::int64_t episodes = 300;
  std::int64_t episodes_per_step = 1;
  train::OptimizerOptions optimizer{.kind = train::OptimizerKind::kSgd,
                                    .learning_rate = 0.05,
                                    .weight_decay = 5e-4,
                                    .momentum = 0.9,
                                    .nesterov = true,
                                    .clip_norm = 1};
  train::ScheduleOptions schedule{.kind = train::ScheduleKind::kMilestones,
                                  .warmup_share = 0.1,
                                  .warmup_factor = 0.1,
                                  .milestones = {0.6666, 0.8333}};
  double scale_lr_mult = 1;
  double average_decay = 0;
  std::int64_t checkpoint_every = 200;
  std::int64_t log_every = 10;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("episodes", episodes, "training episodes", config::Range{.min = 1});
    visitor("episodes_per_step", episodes_per_step, "episodes whose gradients make one step", config::Range{.min = 1});
    visitor("optimizer", optimizer, "the optimiser");
    visitor("schedule", schedule, "the learning rate over the run");
    visitor("scale_lr_mult", scale_lr_mult, "times the learning rate of the bounded scales", config::Range{.min = 0});
    visitor("average_decay", average_decay, "test a running average of the weights with this decay; 0: the weights",
            config::Range{.min = 0, .max = 0.99999});
    visitor("checkpoint_every", checkpoint_every, "steps between checkpoints", config::Range{.min = 1});
    visitor("log_every", log_every, "steps between records and samples of health", config::Range{.min = 1});
  }
  friend bool operator==(const TrainingOptions&, const TrainingOptions&) = default;
};

/// Everything about a run; the defaults are the glyphs, with SAP.
struct FewshotOptions {
  SourceOptions source{};
  episodes::EpisodeOptions episode{.n_way = 5, .k_shot = 3, .queries = 5, .cross_domain = true};
  fewshot::EpisodeModelOptions model{};
  TrainingOptions training{};
  std::vector<TestSetting> tests{{.n_way = 5, .k_shot = 1}, {.n_way = 5, .k_shot = 5}};
  std::int64_t seed = 0;
  std::int64_t test_seed = 0;
  std::int64_t leak_episodes = 40;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("source", source, "the data");
    visitor("episode", episode, "the form of a training episode");
    visitor("model", model, "the model");
    visitor("training", training, "the training");
    visitor("tests", tests, "ways to be tested");
    visitor("seed", seed, "seed of first values, training episodes and dropout", config::Range{.min = 0});
    visitor("test_seed", test_seed, "seed of the test's episodes, apart from the run's: the same for all runs",
            config::Range{.min = 0});
    visitor("leak_episodes", leak_episodes, "episodes of each half that the probes see; 0: no leak measures",
            config::Range{.min = 0});
  }
  void validate() const;
  friend bool operator==(const FewshotOptions&, const FewshotOptions&) = default;
};

}  // namespace camber::runs
