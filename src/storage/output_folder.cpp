#include "camber/storage/output_folder.h"

#include <stdexcept>
#include <system_error>
#include <utility>

#include "camber/storage/file.h"

namespace camber::storage {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnfinished = ".unfinished";

// What is there beside the mark.
bool has_others(const fs::path& path) {
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().filename() != kUnfinished) return true;
  return false;
}

// The mark last: killed on the way, the rest is still known for what it is.
void remove_all_inside(const fs::path& path) {
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().filename() != kUnfinished) fs::remove_all(entry.path());
}

}  // namespace

bool can_be_output(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return true;
  return fs::is_directory(path, error) && (fs::is_empty(path, error) || fs::is_regular_file(path / kUnfinished, error));
}

OutputFolder::OutputFolder(fs::path path, std::string_view op, std::string_view option) : path_(std::move(path)) {
  check_new_folder(path_, op, option);
  made_ = !fs::exists(path_);
  std::error_code failed;
  fs::create_directories(path_, failed);
  if (failed)
    throw std::runtime_error("[" + std::string(op) + "] " + std::string(option) + " cannot be made: " + path_.string() +
                             ": " + failed.message());
  try {
    lock_.emplace(path_ / kUnfinished);
  } catch (...) {
    if (made_) fs::remove(path_, failed);  // nothing is in it, or it is another's by now
    throw;
  }
  if (!has_others(path_)) return;
  if (lock_->was_signed()) {
    remove_all_inside(path_);
    return;
  }
  // Another writer ended between the look and the lock: the folder is its own.
  fs::remove(path_ / kUnfinished);
  lock_.reset();
  check_new_folder(path_, op, option);
}

OutputFolder::~OutputFolder() {
  if (!lock_) return;
  try {
    remove_all_inside(path_);
    fs::remove(path_ / kUnfinished);
    if (made_) fs::remove(path_);
  } catch (const std::exception&) {
    // The mark stays, and says what the rest is.
  }
}

void OutputFolder::finish() {
  fs::remove(path_ / kUnfinished);
  lock_.reset();
}

}  // namespace camber::storage
