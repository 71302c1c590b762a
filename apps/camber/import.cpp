#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "apps/camber/commands.h"
#include "camber/detection/cmt_weights.h"
#include "camber/detection/weights.h"
#include "camber/runs/detector_options.h"
#include "camber/storage/atomic_file.h"

namespace camber::app {
namespace {

struct ImportArguments {
  std::string file{}, config{}, out{};
  bool partial = false;
  detection::TakenWeights taken = detection::TakenWeights::kAverage;
};

nlohmann::ordered_json to_json(const weights::LoadReport& report, const ImportArguments& arguments) {
  nlohmann::ordered_json mismatched = nlohmann::ordered_json::array();
  for (const auto& [name, file, model] : report.mismatched)
    mismatched.push_back({{"name", name}, {"file", file}, {"model", model}});
  return {{"file", arguments.file},    {"out", arguments.out},      {"loaded", report.loaded.size()},
          {"missing", report.missing}, {"unknown", report.unknown}, {"mismatched", mismatched},
          {"notes", report.notes}};
}

int run_import_cmt(const ImportArguments& arguments, const CommonOptions& common) {
  storage::check_writable(arguments.out);
  detection::Detector detector(runs::detector_of_config(arguments.config), common.seed);
  const auto report = detection::import_cmt(detection::read_cmt_file(arguments.file), *detector, arguments.file,
                                            arguments.taken, arguments.partial);
  detection::save(*detector, arguments.out,
                  {{"imported_from", std::filesystem::path(arguments.file).filename().string()}});
  if (common.format == Format::kJson)
    print_answer(to_json(report, arguments).dump() + "\n");
  else
    print_answer(report.text() + "weights: " + arguments.out + "\n");
  return kSuccess;
}

}  // namespace

void register_import(Command& program) {
  Command& group = program.add({.name = "import",
                                .summary = "weights that other programs trained, as a detector of this one",
                                .example = "camber import cmt epoch_20.pth --config cmt_r50 --out model.safetensors"});
  auto arguments = std::make_shared<ImportArguments>();
  Command& command = group.add({.name = "cmt",
                                .summary = "a checkpoint of CMT, by its own names; nothing in it is run",
                                .example = "camber import cmt epoch_20.pth --config cmt_r50 --out model.safetensors"});
  command.option("FILE", arguments->file, "a file of torch.save (.pth), or FILE.safetensors with the original names",
                 Presence::kRequired);
  command.option("--config", arguments->config,
                 "cmt_r50, cmt_vov, cmt_lidar, cmt_camera, or a TOML file of camber train", Presence::kRequired);
  command.option("--out", arguments->out, "detector to write, FILE.safetensors", Presence::kRequired);
  command.option("--partial", arguments->partial, "take what fits, and list what does not");
  command.choice(
      "--take", {"average", "plain"}, 0,
      [arguments](std::size_t index) {
        arguments->taken = index == 0 ? detection::TakenWeights::kAverage : detection::TakenWeights::kPlain;
      },
      "of a file with both, the running average or the weights beside it");
  command.run([arguments](const CommonOptions& common) { return run_import_cmt(*arguments, common); });
}

}  // namespace camber::app
