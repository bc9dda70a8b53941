// RAMP over simulated kernel TCP: right on every transport, limited by what limits it, and what a scenario
// may say of sockets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/profile_file.hpp"
#include "scenarios/loader.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {
namespace {

using models::SocketProfile;
using nlohmann::json;
using testing::HasSubstr;

// The published cluster: 4 servers, 8 clients, a client thread on each of 8 cores.
constexpr const char* kScenario = R"({
  "cluster": {"nodes": 12, "roles": {"servers": 4, "clients": 8}, "threads": 8, "coroutines": 1,
              "nic": "connectx-2", "nics_per_node": 1, "host": "ramp-qdr-host"},
  "protocol": {"name": "ramp-fast", "transport": "ethernet_tcp"},
  "workload": {"name": "read-write-mix", "operations": 8, "read_ratio": 0.95, "keys": 10000, "value_b": 64},
  "run": {"warmup_us": 1000, "measure_us": 4000}
})";

scenarios::Scenario load(const std::vector<std::string>& overrides) {
  return scenarios::load_scenario(scenarios::Document::parse("sockets.json", kScenario), overrides,
                                  make_catalog());
}

SocketProfile sockets(const char* name) {
  return calibration::load_socket_profile(name);
}

json run(const std::vector<std::string>& overrides, const SocketProfile* profile = nullptr) {
  RunControl control;
  control.sockets = profile;
  return simulate(load(overrides), control);
}

double rate(const std::string& transport, const SocketProfile& profile) {
  return run({"protocol.transport=" + transport, "run.check=none"}, &profile).at("committed_per_s");
}

double utilization_max(const json& result, const std::string& resource) {
  for (const json& one : result.at("resources")) {
    if (one.at("name") == resource) return one.at("utilization_max");
  }
  return -1;
}

TEST(Sockets, EveryProtocolIsRightOverBothNetworks) {
  for (const std::string protocol : {"ramp-fast", "ramp-small", "ramp-hybrid", "s2pl"}) {
    for (const std::string transport : {"ethernet_tcp", "ipoib_tcp"}) {
      for (int seed = 1; seed <= 5; ++seed) {
        const json result =
            run({"protocol.name=" + protocol, "protocol.transport=" + transport, "cluster.nodes=5",
                 "cluster.roles.servers=2", "cluster.roles.clients=3", "cluster.threads=2",
                 "cluster.coroutines=4", "workload.keys=16", "workload.read_ratio=0.5",
                 "workload.operations=3", fmt::format("run.seed={}", seed)});
        EXPECT_GT(result.at("committed"), 10) << protocol << transport;
        for (const json& check : result.at("checks")) {
          EXPECT_EQ(check.at("violations"), 0) << protocol << transport << check.dump(2);
        }
      }
    }
  }
}

TEST(Sockets, MixWithBuffersThatNicsWrite) {
  for (const std::string transport : {"ethernet_tcp", "ipoib_tcp"}) {
    const json result = run({"protocol.transport=" + transport, "protocol.put=put_plus"});
    EXPECT_GT(result.at("committed"), 500);
    EXPECT_GT(result.at("verbs").at("write").at("count"), 0);
    EXPECT_EQ(result.at("checks")[0].at("violations"), 0);
  }
}

TEST(Sockets, ARunRepeats) {
  for (const std::string transport : {"ethernet_tcp", "ipoib_tcp"}) {
    json once = run({"protocol.transport=" + transport}), again = run({"protocol.transport=" + transport});
    once.erase("simulator");
    again.erase("simulator");
    EXPECT_EQ(once, again);
  }
}

TEST(Sockets, OverEthernetTheServersLinksAreTheLimit) {
  const json result = run({});
  EXPECT_GT(utilization_max(result, "socket_link"), 0.95);
  SocketProfile faster = sockets("ethernet-1g");
  const double shipped = rate("ethernet_tcp", faster);
  faster.link_gbps = 10;
  EXPECT_GT(rate("ethernet_tcp", faster), 1.3 * shipped);
}

TEST(Sockets, OverIpoibTheCoreThatTakesInterruptsIsTheLimit) {
  const json result = run({"protocol.transport=ipoib_tcp"});
  EXPECT_GT(utilization_max(result, "socket_interrupts"), 0.8) << "a worker has the rest of that core";
  EXPECT_LT(utilization_max(result, "link"), 0.3);
  EXPECT_EQ(utilization_max(result, "socket_link"), -1) << "it has no link of its own";
  SocketProfile wider = sockets("ipoib-qdr");
  const double shipped = rate("ipoib_tcp", wider);
  wider.interrupt_queues = 8;
  EXPECT_GT(rate("ipoib_tcp", wider), 1.3 * shipped);
}

TEST(Sockets, ConnectedModePaysForChecksumsAndDatagramModeForPackets) {
  const std::vector<std::string> large = {"protocol.transport=ipoib_tcp", "workload.value_b=3000",
                                          "workload.keys=1000", "run.check=none"};
  const auto packets_us = [&](const char* name) {
    const SocketProfile profile = sockets(name);
    const json result = run(large, &profile);
    return 1e6 * utilization_max(result, "socket_interrupts") / result.at("committed_per_s").get<double>();
  };
  EXPECT_GT(packets_us("ipoib-qdr-datagram"), 1.5 * packets_us("ipoib-qdr")) << "2 KB packets";
}

std::string error_of(const std::vector<std::string>& overrides) {
  try {
    run(overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Sockets, ScenariosNameTheirProfile) {
  EXPECT_EQ(load({}).resolved.at("cluster").at("sockets"), "ethernet-1g");
  EXPECT_EQ(load({"protocol.transport=ipoib_tcp"}).cluster.sockets, "ipoib-qdr");
  EXPECT_EQ(load({"protocol.transport=ipoib_tcp", "cluster.sockets=ipoib-qdr-datagram"}).cluster.sockets,
            "ipoib-qdr-datagram");
  EXPECT_FALSE(load({"protocol.transport=send_recv"}).resolved.at("cluster").contains("sockets"));
}

TEST(Sockets, WhatDoesNotFitIsRefusedWithTheReason) {
  EXPECT_THAT(error_of({"cluster.sockets=ethernet-10g"}), HasSubstr("unknown profile \"ethernet-10g\""));
  EXPECT_THAT(error_of({"cluster.sockets=connectx-2"}), HasSubstr("\"connectx-2\" is a NIC profile"));
  EXPECT_THAT(error_of({"protocol.transport=send_recv", "cluster.sockets=ipoib-qdr"}),
              HasSubstr("nothing here speaks TCP"));
  EXPECT_THAT(error_of({"cluster.sockets=ipoib-qdr"}), HasSubstr("uses the RDMA NIC's link"));
  EXPECT_THAT(error_of({"protocol.transport=ipoib_tcp", "cluster.sockets=ethernet-1g"}),
              HasSubstr("has a link of its own"));
}

}  // namespace
}  // namespace verbtwin::tools
