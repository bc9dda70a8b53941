#include "tools/console/output_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFileTest : public testing::Test {
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
  static std::string refusal(const fs::path& directory,
                             const std::vector<std::string>& files = {"result.json"},
                             const std::vector<InputFile>& inputs = {}) {
    try {
      const OutputDirectory made(directory, files, inputs);
    } catch (const UserError& error) {
      return error.what();
    }
    return "not refused";
  }

  TemporaryDirectory made_;
  fs::path directory_ = made_.path();
};

TEST_F(OutputFileTest, IsWrittenAndReplaced) {
  write_file_whole(directory_ / "result.json", "one");
  write_file_whole(directory_ / "result.json", "two");
  EXPECT_EQ(read(directory_ / "result.json"), "two");
  EXPECT_EQ(entries(), 1U) << "nothing is left beside it";
}

TEST_F(OutputFileTest, AFailedWriteLeavesTheOldFile) {
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

TEST_F(OutputFileTest, WhatComesBitByBitIsThereInWholeOrNotAtAll) {
  write_file_whole(directory_ / "trace", "former");
  {
    OutputFile file(directory_ / "trace");
    file.write("new");
    EXPECT_EQ(read(directory_ / "trace"), "former");
  }
  EXPECT_EQ(read(directory_ / "trace"), "former");
  EXPECT_EQ(entries(), 1U);
  OutputFile file(directory_ / "trace", OutputFile::Replaces::kPlain);
  file.write("new");
  file.commit();
  EXPECT_EQ(read(directory_ / "trace"), "new");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(OutputFileTest, WhatIsNoPlainFileIsWrittenInPlaceOrReplaced) {
  const fs::path link = directory_ / "link", file = directory_ / "file";
  write_file_whole(file, "former");
  fs::create_symlink(file, link);
  OutputFile in_place(link, OutputFile::Replaces::kPlain);
  in_place.write("through");
  in_place.commit();
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read(file), "through");
  write_file_whole(link, "instead");
  EXPECT_FALSE(fs::is_symlink(link));
  EXPECT_EQ(read(file), "through");
}

TEST_F(OutputFileTest, APipeThatNobodyReadsIsNotWaitedFor) {
  const fs::path pipe = directory_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(OutputFile(pipe, OutputFile::Replaces::kPlain), std::system_error);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  OutputFile file(pipe, OutputFile::Replaces::kPlain);
  file.write("read");
  char text[8]{};
  EXPECT_EQ(::read(reader, text, sizeof text), 4);
  close(reader);
}

TEST_F(OutputFileTest, DirectoriesAreCreated) {
  const OutputDirectory made(directory_ / "a" / "b", {"result.json", "points/000/result.json"});
  EXPECT_TRUE(fs::is_empty(directory_ / "a" / "b"));
}

TEST_F(OutputFileTest, DirectoriesInWhichNothingWasWrittenAreGoneAgain) {
  fs::create_directories(directory_ / "there");
  { const OutputDirectory made(directory_ / "there" / "b" / "c", {"result.json"}); }
  EXPECT_FALSE(fs::exists(directory_ / "there" / "b"));
  { const OutputDirectory found(directory_ / "there", {"result.json"}); }
  EXPECT_TRUE(fs::exists(directory_ / "there")) << "it was there before";
  {
    const OutputDirectory made(directory_ / "kept", {"result.json"});
    write_file_whole(directory_ / "kept" / "result.json", "{}");
  }
  EXPECT_TRUE(fs::exists(directory_ / "kept" / "result.json"));
  {
    const OutputDirectory made(directory_ / "of" / "it", {"result.json"});
    EXPECT_THAT(refusal(directory_ / "of" / "it"), HasSubstr("another verbtwin is writing there"));
    EXPECT_TRUE(fs::exists(directory_ / "of" / "it")) << "the other one's";
  }
}

TEST_F(OutputFileTest, ADirectoryIsOneCommandsAlone) {
  {
    const OutputDirectory one(directory_, {"result.json"});
    EXPECT_EQ(refusal(directory_), "--out " + directory_.string() +
                                       ": another verbtwin is writing there; give another directory, or wait "
                                       "until it ends");
  }
  EXPECT_EQ(refusal(directory_), "not refused");
  EXPECT_EQ(entries(), 0U);
}

TEST_F(OutputFileTest, WhatIsInTheWayIsRefused) {
  std::ofstream(directory_ / "file") << "x";
  EXPECT_THAT(refusal(directory_ / "file"), HasSubstr("a file of that name is in the way"));
  EXPECT_THAT(refusal(directory_ / "file" / "below"), HasSubstr("cannot create it (Not a directory)"));
  fs::create_directories(directory_ / "taken" / "result.json");
  EXPECT_THAT(refusal(directory_ / "taken"), HasSubstr("result.json in it is a directory"));
  EXPECT_THAT(refusal(directory_ / "taken", {"plan.json", "result.json"}),
              HasSubstr("result.json in it is a directory"))
      << "all names are looked at";
  EXPECT_THAT(refusal(directory_, {"file/000/result.json"}), HasSubstr("file in it is a file"));
}

TEST_F(OutputFileTest, WhatIsReadIsNotOverwritten) {
  const fs::path input = directory_ / "plan.csv";
  std::ofstream(input) << "x";
  fs::create_directory_symlink(directory_, directory_ / "link");
  const std::vector<InputFile> inputs = {{directory_ / "other", "another"}, {input, "the scenario itself"}};
  EXPECT_THAT(refusal(directory_ / "link", {"plan.json", "plan.csv"}, inputs),
              HasSubstr("plan.csv in it is the scenario itself; give another directory"));
  EXPECT_EQ(refusal(directory_, {"plan.json"}, inputs), "not refused");
  EXPECT_NE(overwritten(directory_ / "link" / "other", inputs), nullptr) << "that none of them is there yet";
}

TEST_F(OutputFileTest, AnUnwritableDirectoryIsRefused) {
  // Not even root writes to /proc.
  EXPECT_THAT(refusal("/proc"), HasSubstr("cannot write there"));
  EXPECT_THAT(refusal("/proc/no-such-directory"), HasSubstr("cannot create it"));
}

/// Of two that begin together, who is refused leaves the directory to the other, whichever made it.
TEST_F(OutputFileTest, WhoIsRefusedRemovesNothingOfTheOthers) {
  const fs::path directory = directory_ / "a" / "b";
  for (int round = 0; round < 100; ++round) {
    std::barrier both(2);
    std::atomic<int> refused = 0;
    std::array<bool, 2> there{};
    const auto write = [&](std::size_t who) {
      both.arrive_and_wait();
      std::optional<OutputDirectory> mine;
      try {
        mine.emplace(directory, std::vector<std::string>{"result.json"});
      } catch (const UserError&) {
        ++refused;
      }
      both.arrive_and_wait();
      there[who] = !mine || fs::exists(directory);
      both.arrive_and_wait();
    };
    std::thread other(write, 1);
    write(0);
    other.join();
    ASSERT_EQ(refused, 1) << round;
    ASSERT_TRUE(there[0] && there[1]) << round;
    fs::remove_all(directory_ / "a");
  }
}

}  // namespace
}  // namespace verbtwin::tools
