#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "camber/episodes/episode.h"
#include "camber/episodes/example_set.h"
#include "camber/sensors/image.h"

/// Images as they lie in folders, zips and tars (archive.h), made into example sets.
///
///   read_image_folder({.path = "birds", .size = 84});                     // birds/<class>/*.jpg
///   read_domain_folder({.path = "pacs84.tar", .size = 32});                 // <domain>/<class>/*.jpg
///   read_omniglot({.path = "images_background_small1.zip", .size = 28});    // <alphabet>/<character>/*.png
///
/// A folder that holds everything else, as archives often have, is skipped. A file that is no image, a damaged one,
/// a class without any and a source without classes are std::runtime_errors that name the file.
namespace camber::episodes {

struct ImageSetOptions {
  std::filesystem::path path{};
  std::int64_t size = 28;  ///< side of the square that images are scaled to; 0: as they are, then all must be alike
  bool colour = true;      ///< three planes; else one of brightness
  bool ink = false;        ///< dark strokes on light ground become 1 on 0
};

/// A PNG or JPEG, by its first bytes.
sensors::Image decode_image(std::string_view bytes, const std::string& name);

/// The image as planes of 0..1, scaled by a triangle as wide as the shrinking asks for (bilinear where it grows).
std::vector<float> image_planes(const sensors::Image& image, const ImageSetOptions& options);

ExampleSet read_image_folder(const ImageSetOptions& options);
ExampleSet read_domain_folder(const ImageSetOptions& options);
ExampleSet read_omniglot(const ImageSetOptions& options);

/// LibFewShot's form: `<path>/<split>.csv` with a header and lines `image_name,class_name`, images in
/// `<path>/images`.
ExampleSet read_libfewshot(const ImageSetOptions& options, const std::string& split);

/// Omniglot's official trials: twenty runs of twenty classes, one example each, twenty questions.
struct FixedEpisodes {
  ExampleSet set{};
  std::vector<Episode> episodes{};
};
FixedEpisodes read_omniglot_runs(const ImageSetOptions& options);

}  // namespace camber::episodes
