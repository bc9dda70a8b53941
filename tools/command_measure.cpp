// verbtwin measure: latency and rate of raw verbs between two ranks on real devices, one launch a point.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "backend/user_error.hpp"
#include "tools/commands.hpp"
#include "tools/launcher.hpp"
#include "tools/output_file.hpp"
#include "tools/temporary_directory.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFile = "measurement.json";
/// What the libibverbs binding takes at most.
constexpr int kInlineMax_b = 188;

struct MeasureOptions {
  bool primitives = false;
  std::string hosts, out;
  RankFlags rank;
  std::vector<int> sizes{8, 64, 1024, 4096}, windows{1, 16}, queue_pairs{1}, batches{1};
  std::vector<std::string> verbs{"read", "write", "send", "compare_swap", "fetch_add", "send_ud"};
  int inline_b = kInlineMax_b, signal_interval = 100;
  double seconds = 1;
};

struct Point {
  std::string verb, transport;
  int payload_b, outstanding, doorbell_batch, queue_pairs;
  bool is_inline = false;
  /// A WRITE alone is timed until the other end sees it, not until its acknowledgement: as ib_write_lat does.
  bool ping_pong() const { return verb == "write" && outstanding == 1 && payload_b >= 8; }
};

/// As perftest: inline where latency is measured, not where rate is.
bool goes_inline(const MeasureOptions& options, const std::string& verb, int size, int window) {
  return (verb == "write" || verb.starts_with("send")) && window == 1 && size <= options.inline_b;
}

/// Every combination that makes sense: atomics have one size, a datagram fits in a packet, a batch in its
/// window.
std::vector<Point> points_of(const MeasureOptions& options) {
  constexpr int kPacketMax = 4096;
  std::vector<Point> points;
  for (const std::string& name : options.verbs) {
    const bool datagram = name == "send_ud";
    const bool atomic = name == "compare_swap" || name == "fetch_add";
    for (const int size : atomic ? std::vector<int>{8} : options.sizes) {
      for (const int window : options.windows) {
        for (const int batch : options.batches) {
          for (const int queue_pairs : datagram ? std::vector<int>{1} : options.queue_pairs) {
            if (batch > window || (datagram && size > kPacketMax)) continue;
            points.push_back({datagram ? "send" : name, datagram ? "ud" : "rc", size, window, batch,
                              queue_pairs, goes_inline(options, name, size, window)});
          }
        }
      }
    }
  }
  return points;
}

