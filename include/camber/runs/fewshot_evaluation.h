#pragma once
#include <span>
#include <vector>

#include <camber/episodes/episode.h>
#include <camber/episodes/example_set.h>
#include <camber/fewshot/episode_model.h>
#include <camber/runs/fewshot_result.h>

namespace camber::runs {

/// The examples of a set as a tensor [N, shape...] that borrows the set's numbers.
torch::Tensor examples_of(const episodes::ExampleSet& set);

/// Features of all examples of a set, in evaluation mode without gradients: encoded once, used by every episode.
fewshot::EpisodeFeatures encode_set(fewshot::EpisodeModel& model, const episodes::ExampleSet& set);

/// The labels of an episode's rows as tensors.
fewshot::EpisodeLabels labels_of(const episodes::ExampleSet& set, const episodes::Episode& episode,
                                 torch::Device device = torch::kCPU);

/// The share of right answers in each episode. Throws std::runtime_error when a logit is NaN.
std::vector<double> episode_accuracies(fewshot::EpisodeModel& model, const episodes::ExampleSet& set,
                                       const fewshot::EpisodeFeatures& features,
                                       std::span<const episodes::Episode> episodes);

/// Leak measures of the domain feature, as it is and purified, and of the intrinsic feature. The set's images are cut
/// in two halves; episodes of the one give the rows that probes are fitted on, episodes of the other those they are
/// tested on, so that no image is in both.
std::vector<LeakResult> measure_leaks(fewshot::EpisodeModel& model, const episodes::ExampleSet& set, std::int64_t n_way,
                                      std::int64_t num_episodes, std::uint64_t seed);

}  // namespace camber::runs
