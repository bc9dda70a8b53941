// `cmake --install` and `cpack`: what comes of them runs from anywhere, with all that it reads beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Install : public testing::Test {
 protected:
  std::string run(const std::vector<std::string>& arguments) const {
    ChildProcess child(directory_, arguments);
    EXPECT_EQ(child.wait(), 0) << child.out() << child.err();
    return child.out();
  }

  /// The installed program, without the variable that names the data of another place.
  std::string verbtwin(const fs::path& prefix, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "-C", "/", "-u", "VERBTWIN_DATA_DIR",
                                         (prefix / "bin/verbtwin").string()});
    return run(arguments);
  }

  TemporaryDirectory made_;
  fs::path directory_ = made_.path();
};

TEST_F(Install, ThePrefixHasAllThatTheProgramReads) {
  const fs::path prefix = directory_ / "prefix";
  run({VERBTWIN_CMAKE, "--install", VERBTWIN_BUILD_DIR, "--prefix", prefix.string()});
  EXPECT_THAT(verbtwin(prefix, {"list", "profiles"}), HasSubstr("connectx-4"));
  const fs::path scenarios = prefix / "share/verbtwin/scenarios";
  EXPECT_THAT(verbtwin(prefix, {"check", (scenarios / "smallbank-16.json").string()}), HasSubstr("is valid"));
  EXPECT_TRUE(fs::exists(scenarios / "scenario.schema.json"));
  EXPECT_TRUE(fs::exists(scenarios / "platforms/sixteen-hosts.xml"));
  for (const char* read_by_calibrate : {"machines/groups.json", "experiments", "published/train"})
    EXPECT_TRUE(fs::exists(prefix / "share/verbtwin" / read_by_calibrate)) << read_by_calibrate;
  EXPECT_FALSE(fs::exists(prefix / "share/verbtwin/fit.cpp"));
}

TEST_F(Install, TheDebianPackageHasThemToo) {
  const fs::path config = fs::path(VERBTWIN_BUILD_DIR) / "CPackConfig.cmake";
  run({VERBTWIN_CPACK, "--config", config.string(), "-B", directory_.string()});
  std::vector<std::string> packages;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.path().extension() == ".deb") packages.push_back(entry.path().string());
  }
  ASSERT_THAT(packages, testing::SizeIs(1));
  EXPECT_THAT(run({"/usr/bin/dpkg-deb", "--field", packages[0], "Depends"}), HasSubstr("libsimgrid"));
  run({"/usr/bin/dpkg-deb", "--extract", packages[0], (directory_ / "root").string()});
  EXPECT_THAT(verbtwin(directory_ / "root/usr", {"list", "profiles"}), HasSubstr("connectx-4"));
}

}  // namespace
}  // namespace verbtwin::tools
