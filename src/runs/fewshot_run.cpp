#include "camber/runs/fewshot_run.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include <torch/utils.h>

#include "camber/config/options.h"
#include "camber/nn/device.h"
#include "camber/runs/fewshot_evaluation.h"
#include "camber/runs/fewshot_source.h"
#include "camber/storage/atomic_file.h"
#include "camber/train/run_session.h"

namespace camber::runs {
namespace {

train::TrainingLoopOptions loop_options(const TrainingOptions& training) {
  const std::int64_t steps = training.episodes / training.episodes_per_step;
  return {.steps = steps,
          .accumulate = training.episodes_per_step,
          .steps_per_epoch = steps,
          .optimizer = training.optimizer,
          .groups = {.rules = {}, .scale_lr_mult = training.scale_lr_mult},
          .schedule = training.schedule,
          .average = {.enabled = training.average_decay > 0, .decay = training.average_decay},
          .checkpoint_every = training.checkpoint_every};
}

const std::string kStatistics = "sap/";  // before the names of the purification's statistics

std::uint64_t seed_of(const FewshotOptions& options) {
  return static_cast<std::uint64_t>(options.seed);
}

std::string name_of(nn::Constraint constraint) {
  for (const auto& [value, name] : config::enum_names<nn::Constraint>)
    if (value == constraint) return std::string(name);
  return "";
}

std::vector<std::pair<std::string, double>> read_statistics(const fewshot::PurificationStatistics& seen) {
  const auto read = [](const torch::Tensor& value) { return value.item<double>(); };
  return {{"gate", read(seen.gate)},
          {"attention_entropy", read(seen.attention_entropy)},
          {"attention_max", read(seen.attention_max)},
          {"semantic_norm", read(seen.semantic_norm)},
          {"purification_ratio", read(seen.purification_ratio)},
          {"orthogonal_norm", read(seen.orthogonal_norm)},
          {"logit_scale", read(seen.logit_scale)},
          {"logit_scale_clipped", read(seen.logit_scale_clipped)},
          {"prototype_cosine", read(seen.prototype_cosine)}};
}

torch::Device moved(fewshot::EpisodeModel& model, const std::string& name) {
  const torch::Device device = nn::device_from(name);
  model->to(device);
  return device;
}

/// One run from its data to its result.
class Run {
 public:
  Run(const FewshotOptions& options, const FewshotRun& run)
      : options_(options),
        run_(run),
        data_(load_episode_data(options.source)),
        sampler_(data_.train, options.episode),
        model_(options.model, data_.train.shape, data_.train.num_classes(), data_.train.num_domains(),
               seed_of(options)),
        device_(moved(model_, run.device)),
        loop_(*model_, loop_options(options.training), {{"config", run.config}}),
        episode_stream_(seed_of(options), "fewshot.episodes"),
        noise_stream_(seed_of(options), "fewshot.noise") {}

  FewshotResult execute() {
    if (run_.say)
      for (const std::string& note : data_.notes) run_.say(note);
    // Every test that will be asked for must be possible before an hour of training, not after it.
    for (const TestSetting& setting : options_.tests) test_sampler(setting);
    session_.emplace(loop_, session_request());
    train();
    FewshotResult result = describe();
    if (complete_) test(result);
    if (session_->folder()) storage::write_file(session_->folder()->result(), to_json(result));
    return result;
  }

 private:
  episodes::EpisodeSampler test_sampler(const TestSetting& setting) const {
    return episodes::EpisodeSampler(data_.test, {.n_way = setting.n_way,
                                                 .k_shot = setting.k_shot,
                                                 .queries = setting.queries,
                                                 .cross_domain = options_.episode.cross_domain,
                                                 .support_domains = data_.support_domains,
                                                 .query_domains = data_.query_domains});
  }

  train::RunRequest session_request() const {
    return {.out = run_.out,
            .resume = run_.resume,
            .config = run_.config,
            .seed = seed_of(options_),
            .data_fingerprint = [this] { return std::to_string(data_.train.fingerprint()); },
            .health = {.interval = options_.training.log_every},
            .say = run_.say,
            .stop_requested = run_.stop_requested};
  }

