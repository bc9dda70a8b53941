// CalibrationData: a copy of calibration/ with one experiment, and the verbtwin program that works on it.
//
// For tests only. One thread; the program finds the copy by the environment.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {

inline const std::filesystem::path kData = std::filesystem::path(VERBTWIN_SOURCE_DIR) / "calibration";

class CalibrationData : public testing::Test {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    for (const char* folder : {"experiments", "published/train"}) fs::create_directories(directory_ / folder);
    for (const char* folder : {"profiles", "machines"}) {
      fs::copy(kData / folder, directory_ / folder, fs::copy_options::recursive);
    }
    fs::copy(kData / "published/train/cx4_many_queue_pairs_read.csv", directory_ / "published/train");
    fs::copy(kData / "experiments/cx4_many_queue_pairs_read.json", directory_ / "experiments");
    std::ofstream(directory_ / "experiments/left-out.json") << "[]";
    setenv("VERBTWIN_DATA_DIR", directory_.c_str(), 1);
  }
  void TearDown() override { unsetenv("VERBTWIN_DATA_DIR"); }

  ChildProcess verbtwin(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), VERBTWIN_BINARY);
    return {directory_, std::move(arguments)};
  }

  TemporaryDirectory made_;
  const std::filesystem::path directory_ = made_.path();
};

}  // namespace verbtwin::tools
