// What is refused of a platform's XML before SimGrid sees it, and where in the file.
#include "sim/platform_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::sim {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// What stands behind the file's name.
std::string refusal(const std::string& text) {
  static const TemporaryDirectory directory;
  const std::filesystem::path file = directory.write("p.xml", text);
  try {
    read_platform_file(file);
  } catch (const UserError& error) {
    EXPECT_EQ(error.pointer(), kPlatformPointer);
    const std::string message = error.what(), begins = "platform " + file.string() + ":";
    EXPECT_TRUE(message.starts_with(begins)) << message;
    return message.substr(begins.size());
  }
  return "accepted";
}

/// What goes through the rest of the text at every element takes hours for these.
TEST(PlatformFile, TakesTimeInProportionToItsLength) {
  constexpr int kMany = 2'000'000;
  EXPECT_EQ(refusal(repeated("<link/>\n", kMany)), "accepted");
  EXPECT_EQ(refusal(repeated("<trace/>\n", kMany)), "accepted");
  EXPECT_EQ(refusal("<zone>" + repeated("<prop>\n</prop>", kMany)), "accepted");
  EXPECT_EQ(refusal(repeated("<zone>\n", kMany)), "101:2: <zone> is 101 elements deep; allowed: up to 100");
}

TEST(PlatformFile, APlaceIsALineAndACharacter) {
  const std::string says = " routing=\"ö\": unknown; allowed: ";
  EXPECT_THAT(refusal("<zone routing='ö'/>"), testing::StartsWith("1:16:" + says));
  EXPECT_THAT(refusal("<zone id='ü'\n\n  id='ä' routing='ö'/>"), testing::StartsWith("3:19:" + says));
}

TEST(PlatformFile, AValueOfATraceStandsAtItsLine) {
  EXPECT_EQ(refusal("<trace>\n0 1\n 1 -5\n</trace>"), "3:1: a profile's value of -5; allowed: 0 and more");
}

}  // namespace
}  // namespace verbtwin::sim
