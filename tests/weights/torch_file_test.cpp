// Files of torch.save: what is read, and what is refused before anything could run.
#include "camber/weights/torch_file.h"

#include <csignal>
#include <fstream>

#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "camber/storage/file.h"
#include "storage/scratch_folder.h"
#include "support/comparison.h"

namespace camber::weights {
namespace {

using camber::proof::error_of;

class TorchFiles : public storage::ScratchFolder {
 protected:
  // An archive as torch.save makes it, with this pickle and one storage of eight floats.
  void write_archive(const std::string& pickle, const std::string& storage = std::string(32, '\0')) const {
    caffe2::serialize::PyTorchStreamWriter archive((folder_ / "file.pth").string());
    archive.writeRecord("data.pkl", pickle.data(), pickle.size());
    archive.writeRecord("data/0", storage.data(), storage.size());
    archive.writeEndOfFile();
  }
  std::string refusal() const {
    const auto sentence = error_of([&] {
      const TorchFile file(folder_ / "file.pth");
      for (const auto& name : file.names()) file.tensor(name);
    });
    const std::string start = "[weights] " + (folder_ / "file.pth").string() + " must be a file of torch.save, but ";
    EXPECT_TRUE(sentence.starts_with(start)) << sentence;
    EXPECT_EQ(sentence.find('\n'), std::string::npos);
    return sentence.substr(std::min(start.size(), sentence.size()));
  }
  std::vector<NamedTensor> state() const {
    return {{"a.weight", torch::arange(6, torch::kFloat).view({2, 3})},
            {"a.running_mean", torch::ones({3}, torch::kDouble)},
            {"a.count", torch::tensor(std::int64_t{1} << 40, torch::kLong)},
            {"empty", torch::zeros({0, 4})},
            {"half", torch::ones({2}, torch::kHalf)}};
  }
};

std::string text_of(std::string_view text) {
  std::string bytes = "X";
  bytes += static_cast<char>(text.size());
  bytes.append(3, '\0');
  return bytes.append(text);
}

// The pickle of {"w": tensor}, of storage "0" with eight floats.
std::string one_tensor(const std::string& offset, const std::string& sizes, const std::string& strides) {
  return "\x80\x02}" + text_of("w") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text_of("storage") +
         "ctorch\nFloatStorage\n" + text_of("0") + text_of("cuda:0") + "K\x08tQ" + offset + sizes + strides +
         "\x89"
         "ccollections\nOrderedDict\n)RtRs.";
}

TEST_F(TorchFiles, ReadsWhatItWrites) {
  write_torch_file(folder_ / "file.pth", state(), {{"a", 2}}, {{"note", "x"}});
  const TorchFile file(folder_ / "file.pth");
  ASSERT_EQ(file.names().size(), 5);
  EXPECT_EQ(file.names()[0], "state_dict.a.weight");
  for (const auto& [name, tensor] : state()) {
    const auto read = file.tensor("state_dict." + name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(read.equal(tensor)) << name;
  }
  EXPECT_NE(error_of([&] { file.tensor("other"); }).find("must hold a tensor 'other'"), std::string::npos);
}

TEST_F(TorchFiles, ReadsViewsOfAStorage) {
  std::string storage(32, '\0');
  for (int i = 0; i < 8; ++i) reinterpret_cast<float*>(storage.data())[i] = static_cast<float>(i);
  write_archive(one_tensor("K\x01", "K\x02K\x02\x86", "K\x01K\x03\x86"), storage);
  const TorchFile file(folder_ / "file.pth");
  EXPECT_TRUE(file.tensor("w").equal(torch::tensor({{1.0F, 4.0F}, {2.0F, 5.0F}})));
}

TEST_F(TorchFiles, RefusesTensorsBeyondTheirStorage) {
  write_archive(one_tensor("K\x07", "K\x02\x85", "K\x01\x85"));
  EXPECT_EQ(refusal(), "tensor 'w' reaches beyond its storage");
  // 2^62 elements of stride 2^62
  const std::string huge("\x8a\x08\0\0\0\0\0\0\0\x40", 10);
  write_archive(one_tensor(std::string("K\0", 2), huge + "\x85", huge + "\x85"));
  EXPECT_EQ(refusal(), "tensor 'w' reaches beyond its storage");
  write_archive(one_tensor(std::string("K\0", 2), huge + "\x85", std::string("K\0\x85", 3)));
  EXPECT_EQ(refusal(), "tensor 'w' says to be larger than the file");
  write_archive(one_tensor("J\xff\xff\xff\xff", "K\x01\x85", "K\x01\x85"));
  EXPECT_EQ(refusal(), "tensor 'w' reaches beyond its storage");
}

// LibTorch would take the memory that an archive states, for some of its files as soon as it is opened.
TEST_F(TorchFiles, RefusesSizesThatTheArchiveCannotHold) {
  write_archive(one_tensor(std::string("K\0", 2), "K\x08\x85", "K\x01\x85"));
  const std::string archive = storage::read_file(folder_ / "file.pth");
  int entries = 0;
  for (auto at = archive.find("PK\1\2"); at != std::string::npos; at = archive.find("PK\1\2", at + 1), ++entries) {
    std::ofstream(folder_ / "file.pth", std::ios::binary)
        << std::string(archive).replace(at + 24, 4, "\xF6\xFF\xFF\xFF");
    EXPECT_EQ(refusal(), "a file in its archive says to be larger than the archive");
    std::ofstream(folder_ / "file.pth", std::ios::binary) << std::string(archive).replace(at, 1, "x");
    EXPECT_EQ(refusal(), "its archive is cut short or damaged");
  }
  EXPECT_GE(entries, 3);
  std::ofstream(folder_ / "file.pth", std::ios::binary) << archive.substr(0, archive.size() - 1);
  EXPECT_EQ(refusal(), "its archive is cut short or damaged");
}

TEST_F(TorchFiles, RefusesToCallAnythingElse) {
  const std::string sentence = "which makes no weights; nothing of it was run";
  write_archive(
      "\x80\x02"
      "cposix\nsystem\n" +
      text_of("touch bombed") + "\x85R.");
  EXPECT_EQ(refusal(), "it asks to call 'posix.system', " + sentence);
  write_archive("\x80\x04" + std::string("\x8c\x08"
                                         "builtins\x8c\x04"
                                         "eval\x93\x8c\x03"
                                         "1+1\x85R."));
  EXPECT_EQ(refusal(), "it asks to call 'builtins.eval', " + sentence);
  // Beside weights that are sound, where nobody would look.
  write_archive("\x80\x02}(" + text_of("meta") + "csubprocess\nPopen\n" + text_of("x") + "\x85R" + text_of("y") +
                "K\x01u.");
  EXPECT_EQ(refusal(), "it asks to call 'subprocess.Popen', " + sentence);
  EXPECT_FALSE(std::filesystem::exists("bombed"));
  write_archive(
      "\x80\x02"
      "c" +
      std::string(3000, 'm') + "\nrun\n)R.");
  EXPECT_EQ(refusal(), "it asks to call '" + std::string(120, 'm') + "...', " + sentence);
}

TEST_F(TorchFiles, PassesOverPlainDataBesideTheWeights) {
  write_archive("\x80\x02}(" + text_of("loss") + "cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n" + text_of("f8") +
                "K\x02K\x01\x87R" + text_of("01234567") + "tR" + text_of("kind") + "ctorch\nfloat32\n" + "u.");
  EXPECT_TRUE(TorchFile(folder_ / "file.pth").names().empty());
}

TEST_F(TorchFiles, RefusesDictionariesThatHoldThemselves) {
  write_archive("\x80\x02}q\x01" + text_of("again") + "h\x01s.");
  EXPECT_EQ(refusal(), "its dictionaries are nested beyond what a checkpoint holds");
  // Ten levels that hold the one below a hundred times.
  std::string pickle = "\x80\x02}q" + std::string(1, '\0');
  for (char level = 1; level < 10; ++level) {
    pickle += std::string("}q") + level + "(";
    for (int i = 0; i < 100; ++i) pickle += text_of(std::to_string(i)) + "h" + static_cast<char>(level - 1);
    pickle += 'u';
  }
  write_archive(pickle + ".");
  EXPECT_EQ(refusal(), "its dictionaries are nested beyond what a checkpoint holds");
}

TEST_F(TorchFiles, RefusesFilesThatAreCutShortAtAnyLength) {
  write_torch_file(folder_ / "whole.pth", state(), {}, {});
  const std::string whole = storage::read_file(folder_ / "whole.pth");
  for (std::size_t length = 0; length < whole.size(); length += 1 + whole.size() / 97) {
    std::ofstream(folder_ / "file.pth", std::ios::binary) << whole.substr(0, length);
    refusal();
  }
  std::ofstream(folder_ / "file.pth", std::ios::binary) << whole.substr(0, whole.size() - 30);
  EXPECT_EQ(refusal(), "its archive is cut short or damaged");
}

TEST_F(TorchFiles, AFileThatCannotGrowIsAnErrorAndLeavesTheOldOne) {
  std::ofstream(folder_ / "file.pth") << "what was there before";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{300, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string sentence = error_of([&] { write_torch_file(folder_ / "file.pth", state(), {}, {}); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(sentence.find("file.pth"), std::string::npos) << sentence;
  EXPECT_EQ(storage::read_file(folder_ / "file.pth"), "what was there before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(TorchFiles, RefusesPicklesThatAreDamaged) {
  for (const std::string pickle : {"", "\x80", "\x80\x02", "\x80\x02R.", "\x80\x02(.", "\x80\x02t.", "\x80\x02}s.",
                                   "\x80\x02h\x05.", "\x80\x02\x87.", "\x80\x02K\x01Q.", "\x80\x02X\xff\xff\xff\xff",
                                   "\x80\x02\xfe.", "\x80\x02}K\x01K\x02R.", "\x80\x02\x63posix", "\x80\x02."}) {
    write_archive(pickle);
    EXPECT_FALSE(refusal().empty());
  }
}

TEST_F(TorchFiles, SaysWhatOldAndOtherFilesAre) {
  std::ofstream(folder_ / "file.pth", std::ios::binary) << "\x80\x02\x8a\nl\xfc\x9c"
                                                           "F\xf9 j\xa8P\x19.";
  EXPECT_EQ(refusal(), "it is no zip archive: torch before 1.6 wrote others, which torch.load and torch.save renew");
  EXPECT_NE(error_of([&] { TorchFile(folder_ / "none.pth"); }).find("must be a file that can be read"),
            std::string::npos);
}

}  // namespace
}  // namespace camber::weights
