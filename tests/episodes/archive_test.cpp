#include "camber/episodes/archive.h"

#include <cstdio>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "nuscenes/small_world.h"

// Tars as the programs of the world write them: PAX records, GNU's long names, links.
namespace camber::episodes {
namespace {

using tests::message_of;

std::string octal_field(std::uint64_t value, int digits) {
  char text[24];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(value));
  return text;
}

struct TarEntry {
  std::string name{};
  std::string content{};
  char type = '0';
  std::string link{};
  bool gnu = false;
  std::string size_field{};  // instead of the content's size
};

// One header with its content, filled up to whole blocks.
std::string written(const TarEntry& entry) {
  std::string header(512, '\0');
  header.replace(0, std::min<std::size_t>(entry.name.size(), 100), entry.name.substr(0, 100));
  header.replace(100, 7, "0000644");
  const std::string size = entry.size_field.empty() ? octal_field(entry.content.size(), 11) : entry.size_field;
  header.replace(124, size.size(), size);
  header[156] = entry.type;
  header.replace(157, std::min<std::size_t>(entry.link.size(), 100), entry.link.substr(0, 100));
  header.replace(257, 8,
                 entry.gnu ? std::string("ustar  \0", 8)
                           : std::string("ustar\0"
                                         "00",
                                         8));
  if (entry.gnu) header.replace(345, 11, octal_field(1700000000, 11));  // the time of access, not a prefix
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, octal_field(sum, 6) + '\0');
  return header + entry.content + std::string((512 - entry.content.size() % 512) % 512, '\0');
}

// "LENGTH key=value\n", where the length counts its own digits.
std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) length = std::to_string(length).size() + rest.size();
  return std::to_string(length) + rest;
}

class ArchiveTest : public testing::Test {
 protected:
  std::filesystem::path tar(const std::vector<TarEntry>& entries) const {
    std::string bytes;
    for (const TarEntry& entry : entries) bytes += written(entry);
    auto path = folder_.path() / "a.tar";
    tests::write_text(path, bytes + std::string(1024, '\0'));
    return path;
  }
  std::string refusal(const std::vector<TarEntry>& entries) const {
    const auto path = tar(entries);
    return message_of([&] { const Archive archive(path); });
  }

  tests::TemporaryFolder folder_;
};

using Names = std::vector<std::string>;

TEST_F(ArchiveTest, KeepsNamesApartThatOnlyPaxRecordsTellApart) {
  // Python's tarfile and bsdtar write ? for each letter that is not ASCII, and the true name into a record.
  const Archive archive(tar({{.name = "x", .content = pax_record("path", "été/1.png"), .type = 'x'},
                             {.name = "?t?/1.png", .content = "summer"},
                             {.name = "x", .content = pax_record("path", "ütü/1.png"), .type = 'x'},
                             {.name = "?t?/1.png", .content = "iron"},
                             {.name = "plain/1.png", .content = "plain"}}));
  ASSERT_EQ(archive.names(), (Names{"plain/1.png", "été/1.png", "ütü/1.png"}));
  EXPECT_EQ(archive.read(0), "plain");
  EXPECT_EQ(archive.read(1), "summer");
  EXPECT_EQ(archive.read(2), "iron");
}

TEST_F(ArchiveTest, ReadsLongNamesOfPaxAndGnu) {
  const std::string deep = std::string(90, 'a') + "/" + std::string(90, 'b') + "/" + std::string(90, 'c') + "/1.png";
  const Archive pax(tar({{.name = "x", .content = pax_record("path", deep), .type = 'x'},
                         {.name = deep.substr(0, 100), .content = "one"}}));
  EXPECT_EQ(pax.names(), Names{deep});
  const Archive gnu(tar({{.name = "././@LongLink", .content = deep + '\0', .type = 'L', .gnu = true},
                         {.name = deep.substr(0, 100), .content = "one", .gnu = true},
                         {.name = "short/1.png", .content = "two", .gnu = true}}));
  EXPECT_EQ(gnu.names(), (Names{deep, "short/1.png"}));
}

TEST_F(ArchiveTest, GlobalRecordsHoldUntilOthersAndLocalOnesForOneEntry) {
  const Archive archive(tar({{.name = "g", .content = pax_record("comment", "0123abcd"), .type = 'g'},
                             {.name = "a.png", .content = "a"},
                             {.name = "g", .content = pax_record("path", "global.png"), .type = 'g'},
                             {.name = "b.png", .content = "b"},
                             {.name = "x", .content = pax_record("path", "local.png"), .type = 'x'},
                             {.name = "c.png", .content = "c"},
                             {.name = "g", .content = pax_record("path", ""), .type = 'g'},
                             {.name = "d.png", .content = "d"}}));
  EXPECT_EQ(archive.names(), (Names{"a.png", "d.png", "global.png", "local.png"}));
}

TEST_F(ArchiveTest, TakesTheSizeOfARecordAndOfBase256) {
  const Archive record(tar({{.name = "x", .content = pax_record("size", "5"), .type = 'x'},
                            {.name = "a.png", .content = "hello", .size_field = "00000000000"},
                            {.name = "b.png", .content = "b"}}));
  ASSERT_EQ(record.names(), (Names{"a.png", "b.png"}));
  EXPECT_EQ(record.read(0), "hello");
  const Archive binary(tar({{.name = "a.png", .content = "hello", .size_field = "\x80" + std::string(10, '\0') + '\5'},
                            {.name = "b.png", .content = "b"}}));
  ASSERT_EQ(binary.names(), (Names{"a.png", "b.png"}));
  EXPECT_EQ(binary.read(0), "hello");
}

