#include "camber/storage/safetensors.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "camber/random/stream.h"
#include "camber/storage/file.h"
#include "storage/scratch_folder.h"

namespace camber::storage {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class SafetensorsTest : public ScratchFolder {
 protected:
  std::filesystem::path path() const { return folder_ / "x.safetensors"; }

  // Without a flush: thousands of files are written here. (A file that is overwritten is flushed by some file systems.)
  void put(const std::string& bytes) const {
    std::filesystem::remove(path());
    std::ofstream(path(), std::ios::binary) << bytes;
  }

  // A file of this header and this much data.
  void write_raw(const std::string& header, std::size_t data_bytes) const {
    const std::uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    put(bytes + header + std::string(data_bytes, 'd'));
  }

  // What the reader says, after the file's name.
  std::string sentence() const {
    try {
      const SafetensorsFile file(path());
    } catch (const std::runtime_error& error) {
      const std::string text = error.what(), head = "[safetensors] " + path().string() + ": ";
      EXPECT_TRUE(text.starts_with(head)) << text;
      return text.substr(head.size());
    }
    return "no error";
  }

  std::string sentence(const std::string& header, std::size_t data_bytes) const {
    write_raw(header, data_bytes);
    return sentence();
  }

  std::string write_sentence(const std::vector<TensorView>& tensors, const Metadata& metadata = {}) const {
    try {
      write_safetensors(path(), tensors, metadata);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(SafetensorsTest, RoundTripKeepsNamesTypesShapesBytesAndMetadata) {
  random::Stream stream(5, "safetensors");
  std::vector<TensorView> tensors;
  std::vector<std::string> contents(15);
  for (int type = 0; type < 15; ++type) {
    TensorView tensor{.name = "layer." + std::to_string(type) + ".w\"\\/\xC3\xA4", .type = static_cast<DataType>(type)};
    tensor.shape = {static_cast<std::int64_t>(stream.integer(4)), 3, static_cast<std::int64_t>(stream.integer(3) + 1)};
    std::string& content = contents[static_cast<std::size_t>(type)];
    const auto count = static_cast<std::size_t>(tensor.shape[0] * 3 * tensor.shape[2]);
    while (content.size() < count * byte_size(tensor.type)) content += static_cast<char>(stream.bits32());
    tensor.bytes = bytes_of(content);
    tensors.push_back(tensor);
  }
  const std::string one = "12345678";
  tensors.push_back({.name = "scalar", .type = DataType::kI64, .shape = {}, .bytes = bytes_of(one)});
  tensors.push_back({.name = "", .type = DataType::kF16, .shape = {7, 0}});
  const Metadata metadata = {{"step", "700"}, {"config", "a = 1\n[b]\n"}, {"", "\x01"}};
  write_safetensors(path(), tensors, metadata);

  const SafetensorsFile file(path());
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorView& tensor : tensors) {
    const TensorView& read = file.at(tensor.name);
    EXPECT_EQ(read.type, tensor.type);
    EXPECT_EQ(read.shape, tensor.shape);
    EXPECT_EQ(text_of(read.bytes), text_of(tensor.bytes));
    EXPECT_EQ(std::bit_cast<std::uintptr_t>(read.bytes.data()) % byte_size(read.type), 0U) << tensor.name;
  }
}

TEST_F(SafetensorsTest, TheSameContentGivesTheSameBytesInAnyOrder) {
  const std::string a = "aaaaaaaa", b = "b", c = "cccc";
  const TensorView first{.name = "z", .type = DataType::kF64, .shape = {1}, .bytes = bytes_of(a)};
  const TensorView second{.name = "a", .type = DataType::kBool, .shape = {1}, .bytes = bytes_of(b)};
  const TensorView third{.name = "m", .type = DataType::kF32, .shape = {1}, .bytes = bytes_of(c)};
  write_safetensors(path(), {first, second, third});
  const std::string bytes = read_file(path());
  write_safetensors(path(), {second, third, first});
  EXPECT_EQ(read_file(path()), bytes);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(bytes.substr(8 + length), "aaaaaaaaccccb");
}

TEST_F(SafetensorsTest, AnEmptyFileOfTensorsIsAFile) {
  write_safetensors(path(), {});
  EXPECT_TRUE(SafetensorsFile(path()).tensors().empty());
  EXPECT_EQ(sentence("{}", 0), "no error");
  EXPECT_EQ(sentence("{} \n ", 0), "no error");
}

TEST_F(SafetensorsTest, FilesOfOthersMayListTheirTensorsInAnyOrder) {
  write_raw(
      R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},"a":{"shape":[1],"data_offsets":[0,4],"dtype":"F32"}})",
      6);
  const SafetensorsFile file(path());
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.at("b").bytes.size(), 2U);
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_THROW(file.at("c"), std::runtime_error);
}

