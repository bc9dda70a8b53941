// Contended runs of the RAMP family, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {

// Few keys and many writers; NICs that access lines one by one, in any order.
inline constexpr const char* kContended = R"({
  "cluster": {"nodes": 5, "threads": 2, "coroutines": 4, "nics_per_node": 1, "roles": {"servers": 2, "clients": 3},
              "tear_ns": 300},
  "protocol": {"name": "ramp-fast", "versions_mib": 4},
  "workload": {"name": "read-write-mix", "operations": 4, "read_ratio": 0.5, "keys": 8, "value_b": 160},
  "run": {"warmup_us": 0, "measure_us": 150, "seed": 1}
})";

struct Variant {
  std::string name;
  Overrides overrides;
};

/// Every way in which a protocol's messages may go where `transport` carries RPCs.
inline std::vector<Variant> variants_of(const std::string& protocol, const std::string& transport) {
  const Overrides basis = {"protocol.name=" + protocol, "protocol.transport=" + transport};
  std::vector<Variant> all;
  const auto add = [&](const std::string& name, const Overrides& more) {
    all.push_back({protocol + " " + transport + " " + name, basis});
    all.back().overrides.insert(all.back().overrides.end(), more.begin(), more.end());
  };
  if (protocol == "s2pl") {
    for (const std::string deadlock : {"no_wait", "wait_die"})
      add(deadlock, {"protocol.deadlock=" + deadlock});
    return all;
  }
  for (const std::string get : {"rpc", "get_plus", "get_star"}) {
    for (const std::string put : {"rpc", "put_plus"}) {
      if (get == "get_star" && protocol != "ramp-fast") continue;
      const bool get_rpc = get == "rpc", put_rpc = put == "rpc";
      // Where the transport is RDMA WRITE, RPCs are PUT+ and GET+: both or none. Elsewhere, only what it
      // carries something of.
      if (transport == "rdma_write" ? get_rpc != put_rpc && get != "get_star" : !get_rpc && !put_rpc)
        continue;
      add(get + " " + put, {"protocol.get=" + get, "protocol.put=" + put});
    }
  }
  return all;
}

inline const std::vector<std::string>& ramp_protocols() {
  static const std::vector<std::string> all = {"ramp-fast", "ramp-small", "ramp-hybrid", "s2pl"};
  return all;
}

/// Of the transports that poll and do not sleep.
inline std::vector<Variant> rdma_variants() {
  std::vector<Variant> all;
  for (const std::string& protocol : ramp_protocols()) {
    for (const char* transport : {"send_recv", "rdma_write"}) {
      for (Variant& variant : variants_of(protocol, transport)) all.push_back(std::move(variant));
    }
  }
  return all;
}

inline Overrides joined(Overrides first, const Overrides& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

inline void expect_read_atomic(const json& result, std::uint64_t committed_min) {
  if (result.is_null()) return;
  EXPECT_EQ(violations(result), 0U) << findings(result);
  ASSERT_FALSE(result.at("checks").empty());
  EXPECT_EQ(result.at("checks")[0].at("name"), "read-atomic");
  EXPECT_GE(result.at("checks")[0].at("transactions").get<std::uint64_t>(), committed_min);
  EXPECT_EQ(result.at("datagrams_dropped"), 0);
  EXPECT_EQ(result.at("aborts").at("verb_failed"), 0);
}

}  // namespace verbtwin::tools
