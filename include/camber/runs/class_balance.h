#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <camber/nuscenes/dataset.h>

namespace camber::runs {

/// Frames drawn so that all classes are met equally often.
struct ClassBalance {
  struct Class {
    std::string name{};
    std::int64_t frames = 0;  ///< that show it
    std::int64_t drawn = 0;   ///< for its sake
  };
  std::vector<nuscenes::Index> samples{};  ///< class by class, with repetitions
  std::vector<Class> classes{};

  /// One sentence for people.
  std::string text() const;
};

/// Class-balanced grouping and sampling (CBGS): with n_c frames that show an object of class c (with a LiDAR or radar
/// point) and D the sum of n_c over the C classes that occur, every class draws floor(D / C) of its frames, each draw
/// from all of them. Draws come from the stream "data.class_balance" of the class's name: the same seed and frames give
/// the same list, so that a run can be resumed.
///
///   const ClassBalance balance = balance_classes(dataset, split.samples, options.classes, seed);
///
/// Throws std::invalid_argument when no frame shows any of the classes.
ClassBalance balance_classes(const nuscenes::Dataset& dataset, const std::vector<nuscenes::Index>& samples,
                             const std::vector<std::string>& classes, std::uint64_t seed);

}  // namespace camber::runs
