#include "calibration/perftest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "backend/user_error.hpp"
#include "calibration/csv_table.hpp"
#include "calibration/measurement.hpp"
#include "calibration/perftest_source.hpp"
#include "calibration/plausible.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::calibration {

namespace {

using nlohmann::json;
using scenarios::in_quotes;

const PerftestField& required(const PerftestSource& source, const PerftestFields& fields,
                              const std::string& name, std::string_view at, std::string_view where) {
  const auto found = fields.find(name);
  if (found == fields.end()) source.refuse(at, fmt::format("{} is missing; allowed: {}", name, where));
  return found->second;
}

/// A whole number, of which the header says the unit too: "1024[B]".
int whole(const PerftestSource& source, const PerftestField& field, std::string_view name, int least,
          int most = 1 << 30) {
  std::string_view text = field.value;
  if (text.ends_with("[B]")) text.remove_suffix(3);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    source.refuse(field.at, fmt::format("{} is {}; allowed: a whole number, {} to {}", name,
                                        in_quotes(field.value), least, most));
  }
  return value;
}

double number(const PerftestSource& source, const PerftestField& field, std::string_view name, double least,
              double most) {
  const std::optional<double> value = number_of(field.value);
  if (!value || *value < least || *value > most) {
    source.refuse(field.at, fmt::format("{} is {}; allowed: a number, {:g} to {:.0f}", name,
                                        in_quotes(field.value), least, most));
  }
  return *value;
}

/// What the header of a run says of all its results.
struct Run {
  std::string verb;
  bool is_latency = false, is_datagram = false;
  std::int64_t queue_pairs = 1, outstanding = 1, doorbell_batch = 1, signal_interval = 1, inline_b = 0;
  std::int64_t reads_outstanding = 0;  // READs and atomics of a queue pair that its device sends; 0: others
  json device;
};

/// What cannot be told apart afterwards from how fast the device is.
void refuse_conditions(const PerftestSource& source, const PerftestFields& info) {
  constexpr std::array<std::pair<const char*, std::string_view>, 7> kConditions = {{
      {"Transport_type", "IB"},
      {"Dual_port", "OFF"},
      {"Using_SRQ", "OFF"},
      {"Test_with_events", "OFF"},
      {"Use_ROCm_memory", "OFF"},
      {"cuda_device", "OFF"},
      {kGpuMemory, "OFF"},
  }};
  for (const auto& [name, allowed] : kConditions) {
    const auto found = info.find(name);
    if (found == info.end() || found->second.value == allowed) continue;
    source.refuse(found->second.at,
                  fmt::format("{} is {}; allowed: {}", name, in_quotes(found->second.value), allowed));
  }
}

void read_title(const PerftestSource& source, const PerftestField& title, Run& run) {
  static const std::map<std::string_view, std::string> kVerbs = {
      {"RDMA_Read", "read"},
      {"RDMA_Write", "write"},
      {"Send", "send"},
      {"Atomic_CMP_AND_SWAP", "compare_swap"},
      {"Atomic_FETCH_AND_ADD", "fetch_add"},
  };
  std::string_view name = title.value;
  const auto drop = [&](std::string_view end) {
    if (!name.ends_with(end)) return false;
    name.remove_suffix(end.size());
    return true;
  };
  run.is_latency = drop("_Latency_Test");
  const bool is_known = run.is_latency || drop("_BW_Test");
  drop("_Post_List");
  const auto verb = kVerbs.find(name);
  if (!is_known || verb == kVerbs.end()) {
    source.refuse(title.at, fmt::format("the test {}; allowed: BW and Latency of RDMA_Read, RDMA_Write, Send "
                                        "and Atomic, in one direction",
                                        in_quotes(title.value)));
  }
  run.verb = verb->second;
}

