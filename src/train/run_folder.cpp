#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <camber/config/sentence.h>
#include <camber/storage/atomic_file.h>
#include <camber/storage/file.h>
#include <camber/train/run_folder.h>
#include <camber/weights/checksums.h>
#include <nlohmann/json.hpp>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include "camber/kernels/isa.h"
#include "camber_commit.h"

namespace camber::train {
namespace {

std::string processor_name() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Environment Environment::of_this_program() {
  return {.version = CAMBER_VERSION,
          .torch_version = TORCH_VERSION,
          .compiler = __VERSION__,
          .processor = processor_name(),
          .instruction_set = kernels::isa_name(kernels::chosen_isa()),
          .numerics = ops::kNumerics,
          .threads = at::get_num_threads(),
          .commit = CAMBER_COMMIT};
}

std::string Environment::to_json() const {
  const nlohmann::ordered_json json = {{"version", version},
                                       {"torch", torch_version},
                                       {"compiler", compiler},
                                       {"processor", processor},
                                       {"instruction_set", instruction_set},
                                       {"numerics", numerics},
                                       {"threads", threads},
                                       {"seed", seed},
                                       {"commit", commit},
                                       {"data_fingerprint", data_fingerprint}};
  return json.dump(2) + "\n";
}

std::string fingerprint_of_tables(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::string sums;
  for (const std::filesystem::path& file : files) {
    const storage::MappedFile mapped(file);
    sums += config::sentence(file.filename().string(), " ", weights::checksum(mapped.bytes()), "\n");
  }
  return config::sentence(std::hex, weights::checksum(std::as_bytes(std::span(sums))));
}

RunFolder RunFolder::create(const std::filesystem::path& path, const std::string& config,
                            const Environment& environment,
                            const std::function<void(const CheckpointFolder&)>& first_checkpoint) {
  RunFolder folder(path);
  if (std::filesystem::exists(folder.config())) {
    throw std::invalid_argument("[train] the run's folder must be new, got " + path.string() +
                                ", which holds a run (continue it with --resume)");
  }
  std::filesystem::create_directories(path / "checkpoints");
  storage::write_file(folder.environment(), environment.to_json());
  if (first_checkpoint) first_checkpoint(folder.checkpoints());
  storage::write_file(folder.config(), config);  // last: from now on the folder is a run
  return folder;
}

RunFolder RunFolder::open(const std::filesystem::path& path) {
  RunFolder folder(path);
  if (!std::filesystem::exists(folder.config())) {
    throw std::invalid_argument("[train] the run's folder must hold a config.toml, got " + path.string() +
                                " without one");
  }
  return folder;
}

std::string RunFolder::other_environment() const {
  if (!std::filesystem::exists(environment())) return {};
  const auto began = nlohmann::json::parse(storage::read_file(environment()), nullptr, false);
  const Environment now = Environment::of_this_program();
  const auto threads = began.find("threads"), instructions = began.find("instruction_set");
  if (!began.is_object() || threads == began.end() || !threads->is_number_integer() || instructions == began.end() ||
      !instructions->is_string())
    return config::sentence(environment().string(), " does not say with how many threads the run began");
  if (*threads == now.threads && *instructions == now.instruction_set) return {};
  return config::sentence("this run began with ", threads->dump(), *threads == 1 ? " thread on " : " threads on ",
                          instructions->dump(), " and goes on with ", now.threads, " on \"", now.instruction_set,
                          "\": its last bits may differ from those of one run");
}

bool RunFolder::can_resume(const std::filesystem::path& path, const std::string& config) {
  const RunFolder folder(path);
  const CheckpointFolder checkpoints = folder.checkpoints();
  return std::filesystem::exists(folder.config()) &&
         (std::filesystem::exists(checkpoints.last()) || std::filesystem::exists(checkpoints.previous())) &&
         storage::read_file(folder.config()) == config;
}

std::filesystem::path weights_of_run(const std::filesystem::path& folder) {
  const RunFolder run = RunFolder::open(folder);
  const CheckpointFolder checkpoints = run.checkpoints();
  for (const std::filesystem::path& file : {run.weights(), checkpoints.last(), checkpoints.previous()})
    if (std::filesystem::exists(file)) return file;
  throw std::invalid_argument("[train] " + folder.string() + " must hold weights, got a run without a checkpoint");
}

}  // namespace camber::train
