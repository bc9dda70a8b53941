// CommandLine: the verbtwin program as its users meet it, started as a process, with a small scenario.
//
// For tests only. Owned and used by one thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {

/// Its line, or "accepted".
template <typename Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

struct Ended {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class CommandLine : public testing::Test {
 protected:
  void SetUp() override { scenario_ = write("small.json", kSmall); }

  std::string write(const std::string& name, const std::string& text) const {
    return made_.write(name, text).string();
  }

  ChildProcess start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), VERBTWIN_BINARY);
    return {directory_, std::move(arguments)};
  }

  Ended verbtwin(std::vector<std::string> arguments) const {
    ChildProcess child = start(std::move(arguments));
    const int exit_code = child.wait();
    return {exit_code, child.out(), child.err()};
  }

  /// The one line with which bad input is refused, without its end and with DIR for the test's directory.
  std::string refusal(std::vector<std::string> arguments) const {
    const Ended ended = verbtwin(std::move(arguments));
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    std::string line = ended.err.substr(0, ended.err.find('\n'));
    for (std::size_t at; (at = line.find(directory_.string())) != std::string::npos;) {
      line.replace(at, directory_.string().size(), "DIR");
    }
    return line;
  }
  /// For a scenario given as text.
  std::string refusal_of(const std::string& text) const {
    return refusal({"run", write("bad.json", text), "--out", (directory_ / "bad_out").string()});
  }

  static std::string with_sweep(const std::string& sweep) {
    std::string text = kSmall;
    return text.insert(text.rfind('}'), ", \"sweep\": " + sweep);
  }

  static constexpr const char* kSmall = R"({
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 2},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank", "accounts_per_thread": 1000},
  "run": {"warmup_us": 20, "measure_us": 100}
})";

  TemporaryDirectory made_;
  std::filesystem::path directory_ = made_.path();
  std::string scenario_;
};

/// `text` with `what` in place of `where`.
inline std::string edited(std::string text, const std::string& where, const std::string& what) {
  return text.replace(text.find(where), where.size(), what);
}

}  // namespace verbtwin::tools
