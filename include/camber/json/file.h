#pragma once
#include <filesystem>
#include <string>

#include "camber/json/record_chunks.h"
#include "camber/json/scanner.h"
#include "camber/json/values.h"

namespace camber::json {

/// Parses text that is one JSON value and hands the value to `read`. Throws ValueError.
template <class Read>
void read_text(simdjson::ondemand::parser& parser, RecordChunk& chunk, Read&& read) {
  simdjson::ondemand::document document;
  simdjson::ondemand::value value;
  auto error = parser.iterate(chunk.padded()).get(document);
  if (!error) error = document.get_value().get(value);
  if (error) throw ValueError(std::string("is damaged: ") + simdjson::error_message(error));
  read(value);
}

/// Parses a small JSON file whole; what is wrong with it is said with `op` and the path in front.
template <class Read>
void read_file(const std::filesystem::path& path, const std::string& op, Read&& read) {
  RecordChunk chunk;
  Scanner scanner(path);
  scanner.append_value(chunk.text);
  scanner.expect_end();
  try {
    simdjson::ondemand::parser parser;
    read_text(parser, chunk, read);
  } catch (const ValueError& error) {
    throw std::runtime_error("[" + op + "] " + path.string() + ": " + error.what());
  }
}

}  // namespace camber::json
