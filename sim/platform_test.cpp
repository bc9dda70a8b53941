#include "sim/platform.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>
#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/Link.hpp>

#include "backend/temporary_directory.hpp"
#include "backend/user_error.hpp"
#include "sim/fabric.hpp"
#include "sim/platform_file.hpp"

namespace verbtwin::sim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string host_name(const Platform& platform, int endpoint) {
  return platform.host(endpoint)->get_cname();
}

std::vector<std::string> link_names(const Platform& platform, int from, int to) {
  const std::vector<std::uint32_t> route = platform.route(from, to);
  std::vector<std::string> names;
  for (const std::uint32_t link : route) names.push_back(platform.link(link).name);
  return names;
}

std::filesystem::path file_with(const std::string& name, const std::string& text) {
  static const TemporaryDirectory directory;
  return directory.write(name, text);
}

std::string platform_xml(const std::string& body) {
  return R"(<?xml version='1.0'?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">)" +
         body + "</platform>\n";
}

std::string zone_xml(const std::string& body) {
  return platform_xml(R"(<zone id="z" routing="Full">
<host id="zebra" speed="1Gf"/><host id="ant" speed="1Gf"/><host id="mole" speed="1Gf"/>
<link id="wire" bandwidth="10GBps" latency="100ns"/>)" +
                      body + "</zone>");
}

const std::string kRoutes = R"(<route src="zebra" dst="ant"><link_ctn id="wire"/></route>
<route src="zebra" dst="mole"><link_ctn id="wire"/></route>
<route src="ant" dst="mole"><link_ctn id="wire"/></route>)";

