// What a part costs is paid somewhere, and a part that costs less slows nothing: for each time in the
// profiles, on small runs that between them use every part of a NIC and of a host.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "calibration/profile_file.hpp"
#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

using models::HostProfile;
using models::NicProfile;

constexpr double kNoise = 0.04;  // other times bring other queues
constexpr double kFelt = 0.01;

/// Few and short, each for some parts that the others leave out.
constexpr std::array kRuns = {
    R"({"name": "inline writes of a shared context",
        "cluster": {"nodes": 2, "threads": 4, "device_context": "shared"},
        "workload": {"name": "primitive", "verb": "write", "payload_b": 32, "inline": true, "outstanding": 16,
                     "pattern": "one_to_many"},
        "run": {"warmup_us": 20, "measure_us": 60}})",
    R"({"name": "large writes",
        "cluster": {"nodes": 2, "threads": 2},
        "workload": {"name": "primitive", "verb": "write", "payload_b": 1024, "outstanding": 256},
        "run": {"warmup_us": 20, "measure_us": 60}})",
    R"({"name": "writes in long lists",
        "cluster": {"nodes": 2, "threads": 4},
        "workload": {"name": "primitive", "verb": "write", "payload_b": 32, "outstanding": 64, "doorbell_batch": 16,
                     "pattern": "one_to_many"},
        "run": {"warmup_us": 20, "measure_us": 60}})",
    R"({"name": "large reads over many queue pairs",
        "cluster": {"nodes": 2, "threads": 4, "qps_per_peer": 8},
        "workload": {"name": "primitive", "verb": "read", "payload_b": 1024, "outstanding": 16},
        "run": {"warmup_us": 20, "measure_us": 60}})",
    R"({"name": "lone reads",
        "cluster": {"nodes": 2, "threads": 1},
        "workload": {"name": "primitive", "verb": "read", "payload_b": 8, "outstanding": 1},
        "run": {"warmup_us": 20, "measure_us": 100}})",
    R"({"name": "atomics",
        "cluster": {"nodes": 2, "threads": 4},
        "workload": {"name": "primitive", "verb": "fetch_add", "outstanding": 8},
        "run": {"warmup_us": 20, "measure_us": 60}})",
    R"({"name": "datagrams",
        "cluster": {"nodes": 3, "threads": 4, "coroutines": 16},
        "workload": {"name": "echo", "transport": "ud_send", "payload_b": 32},
        "run": {"warmup_us": 20, "measure_us": 60}})",
    R"({"name": "large datagrams",
        "cluster": {"nodes": 3, "threads": 4, "coroutines": 16},
        "workload": {"name": "echo", "transport": "ud_send", "payload_b": 1024},
        "run": {"warmup_us": 20, "measure_us": 60}})",
    R"({"name": "writes with immediate data",
        "cluster": {"nodes": 3, "threads": 4, "coroutines": 16},
        "workload": {"name": "echo", "transport": "rc_write_imm", "payload_b": 32},
        "run": {"warmup_us": 20, "measure_us": 60}})",
    R"({"name": "polled slots",
        "cluster": {"nodes": 3, "threads": 4, "coroutines": 8},
        "workload": {"name": "echo", "transport": "rc_write_poll", "payload_b": 32},
        "run": {"warmup_us": 20, "measure_us": 60}})",
    R"({"name": "hybrid transactions",
        "cluster": {"nodes": 3, "threads": 4, "coroutines": 4, "replicas": 3},
        "protocol": {"name": "drtmh"},
        "workload": {"name": "smallbank"},
        "run": {"warmup_us": 20, "measure_us": 800, "check": "none"}})",
    R"({"name": "transactions by calls",
        "cluster": {"nodes": 3, "threads": 4, "coroutines": 4, "replicas": 3},
        "protocol": {"name": "fasst-occ"},
        "workload": {"name": "smallbank"},
        "run": {"warmup_us": 20, "measure_us": 800, "check": "none"}})",
};

struct Prices {
  NicProfile nic = calibration::load_nic_profile("connectx-4");
  HostProfile host = calibration::load_host_profile("xeon-e5-2650v4");

  /// Caches too small for any of the runs and one doorbell register, so that misses and locks are paid for.
  Prices() {
    nic.qp_cache_entries = 2;
    nic.wqe_cache_entries = 4;
    nic.wqe_prefetch_b = 4096;
    nic.recv_queue_cache_entries = 1;
    nic.translation_cache_entries = 1;
    nic.translation_page_b = 4096;
    nic.doorbell_registers_dedicated = 0;
    nic.doorbell_registers_shared = 1;
    host.last_level_cache_mib = 0;
    host.cores_per_socket = 2;
  }
};

/// Operations or transactions a second of each run.
std::vector<double> rates(const Prices& prices) {
  std::vector<double> rates;
  RunControl control;
  control.nic = &prices.nic;
  control.host = &prices.host;
  for (const char* text : kRuns) {
    const json result = run(text, {"cluster.nics_per_node=1"}, control);
    rates.push_back(result.contains("committed_per_s") ? result.at("committed_per_s").get<double>()
                                                       : result.at("operations_per_s").get<double>());
  }
  return rates;
}

const std::vector<double>& rates_as_they_are() {
  static const std::vector<double> kRates = rates(Prices());
  return kRates;
}

/// One time of one of the two profiles.
struct Price {
  std::string name;
  double NicProfile::*of_nic = nullptr;
  double HostProfile::*of_host = nullptr;

  double& in(Prices& prices) const { return of_nic != nullptr ? prices.nic.*of_nic : prices.host.*of_host; }
};
void PrintTo(const Price& price, std::ostream* out) {
  *out << price.name;
}

std::vector<Price> all_prices() {
  const auto is_time = [](const auto& parameter) { return parameter.unit == std::string_view("ns"); };
  std::vector<Price> prices;
  for (const auto& parameter : models::nic_parameters())
    if (is_time(parameter)) prices.push_back({.name = parameter.name, .of_nic = parameter.value});
  for (const auto& parameter : models::host_parameters())
    if (is_time(parameter)) prices.push_back({.name = parameter.name, .of_host = parameter.value});
  return prices;
}

class EachPrice : public testing::TestWithParam<Price> {
 protected:
  double& price() { return GetParam().in(prices_); }
  Prices prices_;
};

TEST_P(EachPrice, LessSlowsNothing) {
  price() /= 2;
  const std::vector<double> with_less = rates(prices_);
  for (std::size_t i = 0; i < kRuns.size(); ++i)
    EXPECT_GT(with_less[i], rates_as_they_are()[i] * (1 - kNoise)) << kRuns[i];
}

TEST_P(EachPrice, MoreIsFelt) {
  price() = price() * 2 + 200;
  const std::vector<double> with_more = rates(prices_);
  double slowest = 1;
  for (std::size_t i = 0; i < kRuns.size(); ++i)
    slowest = std::min(slowest, with_more[i] / rates_as_they_are()[i]);
  EXPECT_LT(slowest, 1 - kFelt) << "no run is slower";
}

INSTANTIATE_TEST_SUITE_P(Prices, EachPrice, testing::ValuesIn(all_prices()),
                         [](const auto& price) { return price.param.name; });

}  // namespace
}  // namespace verbtwin::tools
