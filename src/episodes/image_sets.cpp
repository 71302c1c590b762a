#include "camber/episodes/image_sets.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include <png.h>

#include "camber/episodes/archive.h"
#include "camber/json/values.h"
#include "camber/nuscenes/paths.h"
#include "camber/storage/file.h"

namespace camber::episodes {
namespace {

constexpr std::int64_t kLargestPng = std::int64_t{64} << 20;  // pixels

[[noreturn]] void refuse_images(const std::string& sentence) {
  throw std::runtime_error("[images] " + sentence);
}

sensors::Image decode_png(std::string_view bytes, const std::string& name) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const auto damaged = [&] {
    const std::string reason = png.message;
    png_image_free(&png);
    refuse_images(name + " is a damaged PNG file: " + reason);
  };
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0) damaged();
  sensors::Image image{.width = png.width, .height = png.height};
  if (image.width * image.height > kLargestPng) {
    png_image_free(&png);
    refuse_images(name + " must have at most 64 million pixels");
  }
  png.format = PNG_FORMAT_RGB;
  image.pixels.resize(static_cast<std::size_t>(3 * image.width * image.height));
  const png_color ground{255, 255, 255};  // what is transparent shows paper
  if (png_image_finish_read(&png, &ground, image.pixels.data(), 0, nullptr) == 0) damaged();
  return image;
}

// Weights of one axis: result i is the sum of weights[k] * source[first + k].
struct AxisWeights {
  std::int64_t first = 0;
  std::vector<float> weights{};
};

std::vector<AxisWeights> triangle_taps(std::int64_t source, std::int64_t result) {
  const double step = static_cast<double>(source) / static_cast<double>(result), reach = std::max(1.0, step);
  std::vector<AxisWeights> all(static_cast<std::size_t>(result));
  for (std::int64_t i = 0; i < result; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step;
    const auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - reach)));
    const auto high = std::min(source - 1, static_cast<std::int64_t>(std::floor(centre + reach)));
    AxisWeights& taps = all[static_cast<std::size_t>(i)];
    taps.first = low;
    double sum = 0;
    for (std::int64_t j = low; j <= high; ++j) {
      const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - centre) / reach);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
  }
  return all;
}

// One plane, along x and then along y.
void scale_plane(const std::vector<float>& plane, std::int64_t width, const std::vector<AxisWeights>& columns,
                 const std::vector<AxisWeights>& rows, float* result) {
  const std::size_t height = plane.size() / static_cast<std::size_t>(width);
  std::vector<float> narrow(height * columns.size());
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < columns.size(); ++x) {
      const float* source = plane.data() + y * static_cast<std::size_t>(width) + columns[x].first;
      float sum = 0;
      for (const float weight : columns[x].weights) sum += weight * *source++;
      narrow[y * columns.size() + x] = sum;
    }
  for (const AxisWeights& taps : rows)
    for (std::size_t x = 0; x < columns.size(); ++x) {
      float sum = 0;
      for (std::size_t k = 0; k < taps.weights.size(); ++k)
        sum += taps.weights[k] * narrow[(static_cast<std::size_t>(taps.first) + k) * columns.size() + x];
      *result++ = sum;
    }
}

std::vector<std::string> folders_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char letter : name)
    if (letter == '/')
      parts.emplace_back();
    else
      parts.back() += letter;
  return parts;
}

// Adds one file as an example; the first fixes the shape of all.
void add_image(ExampleSet& set, const ImageSetOptions& options, const std::string& bytes, const std::string& where,
               const std::string& class_name, const std::string& domain_name, const std::string& origin) {
  const sensors::Image image = decode_image(bytes, where);
  const std::int64_t height = options.size > 0 ? options.size : image.height;
  const std::int64_t width = options.size > 0 ? options.size : image.width;
  const std::vector<std::int64_t> shape{options.colour ? 3 : 1, height, width};
  if (set.shape.empty()) set.shape = shape;
  if (set.shape != shape)
    refuse_images(where + " has " + std::to_string(width) + " x " + std::to_string(height) +
                  " pixels, but the images before it " + std::to_string(set.shape[2]) + " x " +
                  std::to_string(set.shape[1]) + ": give a size to scale all to");
  set.add(image_planes(image, options), class_name, domain_name, origin);
}

