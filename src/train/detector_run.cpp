#include <chrono>
#include <stdexcept>

#include <camber/config/options.h>
#include <camber/detection/weights.h>
#include <camber/health/records.h>
#include <camber/health/sink.h>
#include <camber/storage/atomic_file.h>
#include <camber/storage/folder_lock.h>
#include <camber/train/detector_run.h>
#include <camber/train/health_adapter.h>
#include <camber/weights/load.h>

#include "train/detector_health.h"
#include "train/sentence.h"

namespace camber::train {
namespace {

constexpr const char* kConfigKey = "config";

double mean_value(nn::BoundedScale scale) {
  torch::NoGradGuard no_grad;
  return scale->value().mean().item<double>();
}

// A run of the detector; train_detector() below is its table of contents.
class Run {
 public:
  explicit Run(const DetectorRunRequest& request)
      : request_(request),
        options_(request.options),
        dataset_(options_.data.root, options_.data.version),
        split_(data::find_split(dataset_, options_.data.train_split)),
        validation_(validation_split()),
        evaluation_(options_.evaluation.config.empty() ? eval::EvaluationConfig{}
                                                       : eval::EvaluationConfig::read(options_.evaluation.config)),
        detector_(first_detector()),
        config_(config::to_toml(options_)),
        loop_(*detector_, options_.loop_with_rules(),
              {{kConfigKey, config_}, {detection::kOptionsKey, config::to_toml(options_.detector)}}),
        lock_(RunFolder::lock_of(request.resume ? RunFolder::open(request.out).path() : request.out)),
        folder_(request.resume ? RunFolder::open(request.out) : new_folder()),
        checkpoints_(folder_.checkpoints()),
        monitor_(options_.health) {}

  void resume();
  bool train();
  void finish(DetectorRunResult& result);

  TrainingLoop& loop() { return loop_; }
  double seconds() const { return seconds_; }

 private:
  data::Split validation_split() const {
    data::Split split = data::find_split(dataset_, options_.data.validation_split);
    if (options_.evaluation.limit > 0) {
      split.samples = spread(split.samples, options_.evaluation.limit);
      split.official = false;
    }
    if (request_.evaluate) {
      std::vector<Condition> conditions;
      for (const data::Fault& fault : parse_conditions(options_.evaluation.faults)) {
        conditions.push_back({fault});
      }
      check_conditions({.dataset = dataset_, .split = split}, conditions);
    }
    return split;
  }
  detection::Detector first_detector() const;
  RunFolder new_folder();
  Environment environment() const {
    Environment environment = Environment::of_this_program();
    environment.seed = options_.seed;
    environment.data_fingerprint = fingerprint_of_tables(dataset_.root() / dataset_.version());
    return environment;
  }
  void say(const std::string& line) const {
    if (request_.say) {
      request_.say(line);
    }
  }
  NamedLosses losses_of(std::int64_t batch);
  void after_step(const StepReport& report);
  health::Figures figures_of(const StepReport& report) const;
  void observe_health(std::int64_t step, health::Figures& figures);
  FaultReport evaluate(const std::vector<data::Fault>& faults);

