// OnDevice: what tests of whole runs on real verbs begin with: local ranks started by `verbtwin launch`, and
// the processes that are them.
//
// One thread; owned by the test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {

class OnDevice : public testing::Test {
 protected:
  /// launch --local 3 of the scenario for soft-RoCE, with these flags behind; `under` is what runs it.
  std::unique_ptr<ChildProcess> launch(const std::vector<std::string>& flags,
                                       const std::vector<std::string>& under = {},
                                       const std::string& scenario = "smallbank-3-rxe.json") {
    std::vector<std::string> arguments = under;
    arguments.insert(arguments.end(),
                     {VERBTWIN_BINARY, "launch", "--local", "3", VERBTWIN_SOURCE_DIR "/scenarios/" + scenario,
                      "--quiet", "--out", (directory_ / "result").string()});
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return std::make_unique<ChildProcess>(directory_, arguments);
  }
  static nlohmann::json result_at(const std::filesystem::path& directory) {
    return nlohmann::json::parse(read_text(directory / "result.json"));
  }
  nlohmann::json result() const { return result_at(directory_ / "result"); }
  std::string err() const { return read_text(directory_ / "err"); }

  /// Processes whose command line has this directory's name in it, or which run a rank.
  static std::vector<pid_t> ranks_running() {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      if (read_text(entry.path() / "cmdline").find(std::string("--rank") + '\0') == std::string::npos)
        continue;
      if (read_text(entry.path() / "stat").find(") Z ") != std::string::npos) continue;
      found.push_back(std::stoi(name));
    }
    return found;
  }
  static pid_t find_rank(int rank) {
    for (const pid_t pid : ranks_running()) {
      const std::string line = read_text(std::filesystem::path("/proc") / std::to_string(pid) / "cmdline");
      if (line.find(std::string("--rank") + '\0' + std::to_string(rank) + '\0') != std::string::npos)
        return pid;
    }
    return 0;
  }

  /// Until every rank drives its workers, for a while.
  static void wait_for_measuring(std::size_t ranks_wanted = 3, std::ptrdiff_t workers = 2) {
    const std::ptrdiff_t all_threads = workers + 2;  // the run's, and the one that waits for signals
    const auto working = [all_threads](pid_t pid) {
      std::error_code gone;
      const std::filesystem::directory_iterator threads(
          std::filesystem::path("/proc") / std::to_string(pid) / "task", gone);
      return !gone && std::distance(threads, std::filesystem::directory_iterator()) >= all_threads;
    };
    const std::chrono::steady_clock::time_point limit =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (std::size_t count = 0; count < ranks_wanted;) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::vector<pid_t> ranks = ranks_running();
      count = static_cast<std::size_t>(std::count_if(ranks.begin(), ranks.end(), working));
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  TemporaryDirectory made_;
  std::filesystem::path directory_ = made_.path();
};

}  // namespace verbtwin::tools
