#pragma once
#include <filesystem>
#include <string>

#include "camber/json/record_chunks.h"
#include "camber/json/scanner.h"

namespace camber::eval {

/// The samples of a results file as chunks of whole members: {"token": [boxes], ...}. Other members of the file are
/// checked on the way; `meta` is kept.
class ResultsSource {
 public:
  /// `bare_allowed`: the file may be the mapping of samples alone.
  ResultsSource(const std::filesystem::path& path, bool bare_allowed);

  bool next(json::RecordChunk& chunk);

  bool has_results() const { return seen_results_; }
  const std::string& meta() const { return meta_; }

 private:
  enum class State { kStart, kTopLevel, kSamples, kEnd };

  bool enter_samples();
  void refuse_field(const std::string& key);
  void read_other(const std::string& key, const std::string& name);
  void check(const std::string& key, std::string text);

  json::Scanner scanner_;
  bool bare_allowed_;
  bool bare_ = false;
  State state_ = State::kStart;
  bool seen_results_ = false;
  std::uint64_t samples_ = 0;
  std::string pending_key_;  // the first sample's key of a bare file, already taken
  std::string meta_;
};

}  // namespace camber::eval