  const DetectorRunRequest& request_;
  const DetectorTrainingOptions& options_;
  data::Dataset dataset_;
  data::Split split_, validation_;
  eval::EvaluationConfig evaluation_;
  detection::Detector detector_;
  std::string config_;
  TrainingLoop loop_;
  const storage::FolderLock lock_;
  RunFolder folder_;
  CheckpointFolder checkpoints_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<health::MetricsSink> sink_;
  health::HealthMonitor monitor_;
  std::vector<ReachableRange> reaches_;
  std::optional<detection::DetectorOutput> watched_;  // of the step at hand, when it is sampled
  std::string last_sentence_;
  double seconds_ = 0;
};

detection::Detector Run::first_detector() const {
  detection::Detector detector(options_.detector, options_.seed);
  if (!request_.from.empty() && !request_.resume) {
    const weights::StateFile file(request_.from);
    std::optional<detection::Detector> written_for;
    if (detection::holds_options(file)) {
      written_for.emplace(detection::options_in(file, request_.from.string()));
    }
    const weights::LoadReport report = weights::load(file, *detector,
                                                     {.exclude = request_.exclude,
                                                      .settings = weights::Settings::kOfModel,
                                                      .written_for = written_for ? written_for->get() : nullptr});
    say("from " + request_.from.string() + ": " + report.text());
  }
  return detector;
}

// A branch keeps what it started from, before its folder counts as a run: resumed from any moment, it needs no --from.
RunFolder Run::new_folder() {
  return RunFolder::create(request_.out, config_, environment(), [this](const CheckpointFolder& checkpoints) {
    if (!request_.from.empty()) {
      checkpoints.save_last(loop_.state(), loop_.info());
    }
  });
}

void Run::resume() {
  std::optional<std::int64_t> step;
  if (request_.resume) {
    if (const auto resumed = loop_.resume(checkpoints_)) {
      for (const std::string& sentence : resumed->refused) {
        say(sentence);
      }
      say(sentence("continues from ", resumed->path.string(), " at step ", loop_.step()));
      if (const std::string other = weights::numerics_sentence("this checkpoint", resumed->info.numerics);
          !other.empty()) {
        say(other);
      }
    }
    step = loop_.step();
  }
  reaches_ = loop_.reaches();
  if (step) {
    // The rules stand where they stood at the checkpoint, not where the killed run left them.
    std::vector<health::Record> records = health::read_records(folder_.metrics_jsonl());
    std::erase_if(records, [&step](const health::Record& record) { return record.step > *step; });
    monitor_.replay(records);
  }
  sink_ = std::make_unique<health::MetricsSink>(folder_.path(), health::SinkOptions{.resume_step = step});
  loader_ = std::make_unique<data::Loader>(dataset_, spread(split_.samples, options_.data.limit), options_.loader(),
                                           options_.seed, static_cast<int>(options_.data.threads),
                                           loop_.step() * options_.loop.accumulate);
}

bool Run::train() {
  TrainingHooks hooks;
  hooks.after_step = [this](const StepReport& report) { after_step(report); };
  hooks.before_checkpoint = [this](std::int64_t) { sink_->flush(); };
  hooks.stop_requested = request_.stop_requested;
  hooks.evaluate = [this](std::int64_t step) {
    const FaultReport report = evaluate({});
    sink_->write(step,
                 {{"validation/mean_ap", report.clean().mean_ap}, {"validation/nd_score", report.clean().nd_score}});
    return report.clean().nd_score;
  };
  const auto begin = std::chrono::steady_clock::now();
  const bool finished = loop_.run([this](std::int64_t batch) { return losses_of(batch); }, &checkpoints_, hooks);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return finished;
}

NamedLosses Run::losses_of(std::int64_t batch) {
  const std::int64_t step = batch / options_.loop.accumulate;
  const std::optional<data::Batch> frames = loader_->next();
  if (!frames || frames->step != batch) {
    throw std::logic_error(sentence("[train] the loader must give batch ", batch));
  }
  const detection::DetectorBatch tensors = detection::collate(*frames, options_.detector);
  const bool sampled = monitor_.due(step + 1);
  const detection::DetectorOutput output =
      detector_->forward(tensors, {.seed = options_.seed, .step = batch, .statistics = sampled});
  watched_ = sampled ? std::optional(output) : std::nullopt;
  return detector_->losses(output, tensors).terms;
}

void Run::after_step(const StepReport& report) {
  if (report.finding) {
    sink_->say(*report.finding);
    say(report.finding->sentence);
  }
  health::Figures figures;
  if (report.step % options_.log_every == 0 || report.step == 1 || report.skipped ||
      report.step == options_.loop.steps) {
    figures = figures_of(report);
  }
  if (watched_ && !report.skipped) {  // of a step that broke the guard speaks
    observe_health(report.step, figures);
  }
  if (!figures.empty()) {
    sink_->write(report.step, figures);
  }
  if (request_.after_step) {
    std::string note = sentence("loss ", std::round(1000 * report.loss) / 1000);
    for (const NamedScale& entry : loop_.projector().scales()) {
      const std::string short_name = entry.name.substr(entry.name.rfind('.') + 1);
      note += sentence(", ", short_name, " ", std::round(1000 * mean_value(entry.scale)) / 1000);
    }
    request_.after_step(report, last_sentence_.empty() ? note : note + "; " + last_sentence_);
  }
}

void Run::observe_health(std::int64_t step, health::Figures& figures) {
  torch::NoGradGuard no_grad;
  HealthAdapter adapter(step);
  adapter.add_scales(loop_.projector(), reaches_);
  add_output(adapter, *watched_, nn::learns_trust(options_.detector.router.mode));
  const health::HealthReport report = monitor_.observe(adapter.sample());
  figures.insert(figures.end(), report.figures.begin(), report.figures.end());
  for (const health::Finding& finding : report.findings) {
    sink_->say(finding);
    say(finding.sentence);
    last_sentence_ = finding.sentence;
  }
}

health::Figures Run::figures_of(const StepReport& report) const {
  health::Figures figures{{"loss/total", report.loss}};
  for (const auto& [name, value] : report.losses) {
    figures.push_back({"loss/" + name, value});
  }
  figures.push_back({"learning_rate", report.learning_rate});
  figures.push_back({"gradient_norm", report.gradient_norm});
  figures.push_back({"seconds_a_step", report.seconds});
  figures.push_back({"guard/skipped_steps", static_cast<double>(loop_.guard().skipped())});
  return figures;
}

FaultReport Run::evaluate(const std::vector<data::Fault>& faults) {
  const bool training = detector_->is_training();
  FaultReport report = evaluate_detector(detector_,
                                         {.dataset = dataset_,
                                          .split = validation_,
                                          .batch_size = options_.evaluation.batch_size,
                                          .threads = static_cast<int>(options_.data.threads)},
                                         faults, evaluation_);
  detector_->train(training);
  return report;
}

void Run::finish(DetectorRunResult& result) {
  for (const health::Finding& finding : monitor_.conclude()) {
    sink_->say(finding);
    say(finding.sentence);
  }
  save_weights(folder_.weights(), loop_.state(), loop_.info());
  if (!request_.evaluate) {
    return;
  }
  std::optional<ExponentialAverage::Applied> applied;
  if (loop_.average() != nullptr) {
    applied.emplace(*loop_.average());
  }
  result.evaluation = evaluate(parse_conditions(options_.evaluation.faults));
  storage::write_file(folder_.curves(), eval::details_to_json(result.evaluation->conditions.front().metrics));
  storage::write_file(folder_.result(), result.evaluation->to_json());  // last: from now on the run is finished
}

}  // namespace

DetectorRunResult train_detector(const DetectorRunRequest& request) {
  request.options.validate();
  if (request.options.data.root.empty()) {
    throw std::invalid_argument(
        "[train] data.root must name a data set's folder, got nothing (camber simulate makes one)");
  }
  Run run(request);
  run.resume();
  DetectorRunResult result{.first_step = run.loop().step()};
  result.finished = run.train();
  result.steps = run.loop().step();
  result.seconds = run.seconds();
  for (const NamedScale& entry : run.loop().projector().scales()) {
    result.scales.emplace_back(entry.name, mean_value(entry.scale));
  }
  if (result.finished) {
    run.finish(result);
  }
  return result;
}

DetectorTrainingOptions options_of_run(const std::filesystem::path& folder) {
  return config::load<DetectorTrainingOptions>({.file = RunFolder::open(folder).config().string()});
}

DetectorTrainingOptions options_of_checkpoint(const std::filesystem::path& file) {
  const CheckpointInfo info = read_checkpoint_info(file);
  const auto found = info.metadata.find(kConfigKey);
  if (found == info.metadata.end()) {
    return {};
  }
  return config::parse<DetectorTrainingOptions>(found->second, file.string());
}

}  // namespace camber::train
