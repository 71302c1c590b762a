#pragma once
#include <string_view>
#include <vector>

#include "camber/json/values.h"
#include "camber/nuscenes/tables.h"

namespace camber::nuscenes {

/// Two tokens of a row that point into a table which is not read yet: previous and next, or first and last.
struct PendingLinks {
  std::string_view first{}, second{};
};

/// The rows of one chunk, and what they keep beside themselves.
template <class Row>
struct RowChunk {
  std::vector<Row> rows{};
  TextStore text{};
  std::vector<PendingLinks> links{};
  TextStore link_text{};            // needed until the links are resolved
  std::vector<Index> attributes{};  // of annotations
};

/// What a row needs while it is read: the tables before it and the chunk it goes into.
template <class Row>
struct RowContext {
  const Tables& tables;
  RowChunk<Row>& chunk;

  std::string_view keep(json::Value value, std::string_view field) { return chunk.text.keep(json::text(value, field)); }
  std::string_view keep_link(json::Value value, std::string_view field) {
    return chunk.link_text.keep(json::text(value, field));
  }
};

void read_row(json::Value value, RowContext<Category>& context, Category& row);
void read_row(json::Value value, RowContext<Attribute>& context, Attribute& row);
void read_row(json::Value value, RowContext<Visibility>& context, Visibility& row);
void read_row(json::Value value, RowContext<Instance>& context, Instance& row);
void read_row(json::Value value, RowContext<Sensor>& context, Sensor& row);
void read_row(json::Value value, RowContext<CalibratedSensor>& context, CalibratedSensor& row);
void read_row(json::Value value, RowContext<EgoPose>& context, EgoPose& row);
void read_row(json::Value value, RowContext<Log>& context, Log& row);
void read_row(json::Value value, RowContext<Scene>& context, Scene& row);
void read_row(json::Value value, RowContext<Sample>& context, Sample& row);
void read_row(json::Value value, RowContext<SampleData>& context, SampleData& row);
void read_row(json::Value value, RowContext<SampleAnnotation>& context, SampleAnnotation& row);
void read_row(json::Value value, RowContext<Map>& context, Map& row);

}  // namespace camber::nuscenes
