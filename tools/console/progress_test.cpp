#include "tools/console/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace verbtwin::tools {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

/// What was written to a temporary file that stands for the terminal.
class Terminal {
 public:
  std::FILE* file() { return file_.get(); }
  std::string text() {
    std::string text(static_cast<std::size_t>(std::ftell(file())), '\0');
    std::rewind(file());
    text.resize(std::fread(text.data(), 1, text.size(), file()));
    return text;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{std::tmpfile(), std::fclose};
};

TEST(Progress, ShowsShareEtaTimeAndRates) {
  EXPECT_EQ(render_progress({.simulated_us = 300, .total_us = 1200, .committed = 60000, .elapsed_s = 2}, 100),
            "[#####---------------]  25 %  ETA 6.00 s  300 of 1,200 us  150 us/s  30.0 k commits/s");
}

TEST(Progress, ANarrowTerminalLosesTheLeastImportantParts) {
  const ProgressState state{.simulated_us = 300, .total_us = 1200, .committed = 60000, .elapsed_s = 2};
  EXPECT_EQ(render_progress(state, 75),
            "[###-------]  25 %  ETA 6.00 s  300 of 1,200 us  150 us/s  30.0 k commits/s");
  EXPECT_EQ(render_progress(state, 40), " 25 %  ETA 6.00 s  300 of 1,200 us");
  for (std::size_t width = 40; width < 120; ++width) EXPECT_LE(render_progress(state, width).size(), width);
}

TEST(Progress, NothingIsKnownAtTheStart) {
  EXPECT_EQ(render_progress({.simulated_us = 0, .total_us = 1200, .committed = 0, .elapsed_s = 0}, 80),
            "[--------------------]   0 %");
  EXPECT_THAT(render_progress({}, 80), Not(HasSubstr("nan")));
}

TEST(Progress, RedrawsTenTimesASecondAtMost) {
  Terminal terminal;
  double now_s = 100;
  {
    Progress progress(terminal.file(), 80, [&] { return now_s; });
    for (int i = 0; i <= 1000; ++i, now_s += 0.001) progress.update(i, 1000, static_cast<std::uint64_t>(i));
  }
  const std::string text = terminal.text();
  const auto draws = std::count(text.begin(), text.end(), '%');
  EXPECT_GE(draws, 9);
  EXPECT_LE(draws, 11);
}

TEST(Progress, ErasesItself) {
  Terminal terminal;
  {
    Progress progress(terminal.file(), 80);
    progress.update(1, 10, 0);
  }
  EXPECT_THAT(terminal.text(), EndsWith("\r\x1b[K"));
}

/// Whoever prints meanwhile does not make the rest look longer, or shorter.
TEST(Progress, GoesOnWithItsClockWhenItHasBeenErased) {
  Terminal terminal;
  double now_s = 100;
  Progress progress(terminal.file(), 100, [&] { return now_s; });
  progress.update(0, 1000, 0);
  now_s += 5;
  progress.erase();
  EXPECT_THAT(terminal.text(), EndsWith("\r\x1b[K"));
  progress.update(500, 1000, 0);
  EXPECT_THAT(terminal.text(), EndsWith("ETA 5.00 s  500 of 1,000 us  100 us/s  0 commits/s"));
}

TEST(Progress, WritesNothingIfNothingHappened) {
  Terminal terminal;
  { const Progress progress(terminal.file(), 80); }
  EXPECT_EQ(terminal.text(), "");
}

}  // namespace
}  // namespace verbtwin::tools
