#include <cmath>
#include <stdexcept>

#include <camber/config/options.h>
#include <camber/detection/weights.h>
#include <camber/nn/device.h>
#include <camber/runs/class_balance.h>
#include <camber/runs/detector_memory.h>
#include <camber/runs/detector_run.h>
#include <camber/storage/atomic_file.h>
#include <camber/train/run_session.h>
#include <camber/weights/load.h>
#include <fmt/format.h>

#include "runs/detector_health.h"

namespace camber::runs {
namespace {

constexpr const char* kConfigKey = "config";

double mean_value(nn::BoundedScale scale) {
  torch::NoGradGuard no_grad;
  return scale->value().mean().item<double>();
}

// Numbers alone; counters stay integers.
void set_precision(torch::nn::Module& model, torch::ScalarType type) {
  for (torch::Tensor& parameter : model.parameters()) parameter.set_data(parameter.data().to(type));
  for (torch::Tensor& buffer : model.buffers())
    if (buffer.is_floating_point()) buffer.set_data(buffer.data().to(type));
}

// A run of the detector; execute() is its table of contents.
class Run {
 public:
  explicit Run(const DetectorRunRequest& request)
      : request_(request),
        options_(request.options),
        dataset_(options_.data.root, options_.data.version),
        split_(nuscenes::split_for(dataset_, options_.data.train_split, nuscenes::SplitRole::kTraining)),
        validation_(validation_split()),
        evaluation_(options_.evaluation.config.empty() ? eval::EvaluationConfig{}
                                                       : eval::EvaluationConfig::read(options_.evaluation.config)),
        frames_(frames_to_learn_from()),
        detector_(first_detector()),
        config_(config::to_toml(options_)),
        loop_(*detector_, options_.loop_with_rules(),
              {{kConfigKey, config_}, {detection::kOptionsKey, config::to_toml(options_.detector)}}, request.group),
        session_(loop_, session_request()),
        dense_alone_(detector_->learns_dense_heads_alone()),
        loading_(loader_options()),
        loader_(dataset_, frames_, loading_, options_.seed, static_cast<int>(options_.data.threads),
                loop_.step() * options_.loop.accumulate) {
    detector_->share_batches(request.group, options_.synchronize_batch_norm);
    say_what_is_frozen();
  }

  DetectorRunResult execute();

 private:
  nuscenes::Split validation_split() const {
    nuscenes::Split split =
        nuscenes::split_for(dataset_, options_.data.validation_split, nuscenes::SplitRole::kValidation);
    if (request_.say && !nuscenes::has_splits(dataset_))
      request_.say(split.source + " (" + std::to_string(split.samples.size()) + " samples), " +
                   std::to_string(split_.samples.size()) + " samples train");
    if (options_.evaluation.limit > 0) {
      split.samples = evenly_spaced(split.samples, options_.evaluation.limit);
      split.official = false;
    }
    if (request_.evaluate) {
      std::vector<Condition> conditions;
      for (const sensors::Fault& fault : parse_conditions(options_.evaluation.faults)) conditions.push_back({fault});
      check_conditions({.dataset = dataset_, .split = split}, conditions);
    }
    return split;
  }
  detection::Detector first_detector() const;
  std::vector<nuscenes::Index> chosen_frames() const { return evenly_spaced(split_.samples, options_.data.limit); }
  std::vector<nuscenes::Index> frames_to_learn_from() const;
  sensors::LoaderOptions loader_options() const;
  void say_what_is_frozen() const;
  train::RunRequest session_request() const;
  train::NamedLosses losses_of(std::int64_t batch);
  void after_step(const train::StepReport& report);
  double validate(std::int64_t step);
  FaultReport evaluate(const std::vector<sensors::Fault>& faults);
  std::optional<FaultReport> write_result();
  bool is_first() const { return request_.group->is_first(); }

