// `cmake --install`: what comes of it runs from anywhere, with all that it reads beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "tools/child_process_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Install, ThePrefixHasAllThatTheProgramReads) {
  const TemporaryDirectory made;
  const fs::path prefix = made.path() / "prefix";
  const auto run = [&](const std::vector<std::string>& arguments) {
    ChildProcess child(made.path(), arguments);
    EXPECT_EQ(child.wait(), 0) << child.err();
    return child.out();
  };
  run({VERBTWIN_CMAKE, "--install", VERBTWIN_BUILD_DIR, "--prefix", prefix.string()});

  // Without the variable that names the data of another place.
  const auto verbtwin = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "-C", "/", "-u", "VERBTWIN_DATA_DIR",
                                         (prefix / "bin/verbtwin").string()});
    return run(arguments);
  };
  EXPECT_THAT(verbtwin({"list", "profiles"}), HasSubstr("connectx-4"));
  const fs::path scenarios = prefix / "share/verbtwin/scenarios";
  EXPECT_THAT(verbtwin({"check", (scenarios / "smallbank-16.json").string()}), HasSubstr("is valid"));
  EXPECT_TRUE(fs::exists(scenarios / "scenario.schema.json"));
  EXPECT_TRUE(fs::exists(scenarios / "platforms/sixteen-hosts.xml"));
  for (const char* read_by_calibrate : {"machines/groups.json", "experiments", "published/train"})
    EXPECT_TRUE(fs::exists(prefix / "share/verbtwin" / read_by_calibrate)) << read_by_calibrate;
  EXPECT_FALSE(fs::exists(prefix / "share/verbtwin/fit.cpp"));
}

}  // namespace
}  // namespace verbtwin::tools
