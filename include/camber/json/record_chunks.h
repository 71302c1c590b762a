#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <simdjson.h>

#include "camber/threads/tasks.h"

namespace camber::json {

/// About a megabyte of records as one JSON array or object.
struct RecordChunk {
  std::string text{};
  std::uint64_t first_record = 0;  // how many records of the file stand before it

  /// The text with the padding that simdjson wants.
  simdjson::padded_string_view padded() {
    text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
    return simdjson::padded_string_view(text.data(), text.size(), text.capacity());
  }
};
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

/// Reads chunks one after the other, parses them on several threads and collects the results in the order of the file,
/// so that the outcome, the error included, does not depend on the number of threads.
///
///   source.next(RecordChunk& chunk) -> bool, called by one thread at a time;
///   parse(simdjson::ondemand::parser&, RecordChunk& chunk) -> Result, called side by side;
///   collect(Result&&), called by one thread at a time, in order.
template <class Source, class Parse, class Collect>
void parse_chunks(Source& source, int threads, Parse parse, Collect collect) {
  using Result = decltype(parse(std::declval<simdjson::ondemand::parser&>(), std::declval<RecordChunk&>()));
  std::mutex reading, collecting;
  std::size_t next_read = 0, next_collected = 0;
  std::map<std::size_t, Result> waiting;
  std::map<std::size_t, std::exception_ptr> errors;

  const auto work = [&] {
    simdjson::ondemand::parser parser;
    RecordChunk chunk;
    for (;;) {
      std::size_t number = 0;
      try {
        {
          const std::lock_guard lock(reading);
          number = next_read++;
          {
            const std::lock_guard collecting_lock(collecting);
            if (!errors.empty()) return;
          }
          chunk.text.clear();
          if (!source.next(chunk)) return;
        }
        Result result = parse(parser, chunk);
        const std::lock_guard lock(collecting);
        waiting.emplace(number, std::move(result));
        for (auto first = waiting.begin(); first != waiting.end() && first->first == next_collected;
             first = waiting.begin(), ++next_collected) {
          collect(std::move(first->second));
          waiting.erase(first);
        }
      } catch (...) {
        const std::lock_guard lock(collecting);
        errors.emplace(number, std::current_exception());
        return;
      }
    }
  };

  {
    std::vector<std::jthread> workers;  // joined also when the system gives no further one
    for (int i = 1; i < threads::resolve_threads(threads); ++i) workers.emplace_back(work);
    work();
  }
  if (!errors.empty()) std::rethrow_exception(errors.begin()->second);
}

}  // namespace camber::json
