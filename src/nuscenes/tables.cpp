#include "camber/nuscenes/tables.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "camber/json/file.h"
#include "camber/json/record_chunks.h"
#include "camber/json/scanner.h"
#include "camber/nuscenes/paths.h"
#include "camber/storage/file.h"
#include "nuscenes/table_rows.h"

namespace camber::nuscenes {
namespace {

[[noreturn]] void refuse_row(const std::filesystem::path& path, std::uint64_t row, std::string_view token,
                             std::string_view what) {
  std::string sentence = "[load_tables] " + path.string() + ", row " + std::to_string(row + 1);
  if (!token.empty()) sentence += " (token '" + json::shown_text(token) + "')";
  throw std::runtime_error(sentence + ": " + std::string(what));
}

// A file that is one array, cut into chunks of whole elements.
class ArrayChunks {
 public:
  explicit ArrayChunks(const std::filesystem::path& path) : scanner_(path) {
    scanner_.expect('[', "'[' (a table is a list of rows)");
    done_ = scanner_.take(']');
    if (done_) scanner_.expect_end();
  }

  bool next(json::RecordChunk& chunk) {
    if (done_) return false;
    chunk.first_record = records_;
    chunk.text = "[";
    while (!done_ && chunk.text.size() < json::kChunkBytes) {
      if (chunk.text.size() > 1) chunk.text += ',';
      scanner_.append_value(chunk.text);
      ++records_;
      if (scanner_.take(',')) continue;
      scanner_.expect(']', "',' or ']'");
      scanner_.expect_end();
      done_ = true;
    }
    chunk.text += ']';
    return true;
  }

 private:
  json::Scanner scanner_;
  std::uint64_t records_ = 0;
  bool done_ = false;
};

template <class Row>
RowChunk<Row> parse_rows(simdjson::ondemand::parser& parser, json::RecordChunk& records, const Tables& tables,
                         const std::filesystem::path& path) {
  RowChunk<Row> chunk;
  RowContext<Row> context{tables, chunk};
  std::string_view token;
  try {
    const auto read_one = [&](json::Value element) {
      token = {};
      Row& row = chunk.rows.emplace_back();
      try {
        read_row(element, context, row);
      } catch (const json::ValueError&) {
        token = row.token;
        throw;
      }
    };
    json::read_text(parser, records,
                    [&](json::Value elements) { json::for_each_element(elements, "the table", read_one); });
  } catch (const json::ValueError& error) {
    refuse_row(path, records.first_record + (chunk.rows.empty() ? 0 : chunk.rows.size() - 1), token, error.what());
  }
  return chunk;
}

class TablesLoader {
 public:
  TablesLoader(std::filesystem::path folder, int threads) : folder_(std::move(folder)), threads_(threads) {}

  Tables load() {
    read(tables_.category);
    read(tables_.attribute);
    read(tables_.visibility);
    read(tables_.sensor);
    read(tables_.log);
    read(tables_.calibrated_sensor);
    read(tables_.map);
    auto instance_links = read(tables_.instance);
    auto scene_links = read(tables_.scene);
    resolve(tables_.sample, read(tables_.sample), tables_.sample, "prev", "next", &Sample::previous, &Sample::next);
    check_order(tables_.sample);
    resolve(tables_.scene, std::move(scene_links), tables_.sample, "first_sample_token", "last_sample_token",
            &Scene::first_sample, &Scene::last_sample);
    read(tables_.ego_pose);
    resolve(tables_.sample_data, read(tables_.sample_data), tables_.sample_data, "prev", "next", &SampleData::previous,
            &SampleData::next);
    check_loops(tables_.sample_data);
    resolve(tables_.sample_annotation, read(tables_.sample_annotation), tables_.sample_annotation, "prev", "next",
            &SampleAnnotation::previous, &SampleAnnotation::next);
    resolve(tables_.instance, std::move(instance_links), tables_.sample_annotation, "first_annotation_token",
            "last_annotation_token", &Instance::first_annotation, &Instance::last_annotation);
    list_by_sample(
        tables_.sample_annotation, tables_.annotations_by_sample, tables_.annotation_offsets,
        [](const SampleAnnotation&) { return true; });
    list_by_sample(tables_.sample_data, tables_.key_frames_by_sample, tables_.key_frame_offsets,
                   [](const SampleData& row) { return row.is_key_frame; });
    return std::move(tables_);
  }