TEST_F(ArchiveTest, FollowsLinksToFilesOfTheArchive) {
  const std::string far = std::string(120, 'f') + "/1.png";
  const Archive archive(tar({{.name = "x", .content = pax_record("path", far), .type = 'x'},
                             {.name = "f", .content = "far"},
                             {.name = "x", .content = pax_record("linkpath", far), .type = 'x'},
                             {.name = "a/hard.png", .type = '1', .link = "f"},
                             {.name = "././@LongLink", .content = far + '\0', .type = 'K', .gnu = true},
                             {.name = "a/gnu.png", .type = '1', .link = "f", .gnu = true},
                             {.name = "a/soft.png", .type = '2', .link = "../b/1.png"},
                             {.name = "b/1.png", .content = "b"}}));
  ASSERT_EQ(archive.names(), (Names{"a/gnu.png", "a/hard.png", "a/soft.png", "b/1.png", far}));
  EXPECT_EQ(archive.read(0), "far");
  EXPECT_EQ(archive.read(1), "far");
  EXPECT_EQ(archive.read(2), "b");
}

TEST_F(ArchiveTest, LeavesHiddenEntriesAloneWhateverTheyAre) {
  const Archive archive(tar({{.name = "./._a.png", .content = "resource"},
                             {.name = ".cache/link", .type = '2', .link = "/nowhere"},
                             {.name = "./a.png", .content = "a"}}));
  EXPECT_EQ(archive.names(), Names{"a.png"});
}

TEST_F(ArchiveTest, TheLaterOfTwoFilesOfOneNameCounts) {
  const Archive archive(tar({{.name = "a.png", .content = "old"}, {.name = "a.png", .content = "new"}}));
  ASSERT_EQ(archive.names(), Names{"a.png"});
  EXPECT_EQ(archive.read(0), "new");
}

TEST_F(ArchiveTest, RefusesWhatItCannotRead) {
  const auto says = [&](const std::vector<TarEntry>& entries, const std::string& words) {
    const std::string sentence = refusal(entries);
    EXPECT_NE(sentence.find(words), std::string::npos) << sentence;
  };
  says({{.name = "x", .content = "99 path=a\n", .type = 'x'}, {.name = "a", .content = "a"}}, "damaged PAX record");
  says({{.name = "x", .content = "path=a\n", .type = 'x'}, {.name = "a", .content = "a"}}, "damaged PAX record");
  says({{.name = "x", .content = pax_record("size", "five"), .type = 'x'}, {.name = "a", .content = "a"}},
       "size must be a whole number, got 'five'");
  says({{.name = "x", .content = pax_record("GNU.sparse.major", "1"), .type = 'x'}, {.name = "a", .content = "a"}},
       "sparse file");
  says({{.name = "a", .content = "a", .type = 'S', .gnu = true}}, "sparse file");
  says({{.name = "a", .type = '1', .link = "nowhere"}}, "'a' links to 'nowhere', which is no file of the archive");
  says({{.name = "a", .type = '2', .link = "/etc/passwd"}}, "which is no file of the archive");
  says({{.name = "a", .type = '2', .link = "b"}, {.name = "b", .type = '2', .link = "a"}},
       "which is no file of the archive");
  says({{.name = "a", .content = "a", .type = 'Q'}}, "of the unknown type 'Q'");
}

// Names may hold anything; the sentence that refuses them is still one line, of a length that can be read.
TEST_F(ArchiveTest, ShowsNamesWithLineBreaksInOneLine) {
  const auto says = [&](const std::vector<TarEntry>& entries, const std::string& words) {
    const std::string sentence = refusal(entries);
    EXPECT_NE(sentence.find(words), std::string::npos) << sentence;
    EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
    EXPECT_LT(sentence.size(), 600) << sentence;
  };
  says({{.name = "a\nb", .size_field = "77777777777"}}, "is cut off in 'a?b'");
  says({{.name = "a\nb", .content = "a", .type = 'S', .gnu = true}}, "'a?b' is a sparse file");
  says({{.name = "a\nb", .content = "a", .type = '\n'}}, "'a?b' is of the unknown type '?'");
  says({{.name = "a\nb", .type = '1', .link = "c\nd"}}, "'a?b' links to 'c?d'");
  says({{.name = "x", .content = pax_record("size", "1\n" + std::string(3000, '2')), .type = 'x'},
        {.name = "a", .content = "a"}},
       "got '1?222");
  std::string zip = "PK\3\4" + std::string(26, '\0') + "PK\1\2" + std::string(42, '\0') + "a\nb";
  zip[30 + 10] = 99;  // a method that nobody knows
  zip[30 + 28] = 3;
  zip += "PK\5\6" + std::string(18, '\0');
  zip[79 + 10] = 1;
  zip[79 + 16] = 30;
  tests::write_text(folder_.path() / "unknown.zip", zip);
  EXPECT_NE(message_of([&] { const Archive archive(folder_.path() / "unknown.zip"); }).find("but 'a?b' is not one"),
            std::string::npos);
}

// A zip whose list of files is that of zip64: the plain list would end after 65,535 files.
TEST_F(ArchiveTest, RefusesAZip64) {
  std::string end(22, '\0');
  end.replace(0, 4, "PK\5\6");
  end.replace(8, 4, "\xFF\xFF\xFF\xFF");
  tests::write_text(folder_.path() / "large.zip", "PK\3\4" + std::string(100, '\0') + end);
  EXPECT_NE(message_of([&] { const Archive archive(folder_.path() / "large.zip"); }).find("zip64"), std::string::npos);
}

}  // namespace
}  // namespace camber::episodes
