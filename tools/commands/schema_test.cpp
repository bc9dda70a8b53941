// verbtwin schema, and the copy of it that the shipped scenarios name, for editors.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "scenarios/document.hpp"
#include "tools/tests/command_line_for_test.hpp"

namespace verbtwin::tools {
namespace {

class SchemaCommand : public CommandLine {};

TEST_F(SchemaCommand, PrintsWhatTheShippedScenariosName) {
  const std::filesystem::path file = VERBTWIN_SOURCE_DIR "/scenarios/scenario.schema.json";
  const Ended ended = verbtwin({"schema"});
  EXPECT_EQ(ended.exit_code, 0);
  if (std::getenv("VERBTWIN_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << ended.out;
  EXPECT_EQ(ended.out, scenarios::read_text(file))
      << "what a scenario can say has changed: verbtwin schema > scenarios/scenario.schema.json";
}

}  // namespace
}  // namespace verbtwin::tools
