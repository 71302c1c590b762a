#include <bit>
#include <cstdint>
#include <exception>
#include <limits>
#include <stdexcept>

#include <caffe2/serialize/inline_container.h>

#include "camber/storage/atomic_file.h"
#include "camber/weights/torch_file.h"

namespace camber::weights {
namespace {

// Writes the few instructions of pickle's second protocol that a state_dict needs.
class PickleWriter {
 public:
  PickleWriter() { raw("\x80\x02"); }

  void raw(std::string_view bytes) { bytes_ += bytes; }
  void begin_dict() { raw("}("); }
  void begin_ordered_dict() { raw("ccollections\nOrderedDict\n)R("); }
  void end_dict() { raw("u"); }
  void text(std::string_view value) {
    raw("X");
    little(value.size(), 4);
    raw(value);
  }
  void integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
      raw("K");
      little(static_cast<std::uint64_t>(value), 1);
    } else if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
      raw("J");
      little(static_cast<std::uint64_t>(value), 4);
    } else {
      raw("\x8a\x08");
      little(static_cast<std::uint64_t>(value), 8);
    }
  }
  void integers(torch::IntArrayRef values) {
    raw("(");
    for (const std::int64_t value : values) integer(value);
    raw("t");
  }
  // _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
  void tensor(const torch::Tensor& value, std::string_view storage_class, const std::string& key) {
    raw("ctorch._utils\n_rebuild_tensor_v2\n((");
    text("storage");
    raw("ctorch\n" + std::string(storage_class) + "\n");
    text(key);
    text("cpu");
    integer(value.numel());
    raw("tQ");
    integer(0);
    integers(value.sizes());
    integers(value.strides());
    raw("\x89"
        "ccollections\nOrderedDict\n)RtR");
  }
  std::string finish() {
    raw(".");
    return std::move(bytes_);
  }

 private:
  void little(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  std::string bytes_;
};

std::string_view storage_class(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat:
      return "FloatStorage";
    case torch::kDouble:
      return "DoubleStorage";
    case torch::kHalf:
      return "HalfStorage";
    case torch::kBFloat16:
      return "BFloat16Storage";
    case torch::kLong:
      return "LongStorage";
    case torch::kInt:
      return "IntStorage";
    case torch::kBool:
      return "BoolStorage";
    case torch::kByte:
      return "ByteStorage";
    default:
      throw std::invalid_argument(std::string("[weights] a tensor must have a type that torch.save writes, got ") +
                                  c10::toString(type));
  }
}

std::string pickle_of(const std::vector<NamedTensor>& tensors, const std::map<std::string, std::int64_t>& versions,
                      const std::map<std::string, std::string>& meta) {
  PickleWriter pickle;
  pickle.begin_dict();
  pickle.text("meta");
  pickle.begin_dict();
  for (const auto& [key, value] : meta) {
    pickle.text(key);
    pickle.text(value);
  }
  pickle.end_dict();
  pickle.text("state_dict");
  pickle.begin_ordered_dict();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pickle.text(tensors[i].name);
    pickle.tensor(tensors[i].tensor, storage_class(tensors[i].tensor.scalar_type()), std::to_string(i));
  }
  pickle.end_dict();
  pickle.begin_dict();  // attributes of the state_dict
  pickle.text("_metadata");
  pickle.begin_ordered_dict();
  for (const auto& [module, version] : versions) {
    pickle.text(module);
    pickle.begin_dict();
    pickle.text("version");
    pickle.integer(version);
    pickle.end_dict();
  }
  pickle.end_dict();
  pickle.end_dict();
  pickle.raw("b");
  pickle.end_dict();
  return pickle.finish();
}

}  // namespace

void write_torch_file(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::int64_t>& versions,
                      const std::map<std::string, std::string>& meta) {
  std::vector<NamedTensor> dense;
  dense.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) dense.push_back({name, tensor.detach().cpu().contiguous()});
  storage::AtomicFile file(path);
  std::exception_ptr failed;
  {
    // torch's writer ends the archive in its destructor, where an exception would end the process: after a write that
    // failed nothing more is written, and the error is thrown once the writer is gone.
    caffe2::serialize::PyTorchStreamWriter archive([&file, &failed](const void* data, std::size_t size) {
      try {
        if (!failed) file.write(data, size);
      } catch (...) {
        failed = std::current_exception();
      }
      return size;
    });
    const std::string pickle = pickle_of(dense, versions, meta);
    archive.writeRecord("data.pkl", pickle.data(), pickle.size());
    archive.writeRecord("byteorder", "little", 6);
    for (std::size_t i = 0; i < dense.size(); ++i)
      archive.writeRecord("data/" + std::to_string(i), dense[i].tensor.const_data_ptr(), dense[i].tensor.nbytes());
    archive.writeEndOfFile();
  }
  if (failed) std::rethrow_exception(failed);
  file.commit();
}

}  // namespace camber::weights
