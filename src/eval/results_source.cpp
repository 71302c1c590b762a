#include "eval/results_source.h"

#include <utility>

#include "camber/json/file.h"

namespace camber::eval {
namespace {

// The name that a key spells, "\u0061" for "a" among the ways; the key itself where it is no JSON, which is found
// later.
std::string name_of(const std::string& key) {
  if (key.find('\\') == std::string::npos) return key.substr(1, key.size() - 2);
  std::string name = key;
  json::RecordChunk chunk{.text = "[" + key + "]"};
  try {
    simdjson::ondemand::parser parser;
    json::read_text(parser, chunk, [&](json::Value list) {
      json::for_each_element(list, "a name", [&](json::Value value) { name = json::text(value, "a name"); });
    });
  } catch (const json::ValueError&) {
    return key;
  }
  return name;
}

}  // namespace

ResultsSource::ResultsSource(const std::filesystem::path& path, bool bare_allowed)
    : scanner_(path), bare_allowed_(bare_allowed) {}

// Moves on to the next sample's key, or to the end of the file.
bool ResultsSource::enter_samples() {
  for (;;) {
    if (state_ == State::kEnd) return false;
    if (state_ == State::kSamples) return true;
    const bool first = state_ == State::kStart;
    if (first) {
      scanner_.expect('{', "'{'");
      state_ = State::kTopLevel;
    }
    if (!first && scanner_.take(',')) {
      if (scanner_.peek() == '}') scanner_.refuse("must go on with a field's name, got '}'");
    } else if (!first || scanner_.peek() == '}') {
      scanner_.expect('}', "',' or '}'");
      scanner_.expect_end();
      state_ = State::kEnd;
      return false;
    }
    std::string key;
    if (scanner_.peek() != '"') scanner_.refuse("must go on with a field's name");
    scanner_.append_value(key);
    scanner_.expect(':', "':'");
    const std::string name = name_of(key);
    if (name == "results") {
      if (seen_results_) scanner_.refuse("has the field 'results' twice");
      seen_results_ = true;
      scanner_.expect('{', "'{' (results maps a sample's token to its boxes)");
      if (scanner_.take('}')) continue;
      state_ = State::kSamples;
    } else if (first && bare_allowed_ && name != "meta") {
      seen_results_ = bare_ = true;
      pending_key_ = std::move(key);
      state_ = State::kSamples;
    } else {
      read_other(key, name);
    }
  }
}

// A file that begins with neither 'meta' nor 'results' maps samples to boxes alone.
void ResultsSource::refuse_field(const std::string& key) {
  const std::string name = name_of(key);
  if (name == "results" || name == "meta")
    scanner_.refuse("has the field '" + name + "' among samples: 'results' or 'meta' must be the file's first field");
}

void ResultsSource::read_other(const std::string& key, const std::string& name) {
  std::string text;
  scanner_.append_value(text);
  check(key, text);
  if (name == "meta") meta_ = std::move(text);
}

void ResultsSource::check(const std::string& key, std::string text) {
  json::RecordChunk chunk{.text = "[" + key + "," + std::move(text) + "]"};
  try {
    simdjson::ondemand::parser parser;
    json::read_text(parser, chunk, [](json::Value value) { json::skip(value); });
  } catch (const json::ValueError& error) {
    scanner_.refuse("field " + json::shown_text(key) + ": " + error.what());
  }
}

bool ResultsSource::next(json::RecordChunk& chunk) {
  if (!enter_samples()) return false;
  chunk.first_record = samples_;
  chunk.text = "{";
  while (state_ == State::kSamples && chunk.text.size() < json::kChunkBytes) {
    if (chunk.text.size() > 1) chunk.text += ',';
    if (!pending_key_.empty()) {
      chunk.text += std::exchange(pending_key_, {});
    } else {
      if (scanner_.peek() != '"') scanner_.refuse("must go on with a sample's token");
      std::string key;
      scanner_.append_value(key);
      if (bare_) refuse_field(key);
      chunk.text += key;
      scanner_.expect(':', "':'");
    }
    chunk.text += ':';
    scanner_.append_value(chunk.text);
    ++samples_;
    if (scanner_.take(',')) continue;
    scanner_.expect('}', "',' or '}'");
    if (bare_) scanner_.expect_end();
    state_ = bare_ ? State::kEnd : State::kTopLevel;
  }
  chunk.text += '}';
  return true;
}

}  // namespace camber::eval