// Every file of an archive whose last folders are `depth` labels; folders above them are the archive's own.
template <class Label>
ExampleSet read_labelled(const ImageSetOptions& options, std::size_t depth, const char* form, const Label& label) {
  const Archive archive(options.path);
  ExampleSet set{.name = options.path.filename().string()};
  for (std::size_t i = 0; i < archive.names().size(); ++i) {
    auto parts = folders_of(archive.names()[i]);
    if (parts.size() < depth + 1) refuse_images(archive.where(i) + " must lie in a folder of the form " + form);
    const std::vector<std::string> labels(parts.end() - static_cast<std::ptrdiff_t>(depth) - 1, parts.end() - 1);
    const auto [class_name, domain_name] = label(labels);
    add_image(set, options, archive.read(i), archive.where(i), class_name, domain_name, archive.names()[i]);
  }
  if (set.size() == 0) refuse_images(options.path.string() + " must hold images as " + form + ", and holds none");
  return set;
}

// A folder of a class without any image would silently lose the class.
void refuse_empty_folders(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return;
  for (const auto& folder : std::filesystem::recursive_directory_iterator(path))
    if (folder.is_directory() && std::filesystem::is_empty(folder.path()))
      refuse_images(folder.path().string() + " is an empty folder: a class must have images");
}

[[noreturn]] void refuse_line(const std::string& where, std::size_t number, const std::string& line) {
  refuse_images(where + ":" + std::to_string(number) + " must have two fields, got '" + json::shown_text(line) + "'");
}

[[noreturn]] void refuse_answer(const std::string& run, const std::string& question, const std::string& answer) {
  refuse_images(run + " names '" + json::shown_text(question) + "' and '" + json::shown_text(answer) +
                "', which must both exist");
}

std::vector<std::pair<std::string, std::string>> read_pairs(const std::string& text, char separator,
                                                            const std::string& where) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::size_t line_number = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    start = end + 1;
    ++line_number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    const std::size_t cut = line.find(separator);
    if (cut == std::string::npos || line.find(separator, cut + 1) != std::string::npos)
      refuse_line(where, line_number, line);
    pairs.emplace_back(line.substr(0, cut), line.substr(cut + 1));
  }
  return pairs;
}

}  // namespace

sensors::Image decode_image(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with("\x89PNG")) return decode_png(bytes, name);
  if (bytes.starts_with("\xFF\xD8"))
    return sensors::decode_jpeg({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, name);
  refuse_images(name + " must be a PNG or JPEG image, and is " + (bytes.empty() ? "an empty file" : "neither"));
}

std::vector<float> image_planes(const sensors::Image& image, const ImageSetOptions& options) {
  const std::int64_t height = options.size > 0 ? options.size : image.height;
  const std::int64_t width = options.size > 0 ? options.size : image.width;
  const auto columns = triangle_taps(image.width, width), rows = triangle_taps(image.height, height);
  const std::size_t channels = options.colour ? 3 : 1, pixels = image.pixels.size() / 3;
  std::vector<float> planes(channels * static_cast<std::size_t>(width * height)), plane(pixels);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t i = 0; i < pixels; ++i) {
      const std::uint8_t* pixel = image.pixels.data() + 3 * i;
      const float grey = 0.299F * pixel[0] + 0.587F * pixel[1] + 0.114F * pixel[2];
      const float value = (options.colour ? static_cast<float>(pixel[channel]) : grey) / 255;
      plane[i] = options.ink ? 1 - value : value;
    }
    scale_plane(plane, image.width, columns, rows, planes.data() + channel * static_cast<std::size_t>(width * height));
  }
  return planes;
}

