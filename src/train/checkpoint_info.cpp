#include "train/checkpoint_info.h"

#include <stdexcept>

#include <camber/config/numbers.h>
#include <camber/config/sentence.h>
#include <camber/storage/one_line.h>
#include <camber/weights/state_file.h>
#include <nlohmann/json.hpp>

namespace camber::train {
namespace {

constexpr const char* kCountersKey = "counters";
constexpr const char* kNumbersKey = "numbers";
constexpr const char* kChecksumsKey = "checksums";

}  // namespace

storage::Metadata metadata_of(const CheckpointInfo& info) {
  storage::Metadata metadata = info.metadata;
  metadata[kCountersKey] = nlohmann::json(info.counters).dump();
  std::map<std::string, std::string> numbers;
  for (const auto& [name, value] : info.numbers) numbers[name] = config::write_number(value);
  metadata[kNumbersKey] = nlohmann::json(numbers).dump();
  return metadata;
}

CheckpointInfo info_of(const std::filesystem::path& path, const storage::SafetensorsFile& file) {
  CheckpointInfo info{.metadata = file.metadata(), .numerics = weights::numerics_of(file.metadata())};
  try {
    if (const auto found = info.metadata.find(kCountersKey); found != info.metadata.end())
      info.counters = nlohmann::json::parse(found->second).get<Counters>();
    if (const auto found = info.metadata.find(kNumbersKey); found != info.metadata.end())
      for (const auto& [name, text] : nlohmann::json::parse(found->second).get<std::map<std::string, std::string>>())
        info.numbers[name] = config::read_number(text).value();
  } catch (const std::exception& error) {
    throw std::runtime_error(config::sentence(
        "[checkpoint] ", path.string(),
        ": the counters in the metadata must be JSON objects of numbers: ", storage::one_line(error.what())));
  }
  for (const char* key : {kCountersKey, kNumbersKey, kChecksumsKey, weights::kNumericsKey}) info.metadata.erase(key);
  return info;
}

CheckpointInfo read_checkpoint_info(const std::filesystem::path& path) {
  return info_of(path, storage::SafetensorsFile(path));
}

}  // namespace camber::train
