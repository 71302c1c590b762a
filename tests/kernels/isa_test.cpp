#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "camber/kernels/limits.h"

namespace camber::kernels {
namespace {

class IsaChoice : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* before = std::getenv("CAMBER_ISA")) before_ = before;
  }
  void TearDown() override {
    if (before_.empty())
      unsetenv("CAMBER_ISA");
    else
      setenv("CAMBER_ISA", before_.c_str(), 1);
  }
  static std::string refusal(const char* name) {
    setenv("CAMBER_ISA", name, 1);
    try {
      chosen_isa();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::string before_;
};

TEST_F(IsaChoice, TakesTheRichestByDefault) {
  unsetenv("CAMBER_ISA");
  const Isa isa = chosen_isa();
  EXPECT_TRUE(isa_supported(isa));
  for (const Isa other : {Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (isa_supported(other)) {
      EXPECT_GE(isa, other);
    }
  }
}

TEST_F(IsaChoice, FollowsTheEnvironment) {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (isa_supported(isa)) {
      setenv("CAMBER_ISA", isa_name(isa), 1);
      EXPECT_EQ(chosen_isa(), isa);
    } else {
      EXPECT_NE(refusal(isa_name(isa)).find(isa_name(isa)), std::string::npos);
    }
  }
}

TEST_F(IsaChoice, RefusesAnUnknownNameWithASentence) {
  EXPECT_EQ(refusal("sse9"), "[biased_attention] CAMBER_ISA must be scalar, avx2, avx512 or avx512_bf16, got sse9");
}

TEST(Support, SaysWhyAWidthIsRefused) {
  AttentionProblem problem;
  problem.key_width = 257;
  problem.value_width = 32;
  EXPECT_EQ(size_obstacles(problem), std::vector<std::string>{"the head dimension is 257, the kernels take 1 to 256"});
  EXPECT_THROW(forward(problem, {}), std::invalid_argument);
  problem.key_width = 256;
  EXPECT_EQ(size_obstacles(problem), std::vector<std::string>{});
}

TEST(Support, SaysWhyTooManyKeysAreRefused) {
  AttentionProblem problem;
  problem.key_width = problem.value_width = 32;
  problem.keys = std::int64_t{1} << 31;
  EXPECT_EQ(size_obstacles(problem),
            std::vector<std::string>{"there are 2147483648 keys, the kernels take fewer than 2^31"});
  EXPECT_THROW(forward(problem, {}), std::invalid_argument);
  problem.keys -= 1;
  EXPECT_EQ(size_obstacles(problem), std::vector<std::string>{});
}

}  // namespace
}  // namespace camber::kernels
