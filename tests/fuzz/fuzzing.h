#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/targets.h"
#include "nuscenes/small_world.h"

/// What the fuzz targets share.
namespace camber::tests {

using Bytes = std::span<const std::uint8_t>;

std::string text_of(Bytes bytes);

/// A file in memory that can be opened by its path.
class MemoryFile {
 public:
  explicit MemoryFile(Bytes bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// In memory where the system has such a folder: a disk would make thousands of small writes slow.
std::filesystem::path fast_folder();

/// Runs an action that may refuse; the refusal must be one sentence with its origin in brackets. Throws
/// std::logic_error otherwise.
void refuse_in_a_sentence(const std::function<void()>& action);

/// Words that are worth inserting into JSON, into TOML, into binary files.
std::vector<std::string> json_words();
std::vector<std::string> toml_words();
std::vector<std::string> binary_words();

/// Several files in one input: "\x1e" PATH "\n" CONTENT, one after the other.
using Files = std::map<std::string, std::string>;
std::string joined_files(const Files& files);
std::vector<std::pair<std::string, std::string>> separated_files(std::string_view text);

/// A folder in memory of sound files, of which each input replaces some.
class ChangedFolder {
 public:
  explicit ChangedFolder(Files sound);
  const std::filesystem::path& path() const { return folder_.path(); }
  /// Writes the files of the input that the folder knows; what the input before changed is sound again.
  void change(Bytes bytes);

 private:
  void write(const std::string& path, const std::string& content) const;

  TemporaryFolder folder_{fast_folder()};
  Files sound_, changed_;
};

/// Tables of a data set, results, evaluation configurations, KITTI's text.
std::vector<FuzzTarget> dataset_targets();
/// Points, JPEG, PNG.
std::vector<FuzzTarget> sensor_targets();
/// Safetensors, features, zip, tar, lists of few-shot examples, tables of letters.
std::vector<FuzzTarget> archive_targets();
/// Records and findings of runs, records and plans of studies, rigs and other configurations.
std::vector<FuzzTarget> run_targets();
/// Whole sub-commands on small data sets, runs and studies.
std::vector<FuzzTarget> command_targets();

}  // namespace camber::tests
