#include <caffe2/serialize/inline_container.h>

#include "camber/storage/file.h"
#include "camber/train/checkpoint.h"
#include "camber/weights/torch_file.h"
#include "fuzz/fuzzing.h"
#include "nuscenes/small_world.h"
#include "weights/pickle_reader.h"

// Files of torch.save, the pickles in them, and what a checkpoint says of its run.
namespace camber::tests {
namespace {

std::string pickled_text(std::string_view text) {
  std::string bytes = "X";
  bytes += static_cast<char>(text.size());
  bytes.append(3, '\0');
  return bytes.append(text);
}

// {"w": a tensor of 2 x 3 floats in storage "0", "meta": {"epoch": 20}}
std::string pickle_seed() {
  return "\x80\x02}(" + pickled_text("w") + "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled_text("storage") +
         "ctorch\nFloatStorage\n" + pickled_text("0") + pickled_text("cpu") +
         "K\x08tQK\x01K\x02K\x03\x86K\x03K\x01\x86" +
         "\x89"
         "ccollections\nOrderedDict\n)RtR" +
         pickled_text("meta") + "}" + pickled_text("epoch") + "K\x14su.";
}

std::vector<std::string> pickle_seeds() {
  return {pickle_seed()};
}

std::vector<std::string> pickle_words() {
  return {"\x80\x02",
          "\x80\x04",
          "}",
          "(",
          ")",
          "]",
          "t",
          "u",
          "s",
          "R",
          ".",
          "Q",
          "b",
          "K\x01",
          "\x8a\x08",
          "\x85",
          "\x86",
          "\x87",
          "\x89",
          "q\x01",
          "h\x01",
          "\x94",
          "\x93",
          "e",
          "a",
          "d",
          "l",
          "0",
          "1",
          "2",
          "G",
          "B",
          "U\x02",
          "cposix\nsystem\n",
          "ctorch\nLongStorage\n",
          "ccollections\nOrderedDict\n",
          pickled_text("w")};
}

void run_pickle(Bytes bytes) {
  const std::string text = text_of(bytes);
  refuse_in_a_sentence([&] {
    try {
      weights::PickleReader(text).read();
    } catch (const std::runtime_error& error) {  // half a sentence, which the file's name begins
      throw std::runtime_error(std::string("[weights] ") + error.what());
    }
  });
}

std::string archive_of(const std::string& pickle) {
  std::string bytes;
  caffe2::serialize::PyTorchStreamWriter archive([&bytes](const void* data, std::size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  const std::string storage(32, '\x3f');
  archive.writeRecord("data.pkl", pickle.data(), pickle.size());
  archive.writeRecord("data/0", storage.data(), storage.size());
  archive.writeEndOfFile();
  return bytes;
}

std::vector<std::string> torch_seeds() {
  return {archive_of(pickle_seed())};
}

void run_torch_file(Bytes bytes) {
  const MemoryFile file(bytes);
  refuse_in_a_sentence([&] {
    const weights::TorchFile opened(file.path());
    for (const std::string& name : opened.names()) opened.tensor(name).sum();
  });
}

std::vector<std::string> checkpoint_seeds() {
  const std::string header =
      R"({"__metadata__":{"counters":"{\"step\": 700, \"skipped\": 0}","numbers":"{\"best\": \"0x1p-1\"}","numerics":"2",)"
      R"("config":"[data]\nroot = \"w\"\n","checksums":"{\"model.a\": \"0\"}"},)"
      R"("model.a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::uint64_t length = header.size();
  return {std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(8, '\0')};
}

void run_checkpoint(Bytes bytes) {
  const MemoryFile file(bytes);
  refuse_in_a_sentence([&] { train::read_checkpoint_info(file.path()); });
  refuse_in_a_sentence([&] {
    const weights::StateFile opened(file.path());
    for (const storage::TensorView& view : opened.tensors()) weights::tensor_of(view);
  });
}

}  // namespace

const std::vector<FuzzTarget>& fuzz_targets() {
  static const std::vector<FuzzTarget> targets = {
      {"pickle", run_pickle, pickle_seeds, pickle_words},
      {"torch_file", run_torch_file, torch_seeds, binary_words, Structure::kZip},
      {"checkpoint", run_checkpoint, checkpoint_seeds, json_words, Structure::kSafetensors}};
  return targets;
}

}  // namespace camber::tests