Run run_of(const PerftestSource& source, const PerftestRun& test) {
  const auto field = [&](const char* name, const char* where) -> const PerftestField& {
    return required(source, test.info, name, test.at, where);
  };
  constexpr const char* kHeader = "all of what perftest printed or wrote";
  const auto count = [&](const char* name, const char* where, int least = 1) {
    return whole(source, field(name, where), name, least);
  };
  Run run;
  read_title(source, field("test", kHeader), run);
  refuse_conditions(source, test.info);
  const PerftestField& connection = field("Connection_type", kHeader);
  run.is_datagram = connection.value == "UD";
  if (!run.is_datagram && connection.value != "RC") {
    source.refuse(connection.at,
                  fmt::format("Connection_type is {}; allowed: RC, UD", in_quotes(connection.value)));
  }
  run.queue_pairs = count("Number_of_qps", kHeader);
  if (!run.is_latency) {
    // In flight on each queue pair there, of a thread here; perftest has one thread.
    run.outstanding = count("TX_depth", "the output of the end that posts, the client's") * run.queue_pairs;
    run.signal_interval = count("CQ_Moderation", kHeader);
    if (test.info.contains("Post_List")) run.doorbell_batch = count("Post_List", kHeader);
  }
  if (test.info.contains("Outstand_reads")) run.reads_outstanding = count("Outstand_reads", kHeader);
  if (run.verb == "write" || run.verb == "send") run.inline_b = count("Max_inline_data", kHeader, 0);
  const PerftestField& link = field("Link_type", kHeader);
  if (link.value != "IB" && link.value != "Ethernet")
    source.refuse(link.at, fmt::format("Link_type is {}; allowed: IB, Ethernet", in_quotes(link.value)));
  run.device = {{"device", scenarios::one_line(field("Device", kHeader).value)},
                {"link_layer", link.value == "IB" ? "InfiniBand" : "Ethernet"},
                {"mtu", whole(source, field("Mtu", kHeader), "Mtu", 256, 4096)}};
  return run;
}

/// Why no simulated point is like this one; empty where one is.
std::string why_skipped(const Run& run, int payload_b) {
  if (run.is_latency && run.verb == "send")
    return "half a round trip of two SENDs, where verbtwin has the time to a SEND's completion";
  if (run.is_latency && run.verb == "write" && payload_b < 8)
    return fmt::format("a WRITE's latency, of {} B; that of 8 B or more can be simulated", payload_b);
  // perftest says neither whether -o or the device set it: a profile must not take the one for the other.
  constexpr std::int64_t kReadsOutstanding = 16;  // of profiles, at most
  if (run.reads_outstanding > 0 &&
      run.reads_outstanding < std::min(kReadsOutstanding, run.outstanding / run.queue_pairs)) {
    return fmt::format("{} READs or atomics outstanding on a queue pair (-o); from {} on it can be simulated",
                       run.reads_outstanding, kReadsOutstanding);
  }
  struct Limit {
    const char* what;
    std::int64_t value, most;
  };
  // As scenarios have them.
  const std::array<Limit, 6> limits = {{
      {"bytes (with -a, --out_json has the last size only)", payload_b, 1 << 20},
      {"bytes inline", payload_b <= run.inline_b ? payload_b : 0, kMeasuredInlineMax_b},
      {"requests in flight", run.outstanding, 4096},
      {"requests a doorbell", run.doorbell_batch, std::min<std::int64_t>(512, run.outstanding)},
      {"queue pairs", run.queue_pairs, run.is_datagram ? 1 : 256},
      {"requests for one that is signalled", run.signal_interval, 4096},
  }};
  for (const Limit& limit : limits) {
    if (limit.value > limit.most)
      return fmt::format("{} {}; up to {} can be simulated", limit.value, limit.what, limit.most);
  }
  return "";
}

/// More than the link carries: it is another link, or client and server are one machine.
void refuse_faster_than_link(const PerftestSource& source, const PerftestField& rate, double operations_per_s,
                             int payload_b, double link_gbps) {
  const double gbps = operations_per_s * payload_b * 8 / 1e9;
  if (gbps <= kLinkRounding * link_gbps) return;
  source.refuse(rate.at, fmt::format("MsgRate is {} of {} B, which are {:.0f} Gb/s; allowed: at most the "
                                     "{:g} Gb/s of --link-gbps",
                                     rate.value, payload_b, gbps, link_gbps));
}