json scenario_of(const Point& p, const MeasureOptions& options) {
  return {{"name", "measure"},
          {"cluster", {{"nodes", 2}, {"threads", 1}, {"nics_per_node", 1}, {"qps_per_peer", p.queue_pairs}}},
          {"workload",
           {{"name", "primitive"},
            {"pattern", "one_to_many"},
            {"verb", p.verb},
            {"transport", p.transport},
            {"payload_b", p.payload_b},
            {"outstanding", p.outstanding},
            {"mode", p.ping_pong() ? "ping_pong" : "pipelined"},
            {"inline", p.is_inline},
            {"signal_interval", options.signal_interval},
            {"target_kib", 4},  // as perftest's buffer: the verb is measured, not the target's caches
            {"doorbell_batch", p.doorbell_batch}}},
          {"run", {{"warmup_us", 100'000}, {"measure_us", options.seconds * 1e6}}}};
}

/// The launch's exit code; what failed is on standard error already.
int measure_point(const MeasureOptions& options, const Point& point, const TemporaryDirectory& directory,
                  const StopSignals& signals) {
  const fs::path scenario = directory.write("scenario.json", scenario_of(point, options).dump());
  std::vector<std::string> arguments = {fs::read_symlink("/proc/self/exe").string(),
                                        "launch",
                                        scenario.string(),
                                        "--quiet",
                                        "--out",
                                        directory.path().string()};
  const auto add = [&](const char* flag, const std::string& value) {
    arguments.emplace_back(flag);
    arguments.push_back(value);
  };
  if (options.hosts.empty()) {
    add("--local", "2");
  } else {
    add("--hosts", options.hosts);
  }
  if (!options.rank.devices.empty()) add("--device", options.rank.devices);
  if (options.rank.port != 0) add("--port", std::to_string(options.rank.port));
  if (options.rank.gid_index != -1) add("--gid-index", std::to_string(options.rank.gid_index));
  return launch_ranks({{arguments, ""}}, make_token(), signals);
}

json point_json(const Point& p, double seconds, const json& result) {
  return {{"verb", p.verb},
          {"transport", p.transport},
          {"payload_b", p.payload_b},
          {"outstanding", p.outstanding},
          {"doorbell_batch", p.doorbell_batch},
          {"queue_pairs", p.queue_pairs},
          {"inline", p.is_inline},
          {"mode", p.ping_pong() ? "ping_pong" : "pipelined"},
          {"seconds", seconds},
          {"operations_per_s", result.at("operations_per_s")},
          {"latency_us", result.at("latency_us")}};
}

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

int measure(const MeasureOptions& options) {
  if (!options.primitives) throw UserError("", "verbtwin measure: what? allowed: --primitives");
  prepare_output_directory(options.out, kFile);
  const StopSignals signals;
  const TemporaryDirectory directory;
  json measurement = {
      {"format", "verbtwin-measurement"}, {"version", 1}, {"time", now_utc()}, {"points", json::array()}};
  print(fmt::format("{:<14}{:<4}{:>9}{:>8}{:>7}{:>5}{:>12}{:>10}{:>10}\n", "verb", "", "payload B", "window",
                    "batch", "QPs", "per s", "p50 us", "p99 us"));
  for (const Point& point : points_of(options)) {
    const int code = measure_point(options, point, directory, signals);
    if (signals.stop().load()) break;
    if (code != kExitDone) return code;
    const json result = json::parse(std::ifstream(directory.path() / "result.json"));
    measurement["measured_on"] = result.at("measured_on");
    measurement["points"].push_back(point_json(point, options.seconds, result));
    const json& latency = result.at("latency_us");
    print(fmt::format("{:<14}{:<4}{:>9}{:>8}{:>7}{:>5}{:>12.0f}{:>10.2f}{:>10.2f}\n", point.verb,
                      point.transport, point.payload_b, point.outstanding, point.doorbell_batch,
                      point.queue_pairs, result.at("operations_per_s").get<double>(),
                      latency.at("p50").get<double>(), latency.at("p99").get<double>()));
  }
  const fs::path file = fs::path(options.out) / kFile;
  write_file_whole(file, measurement.dump(2) + "\n");
  print(fmt::format("wrote {}\n", file.string()));
  return signals.signal_number() == 0 ? kExitDone : kExitSignal + signals.signal_number();
}

}  // namespace

void add_measure_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MeasureOptions>();
  CLI::App* command = app.add_subcommand("measure", "Measure raw verbs between two ranks on real devices");
  command->add_flag("--primitives", options->primitives,
                    "Latency and rate of READ, WRITE, SEND, CAS, FAA, UD SEND");
  command->add_option("--hosts", options->hosts, "File with two hosts, a line each; absent: both ranks here")
      ->type_name("FILE");
  command->add_option("--out", options->out, "Directory for measurement.json; created if absent")
      ->required()
      ->type_name("DIR");
  const auto positive = CLI::Range(1, 1 << 20);
  command->add_option("-s,--size", options->sizes, "Payloads in bytes: 8,64")
      ->delimiter(',')
      ->check(positive);
  command->add_option("-t,--tx-depth", options->windows, "Requests in flight: 1,16")
      ->delimiter(',')
      ->check(positive);
  command->add_option("-q,--qp", options->queue_pairs, "Queue pairs: 1,4")->delimiter(',')->check(positive);
  command->add_option("-l,--post_list", options->batches, "Requests a doorbell: 1,8")
      ->delimiter(',')
      ->check(positive);
  command->add_option("-I,--inline_size", options->inline_b, "Largest payload that is sent inline, window 1")
      ->check(CLI::Range(0, kInlineMax_b));
  command
      ->add_option("-Q,--cq-mod", options->signal_interval,
                   "One in so many requests is signalled; at least one in half a window")
      ->check(positive);
  command->add_option("-D,--duration", options->seconds, "Seconds a point")->check(CLI::Range(0.001, 1000.0));
  command->add_option("--verbs", options->verbs, "read,write,send,compare_swap,fetch_add,send_ud")
      ->delimiter(',')
      ->check(CLI::IsMember(options->verbs));
  command->add_option("-d,--device", options->rank.devices, "RDMA device, as ib_read_bw's -d")
      ->type_name("NAME");
  command->add_option("-i,--port", options->rank.port, "Port of the device")->type_name("N");
  command->add_option("-x,--gid-index", options->rank.gid_index, "GID of the port")->type_name("N");
  command->footer(
      "Example:\n"
      "  verbtwin measure --primitives --out out/measured -s 8,64 -t 1,16 -D 2\n"
      "Flags that perftest has too mean the same there. A WRITE with a window of 1 is half a round trip of\n"
      "two ranks that answer each other, as ib_write_lat's; other latencies end with the completion. A "
      "result names its device, firmware, link, CPU and "
      "kernel.");
  command->callback([options, &exit_code] { exit_code = measure(*options); });
}

}  // namespace verbtwin::tools
