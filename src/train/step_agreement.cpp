#include "train/step_agreement.h"

#include <algorithm>
#include <span>
#include <stdexcept>

#include <camber/config/sentence.h>
#include <camber/weights/checksums.h>
#include <nlohmann/json.hpp>

namespace camber::train {
namespace {

// CBOR keeps the bits of a number, NaN and infinity among them.
std::string packed(const BatchReport& report) {
  nlohmann::json json = {{"losses", nlohmann::json::array()}, {"stop", report.stop}};
  for (const auto& [name, value] : report.losses) json["losses"].push_back({name, value});
  if (report.broken) json["broken"] = {report.broken->name, report.broken->content};
  std::string bytes;
  nlohmann::json::to_cbor(json, bytes);
  return bytes;
}

void add_losses(BatchReport& to, const nlohmann::json& losses) {
  for (const auto& entry : losses) {
    const auto name = entry.at(0).get<std::string>();
    const auto known =
        std::find_if(to.losses.begin(), to.losses.end(), [&name](const auto& term) { return term.first == name; });
    if (known == to.losses.end())
      to.losses.emplace_back(name, entry.at(1).get<double>());
    else
      known->second += entry.at(1).get<double>();
  }
}

}  // namespace

BatchReport agree(const BatchReport& own, distributed::ProcessGroup& group) {
  if (group.is_alone()) return own;
  BatchReport all;
  const std::vector<std::string> sent = group.exchange(packed(own));
  for (std::size_t rank = 0; rank < sent.size(); ++rank) {
    const nlohmann::json json = nlohmann::json::from_cbor(sent[rank]);
    add_losses(all, json.at("losses"));
    all.stop = all.stop || json.at("stop").get<bool>();
    if (!all.broken && json.contains("broken"))
      all.broken =
          health::BrokenTensor{.name = json["broken"].at(0).get<std::string>(),
                               .content = config::sentence(json["broken"].at(1).get<std::string>(), " on rank ", rank)};
  }
  return all;
}

void check_same_parameters(const torch::nn::Module& model, distributed::ProcessGroup& group) {
  if (group.is_alone()) return;
  std::string sums;
  for (const auto& parameter : model.parameters()) {
    const torch::Tensor host = parameter.detach().cpu().contiguous();
    const std::span bytes(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes());
    sums += weights::checksum_text(weights::checksum(bytes));
  }
  const std::string own = weights::checksum_text(weights::checksum(std::as_bytes(std::span(sums))));
  const std::vector<std::string> all = group.exchange(own);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw std::runtime_error(config::sentence("[train] every rank must have the same parameters, got ", all[0],
                                                " on rank 0 and ", all[rank], " on rank ", rank,
                                                " (processors that calculate differently cannot share a run)"));
}

void take_state_of_first(torch::nn::Module& model, distributed::ProcessGroup& group) {
  if (group.is_alone()) return;
  const torch::NoGradGuard no_grad;
  const auto take = [&group](const torch::Tensor& tensor) {
    if (tensor.is_contiguous()) {
      group.broadcast(tensor.detach());
      return;
    }
    const torch::Tensor whole = tensor.detach().contiguous();  // channels-last weights
    group.broadcast(whole);
    tensor.detach().copy_(whole);
  };
  for (const torch::Tensor& parameter : model.parameters()) take(parameter);
  for (const torch::Tensor& buffer : model.buffers()) take(buffer);
}

}  // namespace camber::train
