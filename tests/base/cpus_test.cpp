// Quotas of control groups, read from trees made here.
#include "base/cpus.h"

#include <gtest/gtest.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace cpus = aster::cpus;
namespace fs = std::filesystem;

class Groups : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/aster_groups_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root = name;
  }
  void TearDown() override { fs::remove_all(root); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  int quota(const std::string& membership) {
    write("membership", membership);
    return cpus::quota(root.c_str(), (root / "membership").c_str());
  }
  fs::path root;
};

TEST_F(Groups, NoneMeansNoLimit) {
  EXPECT_EQ(cpus::quota("/nowhere", "/nowhere/either"), INT_MAX);
  EXPECT_EQ(quota("0::/a/b\n"), INT_MAX);
  write("a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/a\n"), INT_MAX);
}

TEST_F(Groups, VersionTwoTakesTheLeastOnTheWayUp) {
  write("a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 4);
  write("a/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 2);  // one and a half, rounded up
  EXPECT_EQ(quota("0::/\n"), INT_MAX);
  write("cpu.max", "10000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 1);
  EXPECT_EQ(quota("0::/elsewhere\n"), 1);
}

TEST_F(Groups, VersionOne) {
  write("cpu/x/cpu.cfs_quota_us", "300000\n");
  write("cpu/x/cpu.cfs_period_us", "100000\n");
  write("cpu/y/cpu.cfs_quota_us", "-1\n");
  write("cpu/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("12:memory:/z\n4:cpu,cpuacct:/x\n1:name=systemd:/q\n"), 3);
  EXPECT_EQ(quota("4:cpu,cpuacct:/y\n"), INT_MAX);
}

TEST_F(Groups, Nonsense) {
  write("a/cpu.max", "a b c");
  EXPECT_EQ(quota("0::/a\n"), INT_MAX);
  write("a/cpu.max", "");
  EXPECT_EQ(quota("0::/a\n"), INT_MAX);
  write("a/cpu.max", "100000 0\n");
  EXPECT_EQ(quota("0::/a\n"), INT_MAX);
  EXPECT_EQ(quota("no colons\n:\n::\n\n"), INT_MAX);
  EXPECT_EQ(quota("0::/" + std::string(3000, 'x') + "/" + std::string(990, 'y') + "\n"), INT_MAX);
}

}  // namespace