/// The message of the UserError that loading `text` ends in.
std::string refusal(const std::string& text, int nodes = 2) {
  const auto path = file_with("refused.xml", text);
  testing::internal::CaptureStderr();
  std::string message = "(accepted)";
  try {
    Platform::from_xml(path, nodes);
  } catch (const UserError& error) {
    EXPECT_EQ(error.pointer(), "/cluster/network/platform");
    message = error.what();
    EXPECT_THAT(message, AllOf(HasSubstr("refused.xml"), Not(HasSubstr("\n"))));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  return message;
}

TEST(Platform, StarHasAnUpAndADownLinkPerNic) {
  const auto platform = Platform::star({3, 2, 100, 50'000, 200'000});
  EXPECT_EQ(platform->endpoints(), 6);
  EXPECT_EQ(platform->links(), 12U + 1);  // SimGrid adds a loopback
  EXPECT_EQ(platform->endpoint(2, 1), 5);
  EXPECT_EQ(host_name(*platform, 5), "node-2-nic-1");
  const std::vector<std::uint32_t> route =
      platform->route(platform->endpoint(0, 1), platform->endpoint(2, 0));
  ASSERT_THAT(route, SizeIs(2));
  const LinkInfo& up = platform->link(route[0]);
  const LinkInfo& down = platform->link(route[1]);
  EXPECT_EQ(up.name, "node-0-nic-1_UP");
  EXPECT_EQ(up.latency_ps, 50'000);
  EXPECT_EQ(up.bandwidth_bytes_per_s, 12.5e9);
  EXPECT_EQ(down.name, "node-2-nic-0_DOWN");
  EXPECT_EQ(down.latency_ps, 250'000);
  EXPECT_TRUE(platform->link(route[1]).on);
  EXPECT_THAT(platform->route(4, 4), IsEmpty());
}

TEST(Platform, HundredsFollowOneAnotherInOneProcess) {
  for (int again = 0; again < 300; ++again) {
    const int nodes = 2 + again % 7;
    const auto platform = Platform::star({nodes, 2, 25, 10'000, 0});
    ASSERT_EQ(platform->endpoints(), 2 * nodes);
    ASSERT_THAT(link_names(*platform, 0, 2), ElementsAre("node-0-nic-0_UP", "node-1-nic-0_DOWN"));
    ASSERT_EQ(simgrid::s4u::Engine::get_clock(), 0.0);
    simgrid::s4u::Engine::get_instance()->run_until(1e-3);
  }
}

TEST(Platform, TellsOfLinksThatChange) {
  const auto platform = Platform::star({2, 1, 100, 0, 0});
  const std::vector<std::uint32_t> route = platform->route(0, 1);
  std::vector<std::uint32_t> changed;
  platform->on_link_change([&](std::uint32_t link) { changed.push_back(link); });
  auto* up = simgrid::s4u::Link::by_name("node-0-nic-0_UP");
  up->set_bandwidth(1e9);
  EXPECT_EQ(platform->link(route[0]).bandwidth_bytes_per_s, 1e9);
  up->turn_off();
  EXPECT_FALSE(platform->link(route[0]).on);
  EXPECT_TRUE(platform->link(route[1]).on);
  up->turn_on();
  EXPECT_TRUE(platform->link(route[0]).on);
  EXPECT_THAT(changed, ElementsAre(route[0], route[0], route[0]));
}

TEST(PlatformXml, HostsInFileOrderAreTheNodes) {
  const auto file = file_with("order.xml", zone_xml(kRoutes));
  for (int again = 0; again < 3; ++again) {
    const auto platform = Platform::from_xml(file, 2);
    EXPECT_EQ(platform->endpoints(), 2);
    EXPECT_EQ(platform->endpoint(1, 3), 1);
    EXPECT_EQ(host_name(*platform, 0), "zebra");
    EXPECT_EQ(host_name(*platform, 1), "ant");
    EXPECT_THAT(link_names(*platform, 1, 0), ElementsAre("wire"));
    EXPECT_THAT(link_names(*platform, 1, 1), IsEmpty());
  }
}

TEST(PlatformXml, ClustersCountTheirHostsInOrder) {
  const auto file =
      file_with("cluster.xml", platform_xml(R"(<cluster id="c" prefix="n-" suffix="" radical="0-11"
speed="1Gf" bw="1GBps" lat="1us" bb_bw="10GBps" bb_lat="100ns"/>)"));
  const auto platform = Platform::from_xml(file, 12);
  EXPECT_EQ(host_name(*platform, 2), "n-2");
  EXPECT_EQ(host_name(*platform, 11), "n-11");
  EXPECT_THAT(link_names(*platform, 2, 11), ElementsAre("c_link_2_UP", "c_backbone", "c_link_11_DOWN"));
}

TEST(PlatformXml, MessagesDoNotWaitOnALinkThatIsNotShared) {
  for (const char* policy : {"SHARED", "FATPIPE"}) {
    const auto file = file_with("fat.xml", platform_xml(std::string(R"(<cluster id="c" prefix="n-" suffix=""
radical="0-3" speed="1Gf" bw="1GBps" lat="0s" bb_bw="1GBps" bb_lat="0s" bb_sharing_policy=")") +
                                                        policy + "\"/>"));
    const auto platform = Platform::from_xml(file, 4);
    Fabric fabric(*platform);
    constexpr std::int64_t kThousandBytesPs = 1'000'000;
    EXPECT_EQ(fabric.cross(fabric.path(0, 1), 1000, {}).there.at(), kThousandBytesPs);
    EXPECT_EQ(fabric.cross(fabric.path(2, 3), 1000, {}).there.at(),
              policy == std::string("SHARED") ? 2 * kThousandBytesPs : kThousandBytesPs)
        << policy;
  }
}

TEST(PlatformXml, SixteenHostsOnOneSwitch) {
  const std::filesystem::path source = VERBTWIN_SOURCE_DIR;
  const auto platform = Platform::from_xml(source / "scenarios/platforms/sixteen-hosts.xml", 16);
  EXPECT_EQ(platform->endpoints(), 16);
  for (int from = 0; from < 16; ++from) {
    for (int to = 0; to < 16; ++to) {
      const std::vector<std::uint32_t> route = platform->route(from, to);
      ASSERT_THAT(route, SizeIs(from == to ? 0 : 2));
      for (const std::uint32_t link : route) EXPECT_EQ(platform->link(link).bandwidth_bytes_per_s, 12.5e9);
    }
  }
}

/// SimGrid would empty the file, and does what is configured as soon as it reads of it.
TEST(PlatformXml, ItsConfigurationIsRefusedBeforeSimGridReadsIt) {
  const auto kept = file_with("kept.txt", "data");
  const std::string config =
      R"(<config id="c"><prop id="tracing" value="yes"/><prop id="tracing/filename" value=")" +
      kept.string() + "\"/></config>";
  const std::string body = zone_xml(kRoutes).substr(platform_xml("").find("</platform>"));
  const std::string says =
      "<config>: SimGrid's configuration is not the platform's; allowed: a platform without it";
  EXPECT_THAT(refusal(platform_xml(config + "\n" + body)), EndsWith("refused.xml:2:26: " + says));
  EXPECT_THAT(refusal(platform_xml("<?x <!-- ?>\n" + config + body)), EndsWith("refused.xml:3:2: " + says));
  EXPECT_THAT(refusal(platform_xml("<config\nid='c'/>" + body)), EndsWith(says));
  EXPECT_EQ(std::filesystem::file_size(kept), 4U);
  EXPECT_EQ(refusal(zone_xml("<!-- " + config + " -->" + kRoutes)), "(accepted)");
  std::string xml = zone_xml(kRoutes);
  xml.insert(xml.find("\n<host"), "<prop id='a>b' value='/> config '/>");
  EXPECT_EQ(refusal(xml), "(accepted)");
}

/// SimGrid's own words: what it would read, write or call beside what it is told of the platform.
TEST(PlatformXml, WhatIsMoreThanAPlatformIsRefused) {
  EXPECT_THAT(refusal(platform_xml(R"(<include file="other.xml"/>)")),
              HasSubstr("<include> tag was removed"));
  std::string xml = zone_xml(kRoutes);
  EXPECT_THAT(refusal(xml.insert(xml.find(">\n"), R"( [<!ENTITY e SYSTEM "/etc/hostname">])")),
              HasSubstr("Invalid XML"));
}

TEST(PlatformXml, FilesThatCannotBeReadAreRefused) {
  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      Platform::from_xml(path, 2);
    } catch (const UserError& error) {
      return error.what();
    }
    return "(accepted)";
  };
  EXPECT_THAT(message("/nowhere/p.xml"), AllOf(HasSubstr("/nowhere/p.xml"), EndsWith("no such file")));
  EXPECT_THAT(message(testing::TempDir()), EndsWith("not a file"));
  EXPECT_THAT(message(file_with("hostile.so", "")), EndsWith("not a SimGrid platform (.xml)"));
  const auto huge = file_with("huge.xml", "");
  std::filesystem::resize_file(huge, 65 << 20);
  EXPECT_THAT(message(huge), EndsWith("the file is too large; allowed: 64 MiB"));
  std::filesystem::remove(huge);
}

TEST(PlatformXml, WhatSimGridCannotLoadIsRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("EOF in prolog"));
  EXPECT_THAT(refusal("{\"a\": 1}"), HasSubstr("refused.xml:1: Invalid XML"));
  EXPECT_THAT(refusal(std::string("\x01\xff\n\x02", 4)), HasSubstr("Invalid XML"));
  EXPECT_THAT(refusal(zone_xml(kRoutes).substr(0, 222)), HasSubstr("Premature EOF"));
  EXPECT_THAT(refusal(zone_xml(R"(<link id="l" bandwidth="fast" latency="1us"/>)")), HasSubstr("fast"));
}

TEST(PlatformXml, WhatMakesSimGridAbortIsRefused) {
  EXPECT_THAT(refusal(zone_xml(R"(<link id="l" bandwidth="1GBps" latency="1us" state_file="missing"/>)")),
              HasSubstr("Cannot open file 'missing'"));
  EXPECT_THAT(refusal(platform_xml(R"(<zone id="z" routing="Full"><host id="a" speed="1Gf"/></zone>
<actor host="a" function="f"/>)")),
              HasSubstr("Function 'f' not registered"));
}

/// SimGrid's words begin with the file.
TEST(PlatformXml, ALineOfTheFileIsNamedOnce) {
  const std::string message =
      refusal(zone_xml("\n<link id=\"l\" bandwidth=\"1Gbs\" latency=\"1us\"/>" + kRoutes));
  EXPECT_EQ(message.find("refused.xml"), message.rfind("refused.xml")) << message;
  EXPECT_THAT(message, EndsWith("refused.xml:5: unknown unit: Gbs; allowed: of a bandwidth Bps, kBps, MBps, "
                                "GBps, bps, kbps, Mbps, Gbps; of a latency s, ms, us, ns, ps; of a speed f, "
                                "kf, Mf, Gf"));
}

TEST(PlatformXml, ElementsThatAreTooDeepAreRefused) {
  const auto nested = [](int zones) {
    std::string before, after;
    for (int zone = 2; zone <= zones; ++zone) {
      before += "<zone id=\"z" + std::to_string(zone) + "\" routing=\"Full\">\n";
      after += "</zone>";
    }
    const std::string body = zone_xml(kRoutes);
    const std::size_t begin = body.find("<zone"), end = body.find("</platform>");
    return platform_xml(before + body.substr(begin, end - begin) + after);
  };
  EXPECT_EQ(refusal(nested(96)), "(accepted)") << "platform, zones, route, link_ctn";
  EXPECT_THAT(refusal(nested(101)),
              EndsWith("refused.xml:101:2: <zone> is 101 elements deep; allowed: up to 100"));
  EXPECT_THAT(refusal(nested(600)),
              EndsWith("refused.xml:101:2: <zone> is 101 elements deep; allowed: up to 100"));
}

TEST(PlatformXml, DragonfliesThatSimGridGetsWrongAreRefused) {
  const auto dragonfly = [](const std::string& shape, int hosts) {
    return refusal(platform_xml(
        R"(<cluster id="c" prefix="n-" suffix="" radical="0-)" + std::to_string(hosts - 1) +
        R"(" speed="1Gf" bw="1GBps" lat="1us" topology="DRAGONFLY" topo_parameters=")" + shape + "\"/>"));
  };
  EXPECT_EQ(dragonfly("2,1;1,1;2,1;2", 8), "(accepted)");
  EXPECT_THAT(
      dragonfly("2,1; 2,1 ;2,1;2", 16),
      HasSubstr("refused.xml:2:149: SimGrid finds wrong ways through a dragonfly of 2 groups, 2 chassis "
                "and 2 routers; allowed: 1 chassis and at least as many routers as groups, or "));
  EXPECT_THAT(dragonfly("3,1;1,1;2,1;1", 6), HasSubstr("refused.xml:2:148: SimGrid finds wrong ways"));
}

TEST(PlatformXml, TooFewHostsAndMissingRoutesAreRefused) {
  EXPECT_THAT(refusal(zone_xml(kRoutes), 4),
              EndsWith("it has 3 of the 4 hosts that the cluster needs; allowed: at least 4 hosts, or fewer "
                       "nodes"));
  EXPECT_THAT(refusal(platform_xml("")), HasSubstr("it has 0 of the 2 hosts that the cluster needs; "));
  EXPECT_THAT(refusal(zone_xml(R"(<route src="zebra" dst="ant"><link_ctn id="wire"/></route>)"), 3),
              EndsWith("no route from host 'zebra' to host 'mole'"));
}

TEST(PlatformXml, LinksThatAreNoneAreRefused) {
  const auto bandwidth = [](const std::string& text) {
    return refusal(zone_xml("<link id=\"l\" latency=\"1us\" bandwidth=\"" + text + "\"/>" + kRoutes));
  };
  EXPECT_THAT(bandwidth("NaN"),
              EndsWith(": link 'l' has a bandwidth of nan B/s; allowed: 1 kB/s to 1e15 B/s"));
  for (const char* text : {"inf", "1e-6Bps", "0Bps", "-5Gbps", "999Bps", "1.1e15Bps"})
    EXPECT_THAT(bandwidth(text), HasSubstr("link 'l' has a bandwidth of ")) << text;
  for (const char* text : {"1kBps", "1e15Bps"}) EXPECT_EQ(bandwidth(text), "(accepted)") << text;

  const auto latency = [](const std::string& text) {
    return refusal(zone_xml("<link id=\"l\" bandwidth=\"1GBps\" latency=\"" + text + "\"/>" + kRoutes));
  };
  EXPECT_THAT(latency("-10us"), EndsWith(": link 'l' has a latency of -1e-05 s; allowed: 0 to 1 s"));
  for (const char* text : {"NaN", "inf", "1e300s", "1.01s"})
    EXPECT_THAT(latency(text), HasSubstr("link 'l' has a latency of ")) << text;
  for (const char* text : {"0us", "1s"}) EXPECT_EQ(latency(text), "(accepted)") << text;
}

TEST(PlatformXml, WhatNamesALinkStaysShort) {
  const std::string name(1000, 'l');
  EXPECT_THAT(refusal(zone_xml("<link id=\"" + name + "\" bandwidth=\"0Bps\" latency=\"1us\"/>")),
              EndsWith("l' has a bandwidth of 0 B/s; allowed: 1 kB/s to 1e15 B/s"));
}

/// A zone whose wire, or its first host, has a profile.
std::string with_profile(const std::string& kind, const std::string& text, bool of_the_host = false) {
  const std::string file = kind + ".txt", attribute = " " + kind + "=\"" + file + "\"";
  file_with(file, text);
  std::string xml = zone_xml(kRoutes);
  return xml.insert(xml.find(of_the_host ? " speed" : " bandwidth"), attribute);
}

TEST(PlatformXml, ProfilesThatAreNoneAreRefused) {
  const auto value = [](const std::string& text) {
    try {
      Platform::from_xml(file_with("value.xml", with_profile("bandwidth_file", text)), 2);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("(accepted)");
  };
  EXPECT_THAT(value("# rates\n0 nan\n"),
              EndsWith("/bandwidth_file.txt:2:1: a profile's value of nan; allowed: 0 and more"));
  EXPECT_THAT(value("0.1 -5\n"), HasSubstr("bandwidth_file.txt:1:1: a profile's value of -5; allowed: "));
  EXPECT_THAT(value("0 0\n"), EndsWith("link 'wire' has a bandwidth of 0 B/s; allowed: 1 kB/s to 1e15 B/s"));
  EXPECT_THAT(
      refusal(zone_xml("<link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\" state_file=\"/dev/zero\"/>")),
      EndsWith("refused.xml:4:110: /dev/zero: not a file"));
  const auto pipe = file_with("pipe", "");
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto from_pipe = [&](const std::string& attribute) {
    return refusal(zone_xml("<link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\" " + attribute + "/>"));
  };
  EXPECT_THAT(from_pipe("bandwidth_file = \"" + pipe.string() + '"'), EndsWith("pipe: not a file"));
  EXPECT_THAT(from_pipe("bandwidth_file\n='" + pipe.string() + "'"), EndsWith("pipe: not a file"));
  EXPECT_THAT(from_pipe("bandwidth_file=\"" + pipe.parent_path().string() + "/pip&#101;\""),
              EndsWith("/pip&#101;': allowed: a file's name without &"));
  EXPECT_THAT(
      refusal(with_profile("state_file", "0 0\n", true)),
      EndsWith("host 'zebra' is off: not simulated; allowed: profiles that leave every node's host on"));
  EXPECT_THAT(refusal(with_profile("latency_file", "0.1 1\n")),
              EndsWith("it has a profile of latencies: not simulated; allowed: profiles of bandwidths"));
  EXPECT_THAT(refusal(zone_xml(R"(<trace_connect kind="LATENCY" trace="t" element="wire"/>)")),
              HasSubstr("profile of latencies"));
  EXPECT_THAT(refusal(zone_xml("<trace id=\"t\" periodicity=\"1\">\n0 1e9\n0.1 -5\n</trace>")),
              HasSubstr("refused.xml:6:1: a profile's value of -5"));
  EXPECT_EQ(refusal(zone_xml("<!-- no latency_file -->" + kRoutes)), "(accepted)");
}

/// Each is SimGrid's to refuse, but in words that tell neither where nor what is allowed.
TEST(PlatformXml, WhatSimGridDoesNotPutIntoWordsIsNamed) {
  const auto changed = [](std::string xml, const std::string& from, const std::string& to) {
    return refusal(xml.replace(xml.find(from), from.size(), to));
  };
  const std::string whole = zone_xml(kRoutes);
  EXPECT_THAT(changed(whole, " version=\"4.1\"", ""),
              HasSubstr("refused.xml:2:2: <platform>: no version; allowed: version=\"4\" or \"4.1\""));
  for (const char* version : {"5", "3", "", "x", "4.2"}) {
    EXPECT_THAT(changed(whole, "4.1", version), HasSubstr("\"; allowed: version=\"4\" or \"4.1\""))
        << version;
  }
  EXPECT_THAT(
      changed(whole, "routing=\"Full\"", "routing=\"Foo\""),
      HasSubstr(": routing=\"Foo\": unknown; allowed: Cluster, Dijkstra, DijkstraCache, Floyd, Full"));
  EXPECT_EQ(changed(whole, "routing=\"Full\"", "routing=\"full\""), "(accepted)");
  const auto torus = [](const std::string& dimensions) {
    return refusal(
        platform_xml("<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-3\" speed=\"1Gf\" "
                     "bw=\"1GBps\" lat=\"1us\" topology=\"TORUS\" topo_parameters=\"" +
                     dimensions + "\"/>"));
  };
  for (const char* wrong : {"", "a,b", "2;2", "2 2", "2,2,", ",2", "2,x"}) {
    EXPECT_THAT(torus(wrong), HasSubstr("\": no dimensions of a torus; allowed: whole numbers")) << wrong;
  }
  for (const char* right : {"2,2", " 2 , 2 ", "4"}) EXPECT_EQ(torus(right), "(accepted)") << right;
  const auto fat_tree = [](const std::string& shape) {
    return refusal(
        platform_xml("<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-7\" speed=\"1Gf\" "
                     "bw=\"1GBps\" lat=\"1us\" topology=\"FAT_TREE\" topo_parameters=\"" +
                     shape + "\"/>"));
  };
  for (const char* right : {"2;4,2;1,2;1,2", " 2 ; 2,2; 1 ,1;1,1 ", "1;8;1;1"})
    EXPECT_EQ(fat_tree(right), "(accepted)") << right;
}

TEST(PlatformXml, FilesOfProfilesAreThoseBesideIt) {
  file_with("slow.txt", "0 1e9\n");
  const std::string link = " bandwidth=\"1GBps\" latency=\"1us\" bandwidth_file=\"slow.txt\"/>";
  const auto file = file_with("beside.xml", zone_xml("<link id=\"l\"" + link + "<link id=\"m\"" + link +
                                                     "<trace id=\"t\" periodicity=\"1\">0 1e9</trace>"));
  const PlatformFile platform = read_platform_file(file);
  EXPECT_TRUE(platform.has_profiles);
  EXPECT_THAT(platform.profiles, ElementsAre(file.parent_path() / "slow.txt"));
  const PlatformFile plain = read_platform_file(file_with("plain.xml", zone_xml(kRoutes)));
  EXPECT_FALSE(plain.has_profiles);
  EXPECT_THAT(plain.profiles, IsEmpty());
}

TEST(PlatformXml, NumbersOfHostsThatAreNoneAreRefused) {
  const auto radical = [](const std::string& text) {
    return refusal(platform_xml("<cluster id=\"c\" prefix=\"n-\" suffix=\"\" radical=\"" + text +
                                "\" speed=\"1Gf\" bw=\"1GBps\" lat=\"1us\"/>"));
  };
  for (const char* text : {"0-1", "3,5", "7-8,10", "0, 2147483646"})
    EXPECT_EQ(radical(text), "(accepted)") << text;
  EXPECT_THAT(
      radical("0-99999999999"),
      EndsWith("refused.xml:2:72: radical=\"0-99999999999\": no list of numbers; allowed: numbers and ranges "
               "of 0 to 2147483646, as in \"0-15,20\", 65536 hosts in all"));
  for (const char* text : {"", "-5-5", "5-", "5-3", "0-1,", "0-1-2", "a", "0 - 1", "2147483647"})
    EXPECT_THAT(radical(text), HasSubstr("\": no list of numbers; allowed: ")) << text;
  EXPECT_THAT(radical("0-65535,70000"), HasSubstr("\": 65537 hosts; allowed: "));
  EXPECT_THAT(radical("0-2147483646,0-2147483646"), HasSubstr("\": 4294967294 hosts; allowed: "));
}

TEST(PlatformXml, ProfilesThatNeverEndAreRefused) {
  EXPECT_THAT(refusal(with_profile("bandwidth_file", "PERIODICITY 0\n0 5e9\n")),
              HasSubstr("SimGrid does not come to the end of it in 2 s: it may be too large, or a profile "
                        "may change too often"));
  EXPECT_THAT(refusal(with_profile("state_file", "LOOPAFTER 1e-15\n0 1\n")),
              HasSubstr("SimGrid does not come to the end of its first microsecond in 2 s"));
}

TEST(PlatformXml, ARefusalLeavesNothingBehind) {
  for (int again = 0; again < 3; ++again) {
    EXPECT_THAT(refusal(zone_xml("<link/>")), HasSubstr("Invalid XML"));
    EXPECT_EQ(Platform::from_xml(file_with("good.xml", zone_xml(kRoutes)), 3)->endpoints(), 3);
  }
}

void run_one_with_profiles(const std::filesystem::path& file) {
  Platform::from_xml(file, 2);
  EXPECT_THROW(Platform::star({2, 1, 100, 0, 0}), UserError);
  EXPECT_THROW(Platform::from_xml(file, 2), UserError);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

/// What the user is told when a profile's event comes, while SimGrid runs; in a process of its own.
void expect_refused_on_the_way(const std::string& xml, const char* says) {
  const auto file = file_with("on_the_way.xml", xml);
  const auto run = [&] {
    const auto platform = Platform::from_xml(file, 2);
    try {
      simgrid::s4u::Engine::get_instance()->run_until(1e-3);
      ADD_FAILURE() << "accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(error.pointer(), "/cluster/network/platform");
      EXPECT_THAT(error.what(), HasSubstr(says));
      EXPECT_LT(simgrid::s4u::Engine::get_clock(), 0.9e-3);
    }
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(PlatformXmlDeathTest, ProfilesThatTurnIntoNonsenseAreRefusedThen) {
  expect_refused_on_the_way(with_profile("bandwidth_file", "0.0005 0\n"),
                            "link 'wire' has a bandwidth of 0 B/s");
  expect_refused_on_the_way(with_profile("bandwidth_file", "0.0005 1e16\n"),
                            "'wire' has a bandwidth of 1e+16");
  expect_refused_on_the_way(with_profile("state_file", "0 1\n0.0005 0\n", true), "host 'zebra' is off");
}

TEST(PlatformXmlDeathTest, NothingMayFollowOneWithProfiles) {
  file_with("rate.txt", "0.1 5e9\n");
  const auto file = file_with("rate.xml", zone_xml(R"(
<link id="l" bandwidth="10GBps" latency="1us" bandwidth_file="rate.txt"/>)" +
                                                   kRoutes));
  EXPECT_EXIT(run_one_with_profiles(file), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace verbtwin::sim