  train::NamedLosses losses_of(std::int64_t batch) {
    // Dropout and its like draw from torch's generator: the same numbers for the same episode, whoever drew before.
    torch::manual_seed(noise_stream_.at(static_cast<std::uint64_t>(batch)).key());
    const auto episode = sampler_.sample(episode_stream_.at(static_cast<std::uint64_t>(batch)));
    const auto labels = labels_of(data_.train, episode, device_);
    const auto features = model_->encode(examples_.index_select(0, torch::tensor(episode.examples)).to(device_));
    const auto pass = model_->forward(features, labels);
    last_statistics_ = pass.statistics;
    const double progress = static_cast<double>(batch) / static_cast<double>(options_.training.episodes);
    auto terms = model_->losses(features, pass, labels, progress);
    if (const auto pull = loop_.projector().penalty(); pull.defined()) terms.emplace_back("scale_pull", pull);
    return terms;
  }

  void after_step(const train::StepReport& report) {
    losses_.push_back(report.loss);
    if (run_.progress) run_.progress(report.step, loop_.options().steps, "loss " + short_number(report.loss));
    if (!session_->sampled(report.step)) return;
    train::HealthAdapter adapter = session_->health(report.step);
    health::HealthSample& sample = adapter.sample();
    for (const health::ScaleSample& scale : sample.scales) curves_[scale.name].emplace_back(report.step, scale.value);
    health::Metrics metrics = session_->metrics_of(report);
    if (last_statistics_ && !report.skipped) {
      for (const auto& [name, value] : read_statistics(*last_statistics_))
        metrics.push_back({kStatistics + name, value});
      sample.prototypes = {.mean_cosine = last_statistics_->prototype_cosine.item<double>(),
                           .gate = last_statistics_->gate.item<double>(),
                           .purification_ratio = last_statistics_->purification_ratio.item<double>()};
    }
    session_->record(report.step, std::move(metrics), report.skipped ? nullptr : &sample);  // of one the guard speaks
  }

  void train() {
    examples_ = examples_of(data_.train);
    for (const train::NamedScale& scale : loop_.projector().scales()) {
      auto& curve = curves_[scale.name];
      curve.emplace_back(0, scale.scale->options.init);
      for (const health::Record& record : session_->past())
        for (const health::Metric& metric : record.metrics)
          if (metric.name == "scale/" + scale.name + "/value") curve.emplace_back(record.step, metric.value);
    }
    model_->train();
    train::TrainingHooks hooks;
    hooks.after_step = [this](const train::StepReport& report) { after_step(report); };
    complete_ = session_->train([this](std::int64_t batch) { return losses_of(batch); }, hooks);
  }

  FewshotResult describe() {
    FewshotResult result{.data = data_.train.name,
                         .setting = data_.setting,
                         .notes = data_.notes,
                         .seed = seed_of(options_),
                         .train_classes = data_.train.num_classes(),
                         .test_classes = data_.test.num_classes(),
                         .train_examples = data_.train.size(),
                         .test_examples = data_.test.size()};
    for (const auto& parameter : model_->parameters()) result.parameters += parameter.numel();
    result.episodes = loop_.step() * options_.training.episodes_per_step;
    result.seconds = session_->seconds();
    const std::int64_t run_now = (loop_.step() - session_->first_step()) * options_.training.episodes_per_step;
    if (result.seconds > 0) result.episodes_per_second = static_cast<double>(run_now) / result.seconds;
    const std::size_t tail = std::max<std::size_t>(1, losses_.size() / 10);
    if (!losses_.empty())
      result.last_loss = std::accumulate(losses_.end() - static_cast<std::ptrdiff_t>(tail), losses_.end(), 0.0) /
                         static_cast<double>(tail);
    train::HealthAdapter adapter(loop_.step());
    adapter.add_scales(loop_.projector());
    for (std::size_t i = 0; i < adapter.sample().scales.size(); ++i) {
      const health::ScaleSample& scale = adapter.sample().scales[i];
      result.scales.push_back({.name = scale.name,
                               .constraint = name_of(loop_.projector().scales()[i].scale->constraint()),
                               .start = scale.init,
                               .value = scale.value,
                               .raw = scale.raw,
                               .min = scale.min,
                               .max = scale.max,
                               .share_at_bound = scale.num_steps > 0 ? scale.steps_at_bound / scale.num_steps : 0,
                               .curve = curves_[scale.name]});
    }
    result.statistics = last_statistics();
    result.oracle = options_.model.domain_branch && options_.model.purifier == fewshot::Purifier::kClassMeanOracle;
    result.findings = session_->findings();
    result.complete = complete_;
    return result;
  }

