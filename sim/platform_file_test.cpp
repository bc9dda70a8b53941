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

/// A cluster of eight hosts with this topology.
std::string cluster(const std::string& topology, const std::string& parameters) {
  return refusal("<cluster radical='0-7' topology='" + topology + "' topo_parameters='" + parameters + "'/>");
}

TEST(PlatformFile, AFatTreeIsWhatItsParametersSay) {
  EXPECT_EQ(cluster("FAT_TREE", "2;4,2;1,2;1,2"), "accepted");
  for (const char* wrong :
       {"", "x", "2;4,2;1,2", "2;4,2;1,2;0,2", "99999999999999999999;1;1;1", "3;4,2;1,2;1,2",
        "1000000000;1;1;1", "2;4,2;1,2;1,2;", "2;4,2;1,2;1,2x", "2,2;4,2;1,2;1,2"}) {
    EXPECT_EQ(
        cluster("FAT_TREE", wrong),
        std::string("1:61: topo_parameters=\"") + wrong +
            "\": no fat tree; allowed: levels; for each level children; parents; cables to each of them: "
            "whole numbers from 1, as in \"2;4,4;1,2;1,1\"");
  }
  EXPECT_THAT(cluster("FAT_TREE", "2;4,2;1,2;1,999999999"),
              EndsWith(": more than 131072 cables; allowed: up to "
                       "131072"));
  EXPECT_THAT(
      cluster("FAT_TREE", "2;4,4;1,2;1,2"),
      EndsWith(": 16 places for the 8 hosts of radical; allowed: at most as many as there are hosts"));
}

TEST(PlatformFile, SoAreTheOthers) {
  EXPECT_EQ(cluster("TORUS", "2,2,2"), "accepted");
  EXPECT_THAT(cluster("TORUS", "0,2,2"),
              HasSubstr("\": no dimensions of a torus; allowed: whole numbers from 1"));
  EXPECT_THAT(cluster("TORUS", "3,2,2"), HasSubstr("12 places for the 8 hosts"));
  EXPECT_EQ(cluster("DRAGONFLY", "2,1;1,1;2,1;2"), "accepted");
  for (const char* wrong : {"", "2,1", "2,x;1,1;2,1;2", "2,0;1,1;2,1;2", "2,1;1,1;2,1;0", "2;1;2;2"}) {
    EXPECT_THAT(cluster("DRAGONFLY", wrong),
                HasSubstr("\": no dragonfly; allowed: groups,cables;chassis,cables;routers,cables;ports: "))
        << wrong;
  }
  EXPECT_THAT(cluster("DRAGONFLY", "2,1;1,1;4,1;2"), HasSubstr("16 places for the 8 hosts"));
  EXPECT_EQ(cluster("FLAT", "anything"), "accepted") << "SimGrid does not look at it";
  EXPECT_EQ(cluster("TORRUS", "2,2,2"),
            "1:34: topology=\"TORRUS\": unknown; allowed: FLAT, TORUS, FAT_TREE, DRAGONFLY; did you mean "
            "\"TORUS\"?");
  EXPECT_THAT(refusal("<cluster radical='0-7' topology='TORUS'/>"),
              HasSubstr("1:2: topo_parameters=\"\": no "));
}

