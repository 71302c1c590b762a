#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include "apps/called_program.h"
#include "camber/storage/atomic_file.h"

// Two programs that write to one folder: one does, the other says who it is; what a killed one leaves is begun anew.
namespace camber::app {
namespace {

namespace fs = std::filesystem;

class Writers : public CalledProgram {
 protected:
  // Stops the first in the middle, so that it works for as long as the test looks.
  void expect_one_wins(const std::string& long_command, const std::string& short_command, const fs::path& mark) {
    Process first(long_command, folder_, folder_, "first");
    ASSERT_TRUE(appears(mark)) << long_command;
    for (int i = 0; i < 4000 && fs::file_size(mark) == 0; ++i)  // signed when it is locked
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    first.send(SIGSTOP);
    const Answer second = call(short_command);
    EXPECT_EQ(second.code, 1) << second.errors;
    EXPECT_NE(second.errors.find("must be free, but process " + std::to_string(first.id()) + " on " + host_name() +
                                 " works there"),
              std::string::npos)
        << second.errors;
    first.send(SIGKILL);
    first.wait();
    ASSERT_TRUE(fs::exists(mark)) << "what is left says that it is unfinished";
    const Answer third = call(short_command);
    EXPECT_EQ(third.code, 0) << third.errors;
  }
  void write_kitti(int frames) const {
    for (int i = 0; i < frames; ++i) {
      const std::string name = std::to_string(100000 + i);
      for (const char* folder : {"velodyne", "calib"}) fs::create_directories(folder_ / "kitti" / folder);
      storage::write_file(folder_ / "kitti/velodyne" / (name + ".bin"), std::string(1600, '\x3d'));
      storage::write_file(folder_ / "kitti/calib" / (name + ".txt"),
                          "P2: 700 0 600 0 0 700 170 0 0 0 1 0\nR0_rect: 1 0 0 0 1 0 0 0 1\n"
                          "Tr_velo_to_cam: 0 -1 0 0 0 0 -1 0 1 0 0 0\n");
    }
  }
};

TEST_F(Writers, OfSimulatedWorlds) {
  expect_one_wins("simulate --out world --scenes 2000 --threads 1", "simulate --out world --scenes 3 --world.frames=1",
                  folder_ / "world/.unfinished");
  EXPECT_TRUE(fs::exists(folder_ / "world/v1.0-simulated/sample.json"));
  EXPECT_FALSE(fs::exists(folder_ / "world/.unfinished"));
  // Of the killed one's two thousand scenes nothing is left.
  const auto clouds = fs::directory_iterator(folder_ / "world/samples/LIDAR_TOP");
  EXPECT_EQ(std::distance(begin(clouds), end(clouds)), 3);
}

TEST_F(Writers, OfFaultedCopies) {
  ASSERT_EQ(call("simulate --out world --scenes 6 --world.frames=5 --seed 7").code, 0);
  const std::string copy = "faults --data world --faults black:3,beams:3 --out copy --threads 1";
  expect_one_wins(copy, copy, folder_ / "copy/.unfinished");
  EXPECT_EQ(call("inspect --data copy").code, 0);
}

TEST_F(Writers, OfImportedDataSets) {
  write_kitti(600);
  expect_one_wins("import kitti kitti --out own --threads 1", "import kitti kitti --out own",
                  folder_ / "own/.unfinished");
  EXPECT_TRUE(fs::exists(folder_ / "own/v1.0-kitti/sample.json"));
}

}  // namespace
}  // namespace camber::app
