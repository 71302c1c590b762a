#include <chrono>

#include <camber/config/sentence.h>
#include <camber/storage/atomic_file.h>
#include <camber/train/run_session.h>
#include <camber/weights/state_file.h>

namespace camber::train {

RunSession::RunSession(TrainingLoop& loop, RunRequest request)
    : loop_(loop), request_(std::move(request)), monitor_(request_.health) {
  if (!request_.out.empty()) open_together();
  loop_.begin_together();
  first_step_ = loop_.step();
  reaches_ = loop_.reaches();  // after resuming: they begin where the run began
}

// What goes wrong on the first rank all of them say.
void RunSession::open_together() {
  distributed::ProcessGroup& group = *loop_.group();
  if (!group.is_first()) {
    const std::string failure = group.from_first("");
    if (!failure.empty()) throw std::runtime_error(failure);
    if (request_.resume) loop_.resume(RunFolder::open(request_.out).checkpoints());
    return;
  }
  try {
    open_folder();
  } catch (const std::exception& error) {
    group.from_first(error.what());
    throw;
  }
  group.from_first("");
}

void RunSession::open_folder() {
  lock_.emplace(RunFolder::lock_of(request_.resume ? RunFolder::open(request_.out).path() : request_.out));
  for (const std::filesystem::path& folder : {request_.out, RunFolder::checkpoints_of(request_.out)})
    storage::remove_leftovers(folder);
  if (request_.resume) {
    folder_ = RunFolder::open(request_.out);
  } else {
    Environment environment = Environment::of_this_program();
    environment.seed = request_.seed;
    if (request_.data_fingerprint) environment.data_fingerprint = request_.data_fingerprint();
    folder_ =
        RunFolder::create(request_.out, request_.config, environment, [this](const CheckpointFolder& checkpoints) {
          if (request_.keep_start) checkpoints.save_last(loop_.state(), loop_.info());
        });
  }
  checkpoints_ = folder_->checkpoints();
  health::SinkOptions sink;
  if (request_.resume) {
    resume();
    sink.resume_step = loop_.step();
  }
  sink_.emplace(folder_->path(), sink);
}

void RunSession::resume() {
  if (const auto resumed = loop_.resume(*checkpoints_)) {
    for (const std::string& refused : resumed->refused) say(refused);
    say(config::sentence("continues from ", resumed->path.string(), " at step ", loop_.step()));
    const std::string other = weights::numerics_sentence("this checkpoint", resumed->info.numerics);
    for (const std::string& sentence : {other, folder_->other_environment()})
      if (!sentence.empty()) say(sentence);
  }
  // The rules stand where they stood at the checkpoint, not where the killed run left them.
  past_ = health::read_records(folder_->metrics_jsonl());
  std::erase_if(past_, [this](const health::Record& record) { return record.step > loop_.step(); });
  monitor_.replay(past_);
}

bool RunSession::train(const TrainingLoop::LossFunction& losses_of, TrainingHooks hooks) {
  hooks.after_step = [this, after_step = std::move(hooks.after_step)](const StepReport& report) {
    if (report.finding) tell({*report.finding});
    after_step(report);
  };
  hooks.before_checkpoint = [this](std::int64_t) {
    if (sink_) {
      sink_->flush();
    }
  };
  hooks.stop_requested = request_.stop_requested;
  const auto begin = std::chrono::steady_clock::now();
  const bool finished = loop_.run(losses_of, checkpoints_ ? &*checkpoints_ : nullptr, hooks);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (finished) tell(monitor_.conclude());
  return finished;
}

HealthAdapter RunSession::health(std::int64_t step) {
  HealthAdapter adapter(step);
  adapter.add_scales(loop_.projector(), reaches_);
  return adapter;
}

health::Metrics RunSession::metrics_of(const StepReport& report) const {
  health::Metrics metrics{{"loss/total", report.loss}};
  for (const auto& [name, value] : report.losses) metrics.push_back({"loss/" + name, value});
  metrics.push_back({"learning_rate", report.learning_rate});
  metrics.push_back({"gradient_norm", report.gradient_norm});
  metrics.push_back({"seconds_a_step", report.seconds});
  if (!loop_.group()->is_alone()) metrics.push_back({"seconds_waiting_a_step", report.seconds_waiting});
  metrics.push_back({"guard/skipped_steps", static_cast<double>(loop_.guard().skipped())});
  return metrics;
}

void RunSession::record(std::int64_t step, health::Metrics metrics, const health::HealthSample* sample) {
  if (sample != nullptr) {
    const health::HealthReport report = monitor_.observe(*sample);
    metrics.insert(metrics.end(), report.metrics.begin(), report.metrics.end());
    tell(report.findings);
  }
  if (sink_ && !metrics.empty()) sink_->write(step, metrics);
}

void RunSession::say(const std::string& sentence) const {
  if (request_.say && loop_.group()->is_first()) request_.say(sentence);
}

void RunSession::tell(const health::Findings& findings) {
  for (const health::Finding& finding : findings) {
    if (sink_) sink_->say(finding);
    say(finding.sentence);
    findings_.push_back(finding.sentence);
  }
}

}  // namespace camber::train