 private:
  struct Links {
    std::vector<PendingLinks> tokens{};
    TextStore text{};
  };

  std::filesystem::path path_of(const std::string& table) const { return folder_ / (table + ".json"); }

  template <class Row>
  Links read(Table<Row>& table) {
    const std::filesystem::path path = path_of(table.name());
    storage::check_inside(folder_, path);
    Links links;
    ArrayChunks source(path);
    json::parse_chunks(
        source, threads_,
        [&](simdjson::ondemand::parser& parser, json::RecordChunk& records) {
          return parse_rows<Row>(parser, records, tables_, path);
        },
        [&](RowChunk<Row>&& chunk) { append(table, std::move(chunk), links); });
    if (table.size() > static_cast<std::size_t>(std::numeric_limits<Index>::max()))
      throw std::runtime_error("[load_tables] " + path.string() + " must have fewer than 2147483648 rows");
    const Index twice = table.build_index();
    if (twice != kNone)
      refuse_row(path, static_cast<std::uint64_t>(twice), table[twice].token, "an earlier row has the same token");
    return links;
  }

  template <class Row>
  void append(Table<Row>& table, RowChunk<Row>&& chunk, Links& links) {
    if constexpr (std::is_same_v<Row, SampleAnnotation>) {
      const auto shift = static_cast<std::uint32_t>(tables_.attributes.size());
      for (SampleAnnotation& row : chunk.rows) row.first_attribute += shift;
      tables_.attributes.insert(tables_.attributes.end(), chunk.attributes.begin(), chunk.attributes.end());
    }
    table.rows().insert(table.rows().end(), std::make_move_iterator(chunk.rows.begin()),
                        std::make_move_iterator(chunk.rows.end()));
    links.tokens.insert(links.tokens.end(), chunk.links.begin(), chunk.links.end());
    tables_.text.absorb(std::move(chunk.text));
    links.text.absorb(std::move(chunk.link_text));
  }

  template <class Row, class Target>
  void resolve(Table<Row>& table, Links links, const Table<Target>& target, const char* first_field,
               const char* second_field, Index Row::*first, Index Row::*second) {
    std::vector<Row>& rows = table.rows();
    const auto find = [&target](std::string_view token) { return token.empty() ? kNone : target.find(token); };
    constexpr std::size_t kRowsPerTask = 65536;
    threads::for_each_task((rows.size() + kRowsPerTask - 1) / kRowsPerTask, threads_, [&](std::size_t task) {
      const std::size_t end = std::min(rows.size(), (task + 1) * kRowsPerTask);
      for (std::size_t row = task * kRowsPerTask; row < end; ++row) {
        rows[row].*first = find(links.tokens[row].first);
        rows[row].*second = find(links.tokens[row].second);
      }
    });
    const auto check = [&](std::size_t row, std::string_view token, Index found, const char* field) {
      if (found != kNone || token.empty()) return;
      refuse_row(path_of(table.name()), row, rows[row].token,
                 std::string(field) + " '" + json::shown_text(token) + "' is not in " + target.name() + ".json");
    };
    for (std::size_t row = 0; row < rows.size(); ++row) {
      check(row, links.tokens[row].first, rows[row].*first, first_field);
      check(row, links.tokens[row].second, rows[row].*second, second_field);
    }
  }