ExampleSet read_image_folder(const ImageSetOptions& options) {
  refuse_empty_folders(options.path);
  return read_labelled(options, 1, "<class>/<image>",
                       [](const std::vector<std::string>& labels) { return std::pair(labels[0], std::string("all")); });
}

ExampleSet read_domain_folder(const ImageSetOptions& options) {
  refuse_empty_folders(options.path);
  return read_labelled(options, 2, "<domain>/<class>/<image>",
                       [](const std::vector<std::string>& labels) { return std::pair(labels[1], labels[0]); });
}

ExampleSet read_omniglot(const ImageSetOptions& options) {
  refuse_empty_folders(options.path);
  return read_labelled(options, 2, "<alphabet>/<character>/<image>", [](const std::vector<std::string>& labels) {
    return std::pair(labels[0] + "/" + labels[1], std::string("all"));
  });
}

ExampleSet read_libfewshot(const ImageSetOptions& options, const std::string& split) {
  const auto list = options.path / (split + ".csv");
  auto lines = read_pairs(storage::read_file(list), ',', list.string());
  if (lines.size() < 2) refuse_images(list.string() + " must have a header and at least one line, and has not");
  ExampleSet set{.name = list.filename().string()};
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto& [file, class_name] = lines[i];
    const auto path = options.path / "images" / file;
    if (!nuscenes::stays_inside(file))
      refuse_images(list.string() + " must name images inside of " + (options.path / "images").string() +
                    " in at most 1024 bytes, which line " + std::to_string(i + 1) + " does not");
    storage::check_inside(options.path, path);
    add_image(set, options, storage::read_file(path), path.string(), class_name, "all", file);
  }
  return set;
}

FixedEpisodes read_omniglot_runs(const ImageSetOptions& options) {
  const Archive archive(options.path);
  FixedEpisodes runs;
  runs.set.name = options.path.filename().string();
  std::map<std::string, std::int64_t> position;                                      // of each image in the set
  std::vector<std::pair<std::string, std::pair<std::string, std::string>>> answers;  // run, (question, its class)
  for (std::size_t i = 0; i < archive.names().size(); ++i) {
    const std::string& name = archive.names()[i];
    const auto parts = folders_of(name);
    const std::string run = parts.size() < 2 ? "" : parts[parts.size() - (name.ends_with(".txt") ? 2 : 3)];
    if (name.ends_with("class_labels.txt")) {
      for (const auto& answer : read_pairs(archive.read(i), ' ', archive.where(i))) answers.emplace_back(run, answer);
    } else if (name.ends_with(".png") && parts.size() >= 3) {
      const std::string key = run + "/" + parts[parts.size() - 2] + "/" + parts.back();
      position[key] = runs.set.size();
      add_image(runs.set, options, archive.read(i), archive.where(i), run + "/" + parts.back(), "all", key);
    }
  }
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> by_run;
  for (auto& [run, answer] : answers) by_run[run].push_back(answer);
  if (by_run.empty()) refuse_images(options.path.string() + " must hold runs with class_labels.txt, and holds none");
  for (const auto& [run, pairs] : by_run) {
    Episode episode{.k_shot = 1};
    std::map<std::string, std::int64_t> label;
    for (const auto& [key, index] : position)
      if (key.starts_with(run + "/training/")) {
        label[key] = episode.n_way++;
        episode.examples.push_back(index);
        episode.labels.push_back(label[key]);
      }
    for (const auto& [question, answer] : pairs) {
      if (!position.contains(question) || !label.contains(answer))
        refuse_answer(options.path.string() + ": " + run, question, answer);
      episode.examples.push_back(position[question]);
      episode.labels.push_back(label[answer]);
    }
    runs.episodes.push_back(std::move(episode));
  }
  return runs;
}

}  // namespace camber::episodes
