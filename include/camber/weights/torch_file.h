#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "camber/weights/state_file.h"

/// Files of torch.save, read and written without Python. Reading runs nothing: the pickle inside is taken as data, a
/// name that it would call is either one of the few that rebuild tensors and dictionaries, one that is known to stand
/// for plain data (numbers of numpy, paths, configurations), which is passed over, or the file is refused.
namespace camber::weights {

/// The tensors of a file by their path through its dictionaries, joined by dots: "state_dict.head.weight",
/// "optimizer.state.0.exp_avg". Tensors are read from the file when they are asked for.
///
///   const TorchFile file("epoch_20.pth");
///   for (const std::string& name : file.names()) file.tensor(name);
///
/// A file that is cut short, that asks for a call of anything else (a pickle bomb), whose tensors reach beyond their
/// storages, or that is in the format from before torch 1.6 is a std::runtime_error of one sentence.
class TorchFile {
 public:
  explicit TorchFile(const std::filesystem::path& path);
  ~TorchFile();
  TorchFile(TorchFile&&) noexcept;
  TorchFile& operator=(TorchFile&&) noexcept;

  /// In the order of the file.
  const std::vector<std::string>& names() const;
  torch::Tensor tensor(const std::string& name) const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

/// Writes {"meta": meta, "state_dict": tensors} as torch.save does, atomically; torch.load reads it with weights_only.
/// `versions` becomes the state_dict's attribute _metadata, module by module: {"head.conv": 2}.
void write_torch_file(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::int64_t>& versions,
                      const std::map<std::string, std::string>& meta);

}  // namespace camber::weights