  // Samples follow each other in time; then their chains have no loops either.
  void check_order(const Table<Sample>& table) const {
    const auto check = [&](Index row, Index other, bool later, const char* field) {
      if (other == kNone) return;
      const std::int64_t own = table[row].timestamp, found = table[other].timestamp;
      if (later ? own < found : found < own) return;
      refuse_row(path_of(table.name()), static_cast<std::uint64_t>(row), table[row].token,
                 std::string(field) + " must be " + (later ? "a later" : "an earlier") + " sample, got '" +
                     json::shown_text(table[other].token) + "' with the timestamp " + std::to_string(found) + " for " +
                     std::to_string(own));
    };
    for (Index row = 0; row < static_cast<Index>(table.size()); ++row) {
      check(row, table[row].previous, false, "prev");
      check(row, table[row].next, true, "next");
    }
  }

  // Frames of a sensor may repeat their timestamps (a frozen camera's do), so their chains are walked.
  void check_loops(const Table<SampleData>& table) const {
    for (const auto link : {&SampleData::previous, &SampleData::next}) {
      std::vector<Index> walk(table.size(), kNone);  // the first row of the walk that came by
      for (Index start = 0; start < static_cast<Index>(table.size()); ++start) {
        Index row = start;
        for (; row != kNone && walk[static_cast<std::size_t>(row)] == kNone; row = table[row].*link)
          walk[static_cast<std::size_t>(row)] = start;
        if (row != kNone && walk[static_cast<std::size_t>(row)] == start)
          refuse_row(path_of(table.name()), static_cast<std::uint64_t>(row), table[row].token,
                     std::string(link == &SampleData::previous ? "prev" : "next") + " must not lead back in a loop");
      }
    }
  }

  // Lists the chosen rows of a table sample by sample, in the order of the table within a sample.
  template <class Row, class Chosen>
  void list_by_sample(const Table<Row>& table, std::vector<Index>& list, std::vector<std::uint32_t>& offsets,
                      Chosen chosen) {
    offsets.assign(tables_.sample.size() + 1, 0);
    for (const Row& row : table)
      if (chosen(row)) ++offsets[static_cast<std::size_t>(row.sample) + 1];
    for (std::size_t sample = 1; sample < offsets.size(); ++sample) offsets[sample] += offsets[sample - 1];
    list.resize(offsets.back());
    std::vector<std::uint32_t> next(offsets.begin(), offsets.end() - 1);
    for (std::size_t row = 0; row < table.size(); ++row) {
      const Row& entry = table[static_cast<Index>(row)];
      if (chosen(entry)) list[next[static_cast<std::size_t>(entry.sample)]++] = static_cast<Index>(row);
    }
  }

  std::filesystem::path folder_;
  int threads_;
  Tables tables_;
};

std::span<const Index> part_of(const std::vector<Index>& list, const std::vector<std::uint32_t>& offsets,
                               Index sample) {
  const auto position = static_cast<std::size_t>(sample);
  return {list.data() + offsets[position], offsets[position + 1] - offsets[position]};
}

std::string folders_in(const std::filesystem::path& root) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root))
    if (std::filesystem::exists(entry.path() / "sample.json")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "no tables at all" : text;
}

}  // namespace

std::span<const Index> Tables::annotations_of(Index sample_row) const {
  return part_of(annotations_by_sample, annotation_offsets, sample_row);
}

std::span<const Index> Tables::key_frames_of(Index sample_row) const {
  return part_of(key_frames_by_sample, key_frame_offsets, sample_row);
}

std::span<const Index> Tables::attributes_of(const SampleAnnotation& annotation) const {
  return {attributes.data() + annotation.first_attribute, annotation.attribute_count};
}

Tables load_tables(const std::filesystem::path& root, const std::string& version, int threads) {
  if (!std::filesystem::is_directory(root))
    throw std::invalid_argument("[load_tables] root must be a folder, got '" + root.string() + "'");
  if (!stays_inside(version) || !std::filesystem::is_directory(root / version))
    throw std::invalid_argument("[load_tables] version must be a folder of " + root.string() + " (" + folders_in(root) +
                                "), got '" + version + "'");
  return TablesLoader(root / version, threads).load();
}

}  // namespace camber::nuscenes
