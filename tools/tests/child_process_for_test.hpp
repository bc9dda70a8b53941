// ChildProcess: a program started by a test, with what it wrote and how it ended.
//
// Owned and used by one thread; the destructor kills a child that nobody waited for. Output
// goes to files, so that a child never blocks on a full pipe.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace verbtwin::tools {

inline std::string read_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class ChildProcess {
 public:
  /// Standard output and error go to `out` and `err` in `directory`.
  ChildProcess(const std::filesystem::path& directory, std::vector<std::string> arguments)
      : out_(directory / "out"), err_(directory / "err") {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    redirect(out_, STDOUT_FILENO);
    redirect(err_, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~ChildProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void signal(int number) const { kill(pid_, number); }

  /// The exit code, or 1000 and the number of the signal that killed it.
  int wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  std::string out() const { return read_text(out_); }
  std::string err() const { return read_text(err_); }

 private:
  static void redirect(const std::filesystem::path& file, int descriptor) {
    dup2(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), descriptor);
  }

  std::filesystem::path out_;
  std::filesystem::path err_;
  pid_t pid_ = -1;
};

}  // namespace verbtwin::tools
