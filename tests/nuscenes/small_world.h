#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

/// A small data set in the nuScenes v1.0 schema, written by hand for tests: two scenes of three samples, a LiDAR with
/// one sweep between key frames, two cameras of different size, three objects that move.
namespace camber::tests {

using TableTexts = std::map<std::string, std::string>;  // table name -> JSON

inline constexpr int kSmallScenes = 2, kSmallSamples = 3;

/// The thirteen tables.
TableTexts small_tables(int scenes = kSmallScenes, int samples = kSmallSamples);

/// A folder that is removed with the object.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& inside = std::filesystem::temp_directory_path());
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write_text(const std::filesystem::path& path, const std::string& text);
void write_bytes(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes);

/// Writes the tables to <root>/v1.0-small, and a file for every row of sample_data when `files` is set.
void write_small_world(const std::filesystem::path& root, const TableTexts& tables = small_tables(), bool files = true);
inline const std::string kSmallVersion = "v1.0-small";

/// A JPEG of that size with a smooth image.
std::vector<std::uint8_t> make_jpeg(int width, int height);
/// A LiDAR file of `count` points on a ring of 10 m, ring number 0..31.
std::vector<std::uint8_t> make_lidar(int count);

/// Where the real data lie: CAMBER_DATA, else ../shared/data beside the sources.
std::filesystem::path real_data();

/// The message of what an action throws, "(no error)" when it throws nothing.
template <class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(no error)";
}

}  // namespace camber::tests
