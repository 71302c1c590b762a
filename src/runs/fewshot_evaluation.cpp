#include "camber/runs/fewshot_evaluation.h"

#include <algorithm>
#include <stdexcept>

#include "camber/random/stream.h"

namespace camber::runs {
namespace {

constexpr std::int64_t kEncodeBatch = 250;

torch::Tensor whole_numbers(const std::vector<std::int64_t>& values) {
  return torch::tensor(values, torch::kLong);
}

fewshot::EpisodeFeatures rows_of(const fewshot::EpisodeFeatures& features, const episodes::Episode& episode) {
  const auto index = whole_numbers(episode.examples).to(features.intrinsic.device());
  return {.intrinsic = features.intrinsic.index_select(0, index),
          .domain = features.domain.defined() ? features.domain.index_select(0, index) : torch::Tensor()};
}

// Rows that probes see.
struct ProbeRows {
  std::vector<float> domain{}, purified{}, intrinsic{};
  std::vector<std::int64_t> classes{}, domains{};

  static void append(std::vector<float>& rows, const torch::Tensor& tensor) {
    const auto plain = tensor.to(torch::kCPU, torch::kFloat).contiguous();
    rows.insert(rows.end(), plain.data_ptr<float>(), plain.data_ptr<float>() + plain.numel());
  }
};

// Labels by name's index in the whole set: the halves number their own classes alike, since each has all of them.
ProbeRows rows_for_probes(fewshot::EpisodeModel& model, const episodes::ExampleSet& half, std::int64_t n_way,
                          std::int64_t num_episodes, const random::Stream& stream) {
  const torch::NoGradGuard no_grad;
  const auto features = encode_set(model, half);
  // As many shots and queries as the smallest class of the smallest domain allows, five at most.
  std::vector<std::int64_t> cells(static_cast<std::size_t>(half.num_classes() * half.num_domains()), 0);
  for (std::size_t i = 0; i < half.class_of.size(); ++i)
    ++cells[static_cast<std::size_t>(half.class_of[i] * half.num_domains() + half.domain_of[i])];
  const auto each = std::clamp<std::int64_t>(*std::min_element(cells.begin(), cells.end()), 1, 5);
  const episodes::EpisodeSampler sampler(
      half, {.n_way = n_way, .k_shot = each, .queries = each, .cross_domain = half.num_domains() > 1});
  ProbeRows rows;
  for (std::int64_t e = 0; e < num_episodes; ++e) {
    const auto episode = sampler.sample(stream.at(static_cast<std::uint64_t>(e)));
    const auto chosen = rows_of(features, episode);
    const auto labels = labels_of(half, episode, features.intrinsic.device());
    const auto pass = model->forward(chosen, labels);
    ProbeRows::append(rows.domain, chosen.domain);
    ProbeRows::append(rows.purified, pass.purified);
    ProbeRows::append(rows.intrinsic, chosen.intrinsic);
    for (const std::int64_t index : episode.examples) {
      rows.classes.push_back(half.class_of[static_cast<std::size_t>(index)]);
      rows.domains.push_back(half.domain_of[static_cast<std::size_t>(index)]);
    }
  }
  return rows;
}

LeakResult leak_of(const std::string& name, const std::vector<float>& fit, const std::vector<float>& test,
                   const ProbeRows& fit_rows, const ProbeRows& test_rows) {
  const auto width = static_cast<std::int64_t>(fit.size() / fit_rows.classes.size());
  return {.feature = name,
          .leak = eval::leak_index(
              {.values = test, .width = width, .classes = test_rows.classes, .domains = test_rows.domains}),
          .class_probe = eval::linear_probe(fit, fit_rows.classes, test, test_rows.classes, width),
          .domain_probe = eval::linear_probe(fit, fit_rows.domains, test, test_rows.domains, width)};
}

}  // namespace

torch::Tensor examples_of(const episodes::ExampleSet& set) {
  std::vector<std::int64_t> sizes{set.size()};
  sizes.insert(sizes.end(), set.shape.begin(), set.shape.end());
  return torch::from_blob(const_cast<float*>(set.values.data()), sizes, torch::kFloat);
}

fewshot::EpisodeLabels labels_of(const episodes::ExampleSet& set, const episodes::Episode& episode,
                                 torch::Device device) {
  std::vector<std::int64_t> classes, domains;
  for (const std::int64_t index : episode.examples) {
    classes.push_back(set.class_of[static_cast<std::size_t>(index)]);
    domains.push_back(set.domain_of[static_cast<std::size_t>(index)]);
  }
  return {.way = whole_numbers(episode.labels).to(device),
          .classes = whole_numbers(classes).to(device),
          .domains = whole_numbers(domains).to(device),
          .n_way = episode.n_way,
          .k_shot = episode.k_shot};
}

fewshot::EpisodeFeatures encode_set(fewshot::EpisodeModel& model, const episodes::ExampleSet& set) {
  const torch::NoGradGuard no_grad;
  model->eval();
  const auto examples = examples_of(set);
  const auto device = model->parameters().front().device();
  std::vector<torch::Tensor> intrinsic, domain;
  for (std::int64_t start = 0; start < set.size(); start += kEncodeBatch) {
    const auto part = examples.narrow(0, start, std::min(kEncodeBatch, set.size() - start));
    const auto features = model->encode(part.to(device));
    intrinsic.push_back(features.intrinsic);
    if (features.domain.defined()) domain.push_back(features.domain);
  }
  return {.intrinsic = torch::cat(intrinsic), .domain = domain.empty() ? torch::Tensor() : torch::cat(domain)};
}

std::vector<double> episode_accuracies(fewshot::EpisodeModel& model, const episodes::ExampleSet& set,
                                       const fewshot::EpisodeFeatures& features,
                                       std::span<const episodes::Episode> episodes) {
  const torch::NoGradGuard no_grad;
  model->eval();
  std::vector<double> accuracies;
  for (const episodes::Episode& episode : episodes) {
    const auto labels = labels_of(set, episode, features.intrinsic.device());
    const auto pass = model->forward(rows_of(features, episode), labels);
    const auto broken = pass.logits.isnan().sum().item<std::int64_t>();
    if (broken > 0)  // the largest of them would count as an answer
      throw std::runtime_error("[fewshot] the logits of episode " + std::to_string(accuracies.size()) +
                               " must not be NaN, got " + std::to_string(broken) + " of " +
                               std::to_string(pass.logits.numel()));
    const auto answers = labels.way.narrow(0, episode.num_support(), pass.logits.size(0));
    accuracies.push_back(pass.logits.argmax(1).eq(answers).to(torch::kDouble).mean().item<double>());
  }
  return accuracies;
}

std::vector<LeakResult> measure_leaks(fewshot::EpisodeModel& model, const episodes::ExampleSet& set, std::int64_t n_way,
                                      std::int64_t num_episodes, std::uint64_t seed) {
  const random::Stream stream(seed, "fewshot.leak");
  const auto halves = episodes::split_examples(set, 0.5, stream.at("halves"));
  const auto fit = rows_for_probes(model, halves.first, n_way, num_episodes, stream.at("fit"));
  const auto test = rows_for_probes(model, halves.second, n_way, num_episodes, stream.at("test"));
  return {leak_of("domain", fit.domain, test.domain, fit, test),
          leak_of("purified", fit.purified, test.purified, fit, test),
          leak_of("intrinsic", fit.intrinsic, test.intrinsic, fit, test)};
}

}  // namespace camber::runs