  const DetectorRunRequest& request_;
  const DetectorTrainingOptions& options_;
  nuscenes::Dataset dataset_;
  nuscenes::Split split_, validation_;
  eval::EvaluationConfig evaluation_;
  std::vector<nuscenes::Index> frames_;
  detection::Detector detector_;
  std::string config_;
  train::TrainingLoop loop_;
  train::RunSession session_;
  bool dense_alone_;
  sensors::LoaderOptions loading_;
  sensors::Loader loader_;
  detection::DetectorBatch tensors_{};                // of the batch at hand
  std::int64_t collated_ = -1;                        // its number
  std::optional<detection::DetectorOutput> watched_;  // of the step at hand, when it is sampled
};

detection::Detector Run::first_detector() const {
  check_training_memory(options_, static_cast<std::int64_t>(dataset_.channels(nuscenes::Modality::kCamera).size()),
                        machine_gigabytes());
  detection::Detector detector(options_.detector, options_.seed);
  if (options_.double_precision) set_precision(*detector, torch::kDouble);
  if (!request_.from.empty() && !request_.resume) {
    const weights::StateFile file(request_.from);
    std::optional<detection::Detector> written_for;
    if (detection::holds_options(file)) written_for.emplace(detection::options_in(file, request_.from.string()));
    const weights::LoadReport report = weights::load(file, *detector,
                                                     {.exclude = request_.exclude,
                                                      .settings = weights::Settings::kOfModel,
                                                      .written_for = written_for ? written_for->get() : nullptr});
    if (request_.say) request_.say("from " + request_.from.string() + ": " + report.text());
  }
  detector->to(nn::device_from(request_.device));
  return detector;
}

std::vector<nuscenes::Index> Run::frames_to_learn_from() const {
  if (!options_.data.class_balance) return chosen_frames();
  ClassBalance balance = balance_classes(dataset_, chosen_frames(), options_.detector.classes, options_.seed);
  if (request_.say) request_.say(balance.text());
  return std::move(balance.samples);
}

sensors::LoaderOptions Run::loader_options() const {
  sensors::LoaderOptions options = options_.loader(request_.group->rank(), request_.group->size());
  options.fault_pool = chosen_frames();  // each once, however often it is drawn
  return options;
}

void Run::say_what_is_frozen() const {
  const train::Freezing& freezing = loop_.freezing();
  if (!request_.say || freezing.parameters().empty()) return;
  std::string held;
  for (const std::string& name : freezing.modules()) held += (held.empty() ? "" : ", ") + name;
  request_.say(fmt::format("frozen: {} of {} parameters; in evaluation mode: {}", freezing.parameters().size(),
                           detector_->parameters().size(), held.empty() ? "nothing" : held));
  if (dense_alone_) request_.say("the dense heads learn alone: no query is decoded, and the loss is theirs");
}

train::RunRequest Run::session_request() const {
  return {.out = request_.out,
          .resume = request_.resume,
          .config = config_,
          .seed = options_.seed,
          .data_fingerprint = [this] { return train::fingerprint_of_tables(dataset_.root() / dataset_.version()); },
          .keep_start = !request_.from.empty(),  // resumed from any moment, a branch needs no --from
          .health = options_.health,
          .say = request_.say,
          .stop_requested = request_.stop_requested};
}

DetectorRunResult Run::execute() {
  DetectorRunResult result{.first_step = session_.first_step()};
  train::TrainingHooks hooks;
  hooks.after_step = [this](const train::StepReport& report) { after_step(report); };
  hooks.evaluate = [this](std::int64_t step) { return validate(step); };
  result.finished = session_.train([this](std::int64_t batch) { return losses_of(batch); }, hooks);
  result.steps = loop_.step();
  result.seconds = session_.seconds();
  for (const train::NamedScale& entry : loop_.projector().scales())
    result.scales.emplace_back(entry.name, mean_value(entry.scale));
  if (result.finished) {
    if (options_.double_precision) set_precision(*detector_, torch::kFloat);
    if (is_first()) train::save_weights(session_.folder()->weights(), loop_.state(), loop_.info());
    if (request_.evaluate) result.evaluation = write_result();
  }
  return result;
}

train::NamedLosses Run::losses_of(std::int64_t batch) {
  const std::int64_t step = batch / options_.loop.accumulate;
  if (batch != collated_) {  // the loop may ask for a batch twice in a row
    const std::optional<sensors::Batch> frames = loader_.next();
    if (!frames || frames->step != batch)
      throw std::logic_error(fmt::format("[train] the loader must give batch {}", batch));
    tensors_ = detection::collate(*frames, options_.detector);
    collated_ = batch;
  }
  const detection::DetectorBatch& tensors = tensors_;
  const bool sampled = session_.sampled(step + 1);
  const detection::DetectorOutput output = detector_->forward(tensors, {.seed = options_.seed,
                                                                        .step = batch,
                                                                        .first_frame = loading_.share_begin,
                                                                        .statistics = sampled,
                                                                        .dense_alone = dense_alone_});
  watched_ = sampled ? std::optional(output) : std::nullopt;
  return detector_->losses(output, tensors).terms;
}

void Run::after_step(const train::StepReport& report) {
  const bool logged =
      report.step % options_.log_every == 0 || report.step == 1 || report.skipped || report.step == options_.loop.steps;
  health::Metrics metrics = logged ? session_.metrics_of(report) : health::Metrics{};
  if (watched_ && !report.skipped) {  // of a step that broke the guard speaks
    torch::NoGradGuard no_grad;
    train::HealthAdapter adapter = session_.health(report.step);
    add_output(adapter, of_all_ranks(*watched_, *request_.group), nn::learns_trust(options_.detector.router.mode));
    session_.record(report.step, std::move(metrics), &adapter.sample());
  } else {
    session_.record(report.step, std::move(metrics));
  }
  if (request_.after_step && is_first()) {
    // Short enough for a terminal of 80 columns with three scales, beside the time that is left.
    std::string note = fmt::format("loss {:.4g}", report.loss);
    for (const train::NamedScale& entry : loop_.projector().scales()) {
      std::string name = entry.name.substr(entry.name.rfind('.') + 1);
      if (name.ends_with("_scale")) name.resize(name.size() - 6);
      note += fmt::format(", {} {:.3g}", name, mean_value(entry.scale));
    }
    request_.after_step(report, note);
  }
}

double Run::validate(std::int64_t step) {
  const FaultReport report = evaluate({});
  session_.record(step,
                  {{"validation/mean_ap", report.clean().mean_ap}, {"validation/nd_score", report.clean().nd_score}});
  // Rank 0 has the boxes of all; which score is the best all of them have to know.
  std::vector<double> score{is_first() ? report.clean().nd_score : 0};
  return request_.group->sum(score)[0];
}

FaultReport Run::evaluate(const std::vector<sensors::Fault>& faults) {
  const bool training = detector_->is_training();
  if (!options_.synchronize_batch_norm) loop_.begin_together();  // running statistics of ranks on their own differ
  FaultReport report = evaluate_detector(detector_,
                                         {.dataset = dataset_,
                                          .split = validation_,
                                          .batch_size = options_.evaluation.batch_size,
                                          .threads = static_cast<int>(options_.data.threads),
                                          .group = request_.group},
                                         faults, evaluation_);
  detector_->train(training);
  return report;
}

std::optional<FaultReport> Run::write_result() {
  std::optional<train::ExponentialAverage::Applied> applied;
  if (loop_.average() != nullptr) applied.emplace(*loop_.average());
  FaultReport report = evaluate(parse_conditions(options_.evaluation.faults));
  if (!is_first()) return std::nullopt;
  const train::RunFolder& folder = *session_.folder();
  storage::write_file(folder.curves(), eval::details_to_json(report.conditions.front().metrics));
  storage::write_file(folder.result(), report.to_json());  // last: from now on the run is finished
  return report;
}

}  // namespace

DetectorRunResult train_detector(const DetectorRunRequest& request) {
  request.options.validate();
  if (request.out.empty()) throw std::invalid_argument("[train] out must name the folder of the run, got nothing");
  if (request.options.data.root.empty()) {
    throw std::invalid_argument(
        "[train] data.root must name a data set's folder, got nothing (camber simulate makes one)");
  }
  if (request.options.data.batch_size < request.group->size())
    throw std::invalid_argument(
        fmt::format("[train] data.batch_size must be at least the number of processes, {}, got {}",
                    request.group->size(), request.options.data.batch_size));
  return Run(request).execute();
}

DetectorTrainingOptions options_of_run(const std::filesystem::path& folder) {
  return config::load_stored<DetectorTrainingOptions>(train::RunFolder::open(folder).config().string());
}

DetectorTrainingOptions options_of_checkpoint(const std::filesystem::path& file) {
  const train::CheckpointInfo info = train::read_checkpoint_info(file);
  const auto found = info.metadata.find(kConfigKey);
  if (found == info.metadata.end()) {
    // An imported detector says what it is, and nothing of a training.
    DetectorTrainingOptions options;
    if (const auto detector = info.metadata.find(detection::kOptionsKey); detector != info.metadata.end())
      options.detector = config::parse_stored<detection::DetectorOptions>(detector->second, file.string());
    return options;
  }
  return config::parse_stored<DetectorTrainingOptions>(found->second, file.string());
}

}  // namespace camber::runs
