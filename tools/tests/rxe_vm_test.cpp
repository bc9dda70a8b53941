// tools/rxe-vm's exit status, with a QEMU that is a script and a cache that holds nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "backend/temporary_directory.hpp"
#include "tools/tests/child_process_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;

class RxeVmTest : public testing::Test {
 protected:
  RxeVmTest() {
    const std::string script = read_text(kScript), version = "\nVER=";
    const auto at = script.find(version) + version.size();
    fs::create_directory(cache_);
    std::ofstream(cache_ / "stamp") << script.substr(at, script.find(' ', at) - at) << " none\n";
  }
  /// The exit status; what it said is in `err_`.
  int run(const std::string& qemu, const std::string& limit_s) {
    const fs::path program = made_.path() / "qemu";
    std::ofstream(program) << "#!/bin/sh\n" << qemu << "\n";
    chmod(program.c_str(), 0700);
    ChildProcess child(made_.path(), {"/usr/bin/env", "RXE_VM_CACHE=" + cache_.string(),
                                      "RXE_VM_QEMU=" + program.string(), kScript, "-t", limit_s, "true"});
    const int code = child.wait();
    err_ = child.err();
    return code;
  }

  static constexpr const char* kScript = VERBTWIN_SOURCE_DIR "/tools/rxe-vm";
  TemporaryDirectory made_;
  fs::path cache_ = made_.path() / "cache";
  std::string err_;
};

TEST_F(RxeVmTest, AVirtualMachineThatWasKilledHasNotTimedOut) {
  const int code = run("kill -9 $$", "600");
  if (err_.find("missing programs") != std::string::npos) GTEST_SKIP() << err_;
  EXPECT_EQ(code, 125);
  EXPECT_THAT(err_, testing::HasSubstr("the guest ended without a status (qemu exit 137)"));
  EXPECT_EQ(run("trap '' TERM; exec sleep 60", "1"), 124);
  EXPECT_EQ(err_, "rxe-vm: timed out after 1 s\n");
}

}  // namespace
}  // namespace verbtwin::tools
