#include "tools/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sys/resource.h>
#include <csignal>
#include <fstream>
#include <sstream>
#include <system_error>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFile : public testing::Test {
 protected:
  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }
  std::string refusal(const fs::path& directory) const {
    try {
      prepare_output_directory(directory, "result.json");
    } catch (const UserError& error) {
      return error.what();
    }
    return "not refused";
  }

  TemporaryDirectory made_;
  fs::path directory_ = made_.path();
};

TEST_F(OutputFile, IsWrittenAndReplaced) {
  write_file_whole(directory_ / "result.json", "one");
  write_file_whole(directory_ / "result.json", "two");
  EXPECT_EQ(read(directory_ / "result.json"), "two");
  EXPECT_EQ(entries(), 1U) << "nothing is left beside it";
}

TEST_F(OutputFile, AFailedWriteLeavesTheOldFile) {
  write_file_whole(directory_ / "result.json", "whole");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(write_file_whole(directory_ / "result.json", std::string(5000, 'x')), std::system_error);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read(directory_ / "result.json"), "whole");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(OutputFile, DirectoriesAreCreated) {
  prepare_output_directory(directory_ / "a" / "b", "result.json");
  EXPECT_TRUE(fs::is_empty(directory_ / "a" / "b"));
}

TEST_F(OutputFile, WhatIsInTheWayIsRefused) {
  std::ofstream(directory_ / "file") << "x";
  EXPECT_THAT(refusal(directory_ / "file"), HasSubstr("a file of that name is in the way"));
  EXPECT_THAT(refusal(directory_ / "file" / "below"), HasSubstr("cannot create it (Not a directory)"));
  fs::create_directories(directory_ / "taken" / "result.json");
  EXPECT_THAT(refusal(directory_ / "taken"), HasSubstr("result.json in it is a directory"));
}

TEST_F(OutputFile, AnUnwritableDirectoryIsRefused) {
  // Not even root writes to /proc.
  EXPECT_THAT(refusal("/proc"), HasSubstr("cannot write there"));
  EXPECT_THAT(refusal("/proc/no-such-directory"), HasSubstr("cannot create it"));
}

}  // namespace
}  // namespace verbtwin::tools
