#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "apps/camber/commands.h"
#include "camber/detection/cmt_weights.h"
#include "camber/storage/atomic_file.h"

namespace camber::app {
namespace {

struct ExportArguments {
  std::string model{}, out{};
  std::optional<detection::SpconvLayout> layout{};
};

int run_export_cmt(const ExportArguments& arguments, const CommonOptions& common) {
  storage::check_writable(arguments.out);
  const auto detector = detection::Detector::load(arguments.model);
  detection::write_cmt_file(*detector, arguments.out, arguments.layout);
  const auto beyond = detection::names_beyond_cmt(*detector);
  if (common.format == Format::kJson) {
    const nlohmann::ordered_json json = {{"model", arguments.model}, {"out", arguments.out}, {"left_out", beyond}};
    print_answer(json.dump() + "\n");
    return kSuccess;
  }
  std::string text = "weights: " + arguments.out + "\n";
  if (!beyond.empty())
    text += std::to_string(beyond.size()) + " tensors of router and bias, which CMT does not have, are left out\n";
  print_answer(text);
  return kSuccess;
}

}  // namespace

void register_export(Command& program) {
  Command& group = program.add({.name = "export",
                                .summary = "a detector's weights for other programs",
                                .example = "camber export cmt model.safetensors --out epoch_20.pth"});
  auto arguments = std::make_shared<ExportArguments>();
  Command& command = group.add({.name = "cmt",
                                .summary = "the weights of a CMT under its own names, for mmdetection3d",
                                .example = "camber export cmt model.safetensors --out epoch_20.pth"});
  command.option("MODEL", arguments->model, "detector of camber import cmt or camber train, FILE.safetensors",
                 Presence::kRequired);
  command.option("--out", arguments->out,
                 "FILE.pth (with the _metadata that mmdetection3d asks for), or FILE.safetensors", Presence::kRequired);
  command.choice(
      "--spconv", {"auto", "1", "2"}, 0,
      [arguments](std::size_t index) {
        if (index > 0) arguments->layout = index == 1 ? detection::SpconvLayout::kOne : detection::SpconvLayout::kTwo;
      },
      "layout of the sparse convolutions; auto: what mmdetection3d takes such a file for (.pth 2, .safetensors 1)");
  command.run([arguments](const CommonOptions& common) { return run_export_cmt(*arguments, common); });
}

}  // namespace camber::app