TEST(PlatformFile, AMisspeltElementGetsTheNearestName) {
  EXPECT_THAT(refusal("<zone>\n <hots id='a'/>"),
              testing::StartsWith("2:3: <hots>: no element of a platform; "
                                  "allowed: zone, host, link, "));
  EXPECT_THAT(refusal("<zone>\n <hots id='a'/>"), EndsWith("; did you mean \"host\"?"));
  EXPECT_THAT(refusal(repeated("<a>", 100'000)), HasSubstr("1:2: <a>: no element"));
  EXPECT_THAT(refusal("<zone routing='Ful'/>"), EndsWith("; did you mean \"Full\"?"));
}

TEST(PlatformFile, NamesAreThereOnce) {
  const std::string two = "<host id='a'/><link id='a'/>\n";
  EXPECT_EQ(refusal(two), "accepted") << "a host and a link";
  EXPECT_EQ(refusal(two + "<host id='a'/>"),
            "2:11: 'a' is there already, at 1:11; allowed: names that differ");
  EXPECT_EQ(refusal(two + "<link id='a'/>"),
            "2:11: 'a' is there already, at 1:25; allowed: names that differ");
  EXPECT_THAT(refusal(two + "<backbone id='a'/>"), HasSubstr("2:15: 'a' is there already"));
  EXPECT_THAT(refusal(two + "<zone id='b'><router id='a'/>"), HasSubstr("'a' is there already, at 1:11"));
  EXPECT_EQ(refusal("<host id='a&amp;'/><host id='a&amp;'/>"), "accepted") << "SimGrid's to read";
}

TEST(PlatformFile, RoutesSayNamesThatStandBeforeThem) {
  const std::string hosts =
      "<zone id='z'><host id='ant'/><router id='r'/><link id='wire'/>"
      "<link id='two' sharing_policy='SPLITDUPLEX'/>\n";
  const auto route = [&](const std::string& link) {
    return refusal(hosts + "<route src='ant' dst='r'><link_ctn id=" + link + "/></route>");
  };
  for (const char* right : {"'wire'", "'two' direction='UP'", "'two_DOWN'", "'wire' direction='NONE'",
                            "'__loopback__'", "'a&amp;b'"}) {
    EXPECT_EQ(route(right), "accepted") << right;
  }
  EXPECT_EQ(route("'wure'"),
            "2:40: no link 'wure'; allowed: the id of a <link> that stands before the route; did "
            "you mean \"wire\"?");
  EXPECT_THAT(route("'wire_UP'"), HasSubstr("no link 'wire_UP'"));
  EXPECT_EQ(route("'wire' direction='UP'"),
            "2:57: link 'wire' is one for both directions; allowed: no direction, or "
            "sharing_policy=\"SPLITDUPLEX\" of the link");
  EXPECT_THAT(refusal("<route><link_ctn id='l'/></route><link id='l'/>"), HasSubstr("no link 'l'"));
  EXPECT_EQ(
      refusal(hosts + "<route src='ant' dst='art'/>"),
      "2:23: dst='art': no such host, router or zone; allowed: the id of one that stands before the route; "
      "did you mean \"ant\"?");
  EXPECT_EQ(refusal(hosts + "<zoneRoute src='z' dst='z' gw_src='r' gw_dst='ant'/>"), "accepted");
  EXPECT_EQ(refusal("<cluster id='c' prefix='n-' suffix='' radical='0-1'/>"
                    "<route src='n-0' dst='n-1'><link_ctn id='c_link_1_UP'/></route>"),
            "accepted")
      << "what a cluster makes";
}

TEST(PlatformFile, SpeedsAreAboveZero) {
  for (const char* right : {"1Gf", "1Gf,0.5Gf", "100", "1e9f"})
    EXPECT_EQ(refusal(std::string("<host speed='") + right + "'/>"), "accepted") << right;
  for (const char* wrong : {"0f", "-1f", "0", "1Gf,0f", "nan", "inff"}) {
    EXPECT_EQ(refusal(std::string("<host speed='") + wrong + "'/>"),
              std::string("1:14: speed=\"") + wrong + "\": allowed: above 0, as in \"1Gf\"");
  }
  EXPECT_EQ(refusal("<host core='99999999999999999999'/>"),
            "1:13: core=\"99999999999999999999\": allowed: whole numbers from 1");
  EXPECT_THAT(refusal("<host core='0'/>"), HasSubstr("whole numbers from 1"));
  EXPECT_EQ(refusal("<host core='2' pstate='0.0'/>"), "accepted");
}

TEST(PlatformFile, NamesAreText) {
  const auto why = [](const char* byte) {
    return std::string(": a byte ") + byte + " that is no text; allowed: printable characters in UTF-8";
  };
  EXPECT_EQ(refusal(std::string("<host id='h\0'/>", 15)), "1:12: id" + why("0x00"));
  EXPECT_EQ(refusal("<host\nid='h\xff\xfe'/>"), "2:6: id" + why("0xff"));
  EXPECT_EQ(refusal("<host id='\x1b[1m'/>"), "1:11: id" + why("0x1b"));
  EXPECT_EQ(refusal(std::string("<\0h\0o\0s\0t\0", 10)), "1:2: an element" + why("0x00"));
  for (const char* wrong :
       {"\x7f", "\xc2\x85", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    EXPECT_THAT(refusal(std::string("<host id='") + wrong + "'/>"), HasSubstr("1:11: id: a byte 0x"))
        << wrong;
  EXPECT_EQ(refusal("<host id='€😀'/>"), "accepted");
  EXPECT_EQ(refusal("<host id='hö'/><prop value='1\n\t2'/>"), "accepted");
}

}  // namespace
}  // namespace verbtwin::sim
