#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "apps/camber/commands.h"
#include "apps/console/progress.h"
#include "camber/detection/cmt_weights.h"
#include "camber/detection/weights.h"
#include "camber/nuscenes/kitti.h"
#include "camber/runs/detector_options.h"
#include "camber/storage/atomic_file.h"
#include "camber/storage/file.h"

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

struct KittiArguments {
  std::string folder{}, out{};
  nuscenes::KittiOptions options{};
};

int run_import_kitti(KittiArguments& arguments, const CommonOptions& common) {
  storage::check_new_folder(arguments.out, "import kitti", "--out");
  console::Progress progress({.task = "import kitti", .unit = "frames", .quiet = common.quiet});
  arguments.options.seed = common.seed;
  arguments.options.threads = static_cast<int>(common.threads);
  arguments.options.progress = [&progress](std::int64_t frames) { progress.advance(frames); };
  const nuscenes::KittiImport result = nuscenes::import_kitti(arguments.folder, arguments.out, arguments.options);
  progress.finish();
  const nuscenes::WrittenCounts& counts = result.counts;
  if (common.format == Format::kJson) {
    const nlohmann::ordered_json json = {{"out", arguments.out},    {"version", arguments.options.version},
                                         {"frames", counts.frames}, {"boxes", counts.boxes},
                                         {"splits", result.splits}, {"left_out", result.left_out},
                                         {"bytes", counts.bytes},   {"without_labels", result.without_labels}};
    print_answer(json.dump() + "\n");
    return kSuccess;
  }
  std::string text = std::to_string(counts.frames) + " frames with " + std::to_string(counts.boxes) +
                     " boxes: " + arguments.out + " (" + arguments.options.version + ")\n";
  for (const auto& [name, frames] : result.splits)
    text += "split " + name + ": " + std::to_string(frames) + " frames\n";
  for (const auto& [type, boxes] : result.left_out)
    text += "left out: " + std::to_string(boxes) + " labels of type " + type + "\n";
  if (result.without_labels > 0) text += std::to_string(result.without_labels) + " frames have no label file\n";
  print_answer(text);
  return kSuccess;
}

void register_import_kitti(Command& group) {
  auto arguments = std::make_shared<KittiArguments>();
  Command& command = group.add({.name = "kitti",
                                .summary = "KITTI's object detection data in the nuScenes schema",
                                .example = "camber import kitti kitti/training --out data/kitti"});
  command.option("DIR", arguments->folder, "the folder with velodyne/, calib/, label_2/, image_2/ and image_3/",
                 Presence::kRequired);
  command.option("--out", arguments->out, "folder to write", Presence::kRequired);
  command.option("--version", arguments->options.version, "folder of its tables");
  command.option("--val-share", arguments->options.val_share, "share of the frames in split val, without ImageSets/");
  command.run([arguments](const CommonOptions& common) { return run_import_kitti(*arguments, common); });
}

}  // namespace

void register_import(Command& program) {
  Command& group = program.add({.name = "import",
                                .summary = "weights and data of other programs in this one's formats",
                                .example = "camber import cmt epoch_20.pth --config cmt_r50 --out model.safetensors"});
  register_import_kitti(group);
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