json point_of(const PerftestSource& source, const Run& run, const PerftestResult& result, int payload_b,
              double link_gbps) {
  PrimitivePoint point{run.verb, run.is_datagram ? "ud" : "rc"};
  point.payload_b = payload_b;
  point.outstanding = static_cast<int>(run.outstanding);
  point.doorbell_batch = static_cast<int>(run.doorbell_batch);
  point.queue_pairs = static_cast<int>(run.queue_pairs);
  point.signal_interval = static_cast<int>(run.signal_interval);
  point.is_inline = (run.verb == "write" || run.verb == "send") && payload_b <= run.inline_b;
  if (run.is_latency && run.verb == "write") point.mode = "ping_pong";  // which halves the round trip too
  json all = to_json(point);
  all["source"] = fmt::format("{}:{}", source.label(), result.line);
  if (run.is_latency) {
    const PerftestField& median =
        required(source, result.cells, "t_typical", result.at,
                 "a test with neither -D, which has no median, nor -C, which counts cycles");
    const double p50_us = number(source, median, "t_typical", 0.01, 1e9);
    if (const std::string why = sooner_than_link(p50_us, payload_b, link_gbps, "--link-gbps"); !why.empty())
      source.refuse(median.at, "t_typical is " + why);
    all["latency_us"] = {{"p50", p50_us}};
  } else {
    // The bandwidth says the same in units that the file may not have.
    const PerftestField& rate =
        required(source, result.cells, "MsgRate", result.at, "a bandwidth test that tells it");
    const double operations_per_s = std::round(number(source, rate, "MsgRate", 1e-6, 1e5) * 1e6);
    refuse_faster_than_link(source, rate, operations_per_s, payload_b, link_gbps);
    all["operations_per_s"] = operations_per_s;
  }
  return all;
}

/// What the files have in common, and their points.
class Import {
 public:
  explicit Import(double link_gbps) : link_gbps_(link_gbps) {}

  void add(const std::filesystem::path& file) {
    const PerftestSource source(file);
    const std::vector<PerftestRun> tests = perftest_runs(source, partial_);
    if (tests.empty()) {
      source.refuse(source.all(),
                    "no output of perftest; allowed: what ib_write_bw and the like print, or "
                    "wrote with --out_json");
    }
    for (const PerftestRun& test : tests) add(source, test);
  }

  PerftestImport result() {
    if (points_.empty())
      throw UserError("", fmt::format("{}; allowed: files with a result that is not", skipped_.at(0)));
    device_["link_gbps"] = link_gbps_;
    json end = {{"devices", json::array({device_})}};
    return {{{"format", "verbtwin-measurement"},
             {"version", 1},
             {"partial", partial_},
             {"measured_on", json::array({std::move(end)})},
             {"points", std::move(points_)}},
            std::move(skipped_)};
  }

 private:
  void add(const PerftestSource& source, const PerftestRun& test) {
    const Run run = run_of(source, test);
    if (test.results.empty())
      source.refuse(test.at, "a test without a result; allowed: one that has come to its end");
    if (device_.is_null()) {
      device_ = run.device;
      first_ = source.label();
    }
    if (device_ != run.device) {
      source.refuse(test.at, fmt::format("of {}, where {} is of {}; allowed: files of one device, link type "
                                         "and MTU",
                                         run.device.dump(), first_, device_.dump()));
    }
    for (const PerftestResult& result : test.results) {
      const int payload_b =
          whole(source, required(source, result.cells, "MsgSize", result.at, "the size of each result"),
                "MsgSize", 1);
      if (const std::string why = why_skipped(run, payload_b); !why.empty()) {
        skipped_.push_back(fmt::format("{}:{}: skipped: {}", source.label(), result.line, why));
      } else if (points_.size() < kPerftestResultsMax) {
        points_.push_back(point_of(source, run, result, payload_b, link_gbps_));
      } else {
        source.refuse(result.at,
                      fmt::format("too many results; allowed: {} of all files", kPerftestResultsMax));
      }
    }
  }

  double link_gbps_;
  json device_, points_ = json::array();
  std::string first_;  // the file that device_ is of
  bool partial_ = false;
  std::vector<std::string> skipped_;
};

}  // namespace

bool looks_like_perftest(std::string_view text) {
  const auto has = [&](std::string_view part) { return text.find(part) != text.npos; };
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (!text.starts_with('{')) return has("#bytes") || has(" Test\n");
  constexpr std::size_t kBegin_b = 100;
  text = text.substr(0, kBegin_b);
  return has("test_info");
}

PerftestImport import_perftest(const std::vector<std::filesystem::path>& files, double link_gbps) {
  Import all(link_gbps);
  for (const std::filesystem::path& file : files) all.add(file);
  return all.result();
}

}  // namespace verbtwin::calibration