  // Of the last training episode; a run that was stopped after its last step has them in its records alone.
  std::vector<std::pair<std::string, double>> last_statistics() const {
    if (last_statistics_) return read_statistics(*last_statistics_);
    std::vector<std::pair<std::string, double>> statistics;
    if (session_->past().empty() || session_->past().back().step != loop_.step()) return statistics;
    for (const health::Metric& metric : session_->past().back().metrics)
      if (metric.name.starts_with(kStatistics))
        statistics.emplace_back(metric.name.substr(kStatistics.size()), metric.value);
    return statistics;
  }

  void test(FewshotResult& result) {
    std::unique_ptr<train::ExponentialAverage::Applied> averaged;
    if (loop_.average() != nullptr) averaged = std::make_unique<train::ExponentialAverage::Applied>(*loop_.average());
    const auto features = encode_set(model_, data_.test);
    const random::Stream stream(static_cast<std::uint64_t>(options_.test_seed), "fewshot.test");
    for (const TestSetting& setting : options_.tests) {
      const auto sampler = test_sampler(setting);
      const auto own = stream.at(std::to_string(setting.n_way) + "-way " + std::to_string(setting.k_shot) + "-shot");
      std::vector<episodes::Episode> episodes;
      episodes.reserve(static_cast<std::size_t>(setting.episodes));
      for (std::int64_t i = 0; i < setting.episodes; ++i)
        episodes.push_back(sampler.sample(own.at(static_cast<std::uint64_t>(i))));
      add_setting(result, std::to_string(setting.n_way) + "-way " + std::to_string(setting.k_shot) + "-shot",
                  data_.test, features, episodes);
    }
    if (data_.runs)
      add_setting(result, "official runs", data_.runs->set, encode_set(model_, data_.runs->set), data_.runs->episodes);
    if (options_.leak_episodes > 0 && options_.model.domain_branch && data_.test.num_domains() > 1)
      result.leaks = measure_leaks(model_, data_.test, options_.tests.front().n_way, options_.leak_episodes,
                                   static_cast<std::uint64_t>(options_.test_seed));
  }

  void add_setting(FewshotResult& result, const std::string& name, const episodes::ExampleSet& set,
                   const fewshot::EpisodeFeatures& features, std::span<const episodes::Episode> episodes) {
    const auto accuracies = episode_accuracies(model_, set, features, episodes);
    const episodes::Episode& first = episodes.front();
    result.settings.push_back({.name = name,
                               .n_way = first.n_way,
                               .k_shot = first.k_shot,
                               .accuracy = eval::mean_interval(accuracies),
                               .chance = 1 / static_cast<double>(first.n_way)});
  }

  static std::string short_number(double value) {
    char text[24];
    std::snprintf(text, sizeof text, "%.3f", value);
    return text;
  }

  const FewshotOptions& options_;
  const FewshotRun& run_;
  EpisodeData data_;
  episodes::EpisodeSampler sampler_;
  fewshot::EpisodeModel model_;
  torch::Device device_;
  train::TrainingLoop loop_;
  random::Stream episode_stream_, noise_stream_;
  torch::Tensor examples_;
  std::optional<train::RunSession> session_;
  std::optional<fewshot::PurificationStatistics> last_statistics_;
  std::map<std::string, std::vector<std::pair<std::int64_t, double>>> curves_;
  std::vector<double> losses_;
  bool complete_ = true;
};

}  // namespace

FewshotResult run_fewshot(const FewshotOptions& options, const FewshotRun& run) {
  options.validate();
  if (run.threads > 0) torch::set_num_threads(static_cast<int>(run.threads));
  return Run(options, run).execute();
}

std::string parameter_groups(const FewshotOptions& options) {
  const auto data = load_episode_data(options.source);
  fewshot::EpisodeModel model(options.model, data.train.shape, data.train.num_classes(), data.train.num_domains(), 0);
  const train::OptimizerGroups groups(*model, {.rules = {}, .scale_lr_mult = options.training.scale_lr_mult});
  std::string text = groups.table();
  for (const train::ParameterGroup& group : groups.groups())
    if (group.name == "scales")
      for (const std::string& name : group.parameter_names) text += "  without decay: " + name + "\n";
  return text;
}

}  // namespace camber::runs
