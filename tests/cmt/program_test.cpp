// camber import cmt and camber export cmt, called as a person calls them, with a model of small widths.
#include <fstream>

#include <caffe2/serialize/inline_container.h>

#include "camber/detection/cmt_weights.h"
#include "camber/weights/torch_file.h"
#include "cmt/small_program.h"

namespace camber::cmt_tests {
namespace {

using namespace detection;

class CmtProgram : public SmallCmtProgram {
 protected:
  void SetUp() override {
    SmallCmtProgram::SetUp();
    if (IsSkipped()) return;
    write_cmt_file(*Detector(small_options(), 4), folder_ / "trained.pth");
  }
  app::Answer import_file(const std::string& file, const std::string& more = "") const {
    return call("import cmt " + file + " --config small.toml --out model.safetensors " + more);
  }
  // Failed, in one sentence that holds this text.
  static void expect_refused(const app::Answer& answer, const std::string& text, int code = 1) {
    EXPECT_EQ(answer.code, code);
    EXPECT_NE(answer.errors.find(text), std::string::npos) << answer.errors;
    EXPECT_EQ(std::count(answer.errors.begin(), answer.errors.end(), '\n'), 1) << answer.errors;
  }
};

TEST_F(CmtProgram, TakesWeightsInAndGivesThemBack) {
  const auto imported = import_file("trained.pth");
  ASSERT_EQ(imported.code, 0) << imported.errors;
  EXPECT_NE(imported.output.find("635 tensors loaded, 0 missing"), std::string::npos) << imported.output;
  ASSERT_EQ(call("export cmt model.safetensors --out back.pth").code, 0);
  ASSERT_EQ(call("export cmt model.safetensors --out back.safetensors").code, 0);
  const weights::TorchFile first(folder_ / "trained.pth"), back(folder_ / "back.pth");
  EXPECT_EQ(back.names(), first.names());
  for (const auto& name : first.names()) EXPECT_TRUE(back.tensor(name).equal(first.tensor(name))) << name;
  EXPECT_EQ(import_file("back.safetensors").code, 0);
}

TEST_F(CmtProgram, RefusesInOneSentence) {
  const std::string whole = storage::read_file(folder_ / "trained.pth");
  std::ofstream(folder_ / "cut.pth", std::ios::binary) << whole.substr(0, whole.size() / 2);
  expect_refused(import_file("cut.pth"),
                 "cut.pth must be a file of torch.save, but its archive is cut short or damaged");
  {
    const std::string pickle =
        "\x80\x02"
        "cos\nsystem\nU\x0c"
        "touch bombed\x85R.";
    caffe2::serialize::PyTorchStreamWriter archive((folder_ / "bomb.pth").string());
    archive.writeRecord("data.pkl", pickle.data(), pickle.size());
    archive.writeEndOfFile();
  }
  expect_refused(import_file("bomb.pth"), "it asks to call 'os.system', which makes no weights; nothing of it was run");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "bombed"));
  weights::write_torch_file(folder_ / "other.pth", {{"fc.weight", torch::ones({2, 2})}}, {}, {});
  expect_refused(import_file("other.pth"), "must hold the weights of this CMT, got 0 that fit, 546 missing");
  auto state = read_cmt_file(folder_ / "trained.pth");
  for (auto& [name, tensor] : state)
    if (name.ends_with("reference_points.weight")) tensor = torch::zeros({61, 3});
  weights::write_torch_file(folder_ / "shape.pth", state, {}, {});
  expect_refused(import_file("shape.pth"),
                 "1 of another shape (pts_bbox_head.reference_points.weight is F32 [61, 3], not F32 [60, 3])");
  EXPECT_EQ(import_file("shape.pth", "--partial").code, 0);
  expect_refused(import_file("none.pth"), "none.pth must be a file that can be read");
  expect_refused(call("import cmt trained.pth --config cmt_r101 --out m.safetensors"), "preset must be reference", 2);
  expect_refused(call("export cmt model.safetensors --out back.txt"), "must end in .pth or .safetensors", 2);
}

}  // namespace
}  // namespace camber::cmt_tests