TEST_F(SafetensorsTest, RefusesADamagedHeader) {
  put("");
  EXPECT_EQ(sentence(), "the file must begin with an 8-byte length, got 0 bytes in all");
  put("1234567");
  EXPECT_EQ(sentence(), "the file must begin with an 8-byte length, got 7 bytes in all");
  put("PK\x03\x04 some zip file or other");
  EXPECT_NE(sentence().find("the header must be at most 100000000 bytes long, got a length of"), std::string::npos);
  put(std::string("\x09\0\0\0\0\0\0\0{}", 10));
  EXPECT_EQ(sentence(), "the file is cut short: its header must be 9 bytes long, got 2");
  EXPECT_NE(sentence("{\"a\":", 0).find("the header must be JSON: "), std::string::npos);
  EXPECT_NE(sentence("{\"\xFF\":1}", 0).find("the header must be JSON: "), std::string::npos);
  EXPECT_NE(sentence(std::string(100000, '['), 0).find("the header must be JSON: "), std::string::npos);
  EXPECT_EQ(sentence("[1]", 0), "the header must be a JSON object, got array");
  EXPECT_NE(sentence("", 0).find("the header must be JSON: "), std::string::npos);
}

TEST_F(SafetensorsTest, RefusesDamagedDescriptions) {
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  EXPECT_EQ(sentence(R"({"a":3})", 0), "tensor 'a' must be described by an object, got number");
  EXPECT_EQ(sentence(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), "tensor 'a' must have a dtype, got none");
  EXPECT_EQ(sentence(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "tensor 'a' must have a shape, got none");
  EXPECT_EQ(sentence(R"({"a":{"dtype":"F32","shape":[1]}})", 4), "tensor 'a' must have a data_offsets, got none");
  EXPECT_EQ(sentence(R"({"a":{)" + good + R"(,"extra":1}})", 4),
            "tensor 'a' must have dtype, shape and data_offsets alone, got 'extra' too");
  EXPECT_EQ(sentence(R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4).substr(0, 60),
            "tensor 'a' must have a dtype among BOOL, U8, I8, F8_E4M3, F8");
  EXPECT_TRUE(sentence(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4).ends_with("got 7"));
  for (const char* shape : {"[-1]", "[1.5]", "[\"1\"]", "1", "[9223372036854775808]", "[[1]]"})
    EXPECT_EQ(sentence(R"({"a":{"dtype":"F32","shape":)" + std::string(shape) + R"(,"data_offsets":[0,4]}})", 4),
              "tensor 'a' must have a shape of whole numbers of at least 0, got " + std::string(shape));
  for (const char* offsets : {"[4,0]", "[0]", "[0,2,4]", "[]"})
    EXPECT_EQ(sentence(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + std::string(offsets) + "}}", 4),
              "tensor 'a' must have two rising data_offsets, got " + std::string(offsets));
  EXPECT_EQ(sentence(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4),
            "tensor 'a' must have fewer than 2^63 bytes, got the shape [4294967296,4294967296]");
  EXPECT_EQ(sentence(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
            "tensor 'a' of type F32 and shape [2] must have 8 bytes, got data_offsets over 4");
  EXPECT_EQ(sentence(R"({"a":{)" + good + R"(},"a":{)" + good + "}}", 4),
            "the name 'a' must stand in the header once, got it twice");
  EXPECT_EQ(sentence(R"({"a":{)" + good + R"(,"dtype":"I32"}})", 4),
            "the name 'dtype' must stand in the header once, got it twice");
  EXPECT_EQ(sentence(R"({"__metadata__":{"a":1}})", 0), "__metadata__ 'a' must be a string, got number");
  EXPECT_EQ(sentence(R"({"__metadata__":[]})", 0), "__metadata__ must be an object of strings, got array");
  EXPECT_EQ(sentence(R"({"a\nb":3})", 0), "tensor 'a?b' must be described by an object, got number");
  const std::string many = sentence("{\"a\":{\"dtype\":\"" + std::string(100000, 'F') + "\"}}", 0);
  EXPECT_LT(many.size(), 1000);
  EXPECT_TRUE(many.ends_with("FFF...")) << many;
}

TEST_F(SafetensorsTest, RefusesGapsOverlapsAndFilesCutShort) {
  const auto pair = [](const char* first, const char* second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(first) +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(sentence(pair("[0,4]", "[4,8]"), 8), "no error");
  EXPECT_EQ(sentence(pair("[0,4]", "[2,6]"), 6),
            "tensor 'b' must begin at byte 4, where 'a' ends, got 2: they overlap");
  EXPECT_EQ(sentence(pair("[0,4]", "[0,4]"), 4),
            "tensor 'b' must begin at byte 4, where 'a' ends, got 0: they overlap");
  EXPECT_EQ(sentence(pair("[0,4]", "[5,9]"), 9), "tensor 'b' must begin at byte 4, got 5: 1 bytes belong to no tensor");
  EXPECT_EQ(sentence(pair("[1,5]", "[5,9]"), 9), "tensor 'a' must begin at byte 0, got 1: 1 bytes belong to no tensor");
  EXPECT_EQ(sentence(pair("[0,4]", "[4,8]"), 7),
            "the file is cut short: tensor 'b' must end at byte 8 of the data, got 7 bytes");
  EXPECT_EQ(sentence(pair("[0,4]", "[4,8]"), 0),
            "the file is cut short: tensor 'a' must end at byte 4 of the data, got 0 bytes");
  EXPECT_EQ(sentence(pair("[0,4]", "[4,8]"), 9), "the data must be 8 bytes long, as the tensors are, got 9");
}

TEST_F(SafetensorsTest, EveryCutAndEveryFlippedBitIsASentenceOrARightAnswer) {
  const std::string data(24, 'x');
  write_safetensors(path(),
                    {{.name = "w", .type = DataType::kF32, .shape = {2, 3}, .bytes = bytes_of(data)},
                     {.name = "s", .type = DataType::kF64, .shape = {}, .bytes = bytes_of("12345678")}},
                    {{"step", "1"}});
  const std::string whole = read_file(path());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put(whole.substr(0, length));
    EXPECT_NE(sentence(), "no error") << length;
  }
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    put(damaged);
    refused += sentence() != "no error";
  }
  EXPECT_GT(refused, whole.size() * 8 / 3);  // what is left are bits of values, names and metadata
}

TEST_F(SafetensorsTest, WriterRefusesWhatNoReaderWouldTake) {
  const std::string four = "1234";
  const TensorView good{.name = "a", .type = DataType::kF32, .shape = {1}, .bytes = bytes_of(four)};
  TensorView bad = good;
  EXPECT_EQ(write_sentence({good, good}), "[safetensors] the name 'a' must be given once, got it twice");
  bad.shape = {2, 3};
  EXPECT_EQ(write_sentence({bad}), "[safetensors] tensor 'a' of type F32 and shape [2, 3] must have 24 bytes, got 4");
  bad.shape = {-1};
  EXPECT_EQ(write_sentence({bad}),
            "[safetensors] tensor 'a' of type F32 and shape [-1] must have fewer than 2^63 bytes, got 4");
  bad = good;
  bad.name = "__metadata__";
  EXPECT_EQ(write_sentence({bad}), "[safetensors] a tensor must not be named __metadata__");
  bad.name = "\xFF";
  EXPECT_EQ(write_sentence({bad}), "[safetensors] names and metadata must be UTF-8 text, got other bytes");
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace camber::storage
