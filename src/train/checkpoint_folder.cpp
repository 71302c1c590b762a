#include <algorithm>
#include <iomanip>
#include <stdexcept>
#include <system_error>

#include <camber/config/sentence.h>
#include <camber/train/checkpoint.h>

namespace camber::train {

void CheckpointFolder::save_last(const TrainingState& state, const CheckpointInfo& info) const {
  std::filesystem::create_directories(folder_);
  if (std::filesystem::exists(last())) {
    // A second name for the old file first: at no moment is there neither.
    const std::filesystem::path link = folder_ / "previous.link";
    std::filesystem::remove(link);
    std::error_code refused;
    std::filesystem::create_hard_link(last(), link, refused);
    if (refused) std::filesystem::copy_file(last(), link);  // a file system without hard links
    std::filesystem::rename(link, previous());
    std::filesystem::remove(link);  // rename leaves it when both name the same file already
  }
  save_checkpoint(last(), state, info);
}

void CheckpointFolder::save_best(const TrainingState& state, const CheckpointInfo& info) const {
  save_checkpoint(best(), state, info);
}

void CheckpointFolder::save_numbered(const TrainingState& state, const CheckpointInfo& info, std::int64_t step) const {
  save_checkpoint(folder_ / config::sentence("step_", std::setfill('0'), std::setw(7), step, ".safetensors"), state,
                  info);
}

std::optional<CheckpointFolder::Resumed> CheckpointFolder::resume(const TrainingState& state) const {
  std::vector<std::string> refused;
  for (const std::filesystem::path& path : newest_first()) {
    try {
      CheckpointInfo info = load_checkpoint(path, state);
      if (path != last() && std::filesystem::exists(last())) {
        // Out of the way, or the next save would put it instead of the one that was just used.
        std::filesystem::rename(last(), folder_ / "last.damaged");
      }
      return Resumed{path, std::move(info), std::move(refused)};
    } catch (const std::runtime_error& error) {
      refused.emplace_back(error.what());
    }
  }
  if (refused.empty()) return std::nullopt;
  std::string all = "[checkpoint] no checkpoint of the run can be used";
  for (const std::string& sentence : refused) all += "; " + sentence;
  throw std::runtime_error(all);
}

std::vector<std::filesystem::path> CheckpointFolder::newest_first() const {
  std::vector<std::filesystem::path> paths;
  for (const std::filesystem::path& path : {last(), previous()})
    if (std::filesystem::exists(path)) paths.push_back(path);
  std::vector<std::filesystem::path> numbered;
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, absent)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step_") && name.ends_with(".safetensors")) numbered.push_back(entry.path());
  }
  std::sort(numbered.rbegin(), numbered.rend());
  paths.insert(paths.end(), numbered.begin(), numbered.end());
  return paths;
}

}  // namespace camber::train
