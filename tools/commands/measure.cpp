// verbtwin measure: latency and rate of raw verbs between two ranks on real devices, one launch a point; or
// what perftest has measured there.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/csv_table.hpp"
#include "calibration/measurement.hpp"
#include "calibration/perftest.hpp"
#include "scenarios/document.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/commands/measured_points.hpp"
#include "tools/console/captured.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/output_file.hpp"
#include "tools/console/print.hpp"
#include "tools/console/text.hpp"
#include "tools/ranks/launcher.hpp"
#include "tools/run/catalog.hpp"

namespace verbtwin::tools {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Point = calibration::PrimitivePoint;

constexpr const char* kFile = calibration::kMeasurementFile;
constexpr const char* kScenarioFile = "measured-point.json";  // while it is measured

struct MeasureOptions {
  bool primitives = false;
  std::vector<std::string> perftest;  // files
  double link_gbps = 0;               // of these; they do not say it
  std::string hosts, out;
  RankFlags rank;
  MeasuredGrid grid;
  double seconds = 1;
};

struct Launched {
  int code = kExitDone;
  std::string out, err;
};

/// Takes the file away, however the scope ends.
struct Removal {
  const fs::path& file;
  ~Removal() {
    std::error_code ignored;
    fs::remove(file, ignored);
  }
};

/// Runs `point` for so long. The scenario is read by both ranks, on other machines too: it is in --out, which
/// they share.
Launched launch_point(const MeasureOptions& options, const Point& point, double seconds,
                      const StopSignals& signals) {
  const fs::path scenario = fs::absolute(options.out) / kScenarioFile;
  const Removal removal{scenario};
  constexpr double kWarmup_us = 100'000;
  write_file_whole(scenario, calibration::scenario_of(point, kWarmup_us, seconds * 1e6).dump() + "\n");
  std::vector<std::string> arguments = {fs::read_symlink("/proc/self/exe").string(), "launch",
                                        scenario.string(), "--quiet", "--json"};
  const auto add = [&](const char* flag, const std::string& value) {
    arguments.emplace_back(flag);
    arguments.push_back(value);
  };
  if (options.hosts.empty()) {
    add("--local", "2");
  } else {
    add("--hosts", options.hosts);
  }
  if (!options.rank.rendezvous.empty()) add("--rendezvous", options.rank.rendezvous);
  for (std::string& argument : device_arguments(options.rank)) arguments.push_back(std::move(argument));
  const Captured out, err;
  Launched launched;
  launched.code = launch_ranks({{arguments, "", out.fd(), err.fd()}}, make_token(), signals);
  launched.out = out.text();
  launched.err = err.text();
  return launched;
}

/// The last line, as the launch said it of the run.
std::string failure_of(const Launched& launched) {
  std::string line = launched.err.substr(0, launched.err.find_last_not_of('\n') + 1);
  line.erase(0, line.rfind('\n') + 1);  // npos + 1 is 0
  constexpr std::string_view kProgram = "verbtwin: ";
  constexpr std::size_t kFailureMax = 1000;  // characters
  if (line.starts_with(kProgram)) line.erase(0, kProgram.size());
  return line.empty() ? fmt::format("exit code {}", launched.code) : scenarios::one_line(line, kFailureMax);
}

/// What all NICs of these machines are capable of.
struct Capabilities {
  int packet_b = std::numeric_limits<int>::max();  // the most that a datagram holds
  int inline_b = calibration::kMeasuredInlineMax_b;
  bool atomics = true;
};

Capabilities capabilities_of(const json& machines) {
  Capabilities all;
  for (const json& machine : machines) {
    for (const json& device : machine.at("devices")) {
      all.packet_b = std::min(all.packet_b, device.at("mtu").get<int>());
      all.inline_b = std::min(all.inline_b, device.at("inline_b").get<int>());
      all.atomics = all.atomics && device.at("atomics").get<bool>();
    }
  }
  return all;
}

json point_json(const Point& point, double seconds, const json& result) {
  json all = calibration::to_json(point);
  all["seconds"] = seconds;
  for (const char* key : {"operations_per_s", "latency_us"}) all[key] = result.at(key);
  return all;
}

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

/// Point by point, the file rewritten after each: whatever ends the measurement, those that were finished are
/// there, marked partial.
class Measurement {
 public:
  explicit Measurement(const MeasureOptions& options) : options_(options) {}

  int run(const MeasuredPoints& what) {
    for (const std::string& skipped : what.skipped) print(skipped + "\n");
    const bool all = std::ranges::all_of(what.points, [this](const Point& point) { return add(point); });
    if (all && kept_.at("points").empty()) {
      throw UserError("", "verbtwin measure: nothing could be measured: " + skipped_.back());
    }
    // What was measured before is worth more than nothing; who gave the wrong hosts or device has nothing.
    if (kept_.at("points").empty() && (code_ == kExitUserError || fs::exists(file_))) return exit_code();
    kept_["partial"] = !all;
    save();
    print_written(file_);
    return exit_code();
  }

 private:
  int exit_code() const {
    return signals_.signal_number() == 0 ? code_ : kExitSignal + signals_.signal_number();
  }

  /// False: the measurement is over.
  bool add(Point point) {
    if (!learn_capabilities(point)) return false;
    if (const std::string why = why_not(point); !why.empty()) {
      skip(point, why);
      return true;
    }
    const json result = launch(point, options_.seconds);
    if (result.is_null()) return false;
    kept_["points"].push_back(point_json(point, options_.seconds, result));
    save();
    print_head();
    const json& latency = result.at("latency_us");
    print(fmt::format("{:<14}{:<4}{:>9}{:>8}{:>8}{:>7}{:>5}{:>12.0f}{:>10.2f}{:>10.2f}\n", point.verb,
                      point.transport, point.payload_b, point.threads, point.outstanding,
                      point.doorbell_batch, point.queue_pairs, result.at("operations_per_s").get<double>(),
                      latency.at("p50").get<double>(), latency.at("p99").get<double>()));
    return true;
  }

  /// Above the first row.
  void print_head() {
    if (std::exchange(has_head_, true)) return;
    print(fmt::format("{:<14}{:<4}{:>9}{:>8}{:>8}{:>7}{:>5}{:>12}{:>10}{:>10}\n", "verb", "", "payload B",
                      "threads", "window", "batch", "QPs", "per s", "p50 us", "p99 us"));
  }

  /// What depends on the device is asked of it before the first such point, by a brief run of what none
  /// refuses. False: that failed.
  bool learn_capabilities(Point& point) {
    constexpr int kEveryPacket_b = 256;  // the smallest MTU there is
    const bool large = point.transport == "ud" && point.payload_b > kEveryPacket_b;
    if (!large && !point.is_inline && !point.is_atomic()) return true;
    if (!kept_.contains("measured_on")) {
      constexpr double kBrief_s = 0.01;
      Point small{"read", "rc"};
      small.payload_b = 8;
      if (launch(small, kBrief_s).is_null()) return false;
    }
    const int inline_b = capabilities_of(kept_.at("measured_on")).inline_b;
    point.is_inline = point.is_inline && point.payload_b <= inline_b;
    return true;
  }

  /// Why these devices cannot do it; empty: they can.
  std::string why_not(const Point& point) const {
    if (!kept_.contains("measured_on")) return "";
    const Capabilities device = capabilities_of(kept_.at("measured_on"));
    if (point.transport == "ud" && point.payload_b > device.packet_b) {
      return fmt::format("a datagram holds up to {} B here", device.packet_b);
    }
    return point.is_atomic() && !device.atomics ? "the device has no atomic operations" : "";
  }

  /// Once for all combinations of it.
  void skip(const Point& point, const std::string& why) {
    std::string line =
        fmt::format("{:<14}{:<4}{:>9} skipped: {}", point.verb, point.transport, point.payload_b, why);
    if (std::ranges::find(skipped_, line) != skipped_.end()) return;
    print_head();
    print(line + "\n");
    skipped_.push_back(std::move(line));
  }

  /// With other ports where the first that was drawn for the rendezvous is another program's.
  Launched launch_somewhere(const Point& point, double seconds) {
    constexpr int kTries = 5;
    for (int tries = 1;; ++tries) {
      Launched launched = launch_point(options_, point, seconds, signals_);
      const bool taken = launched.code == kExitUserError && options_.rank.rendezvous.empty() &&
                         launched.err.find(std::strerror(EADDRINUSE)) != std::string::npos;
      if (taken && tries < kTries && !signals_.stop()) continue;
      print_error(launched.err);
      return launched;
    }
  }

  /// The run's result; null where it failed or was stopped.
  json launch(const Point& point, double seconds) {
    const Launched launched = launch_somewhere(point, seconds);
    if (signals_.stop()) return {};
    code_ = launched.code;
    if (code_ != kExitDone) {
      kept_["failure"] = failure_of(launched);
      return {};
    }
    // A login shell may have said something before.
    json result = json::parse(launched.out.substr(std::min(launched.out.size(), launched.out.find("{\n"))),
                              nullptr, false);
    if (!result.is_object() || !result.contains("measured_on"))
      return fail("the launch printed no result but: " + scenarios::one_line(launched.out, 200));
    if (const auto failed = result.at("operations_failed").get<std::uint64_t>(); failed > 0)
      return fail(fmt::format("{} of {} failed", format_counted(failed, "request"), point.verb));
    kept_["measured_on"] = result.at("measured_on");
    return result;
  }

  json fail(const std::string& why) {
    print_error(fmt::format("verbtwin: {}\n", why));
    kept_["failure"] = why;
    code_ = kExitFailure;
    return {};
  }

  void save() const { write_file_whole(file_, kept_.dump(2) + "\n"); }

  const MeasureOptions& options_;
  StopSignals signals_;
  fs::path file_ = fs::path(options_.out) / kFile;
  json kept_ = {{"format", "verbtwin-measurement"},
                {"version", 1},
                {"time", now_utc()},
                {"partial", true},
                {"points", json::array()}};
  bool has_head_ = false;
  std::vector<std::string> skipped_;  // lines
  int code_ = kExitDone;
};

/// CLI11's own check of a range lets "nan" through.
CLI::Validator within(double least, double most, const char* unit) {
  const auto check = [=](const std::string& text) -> std::string {
    const std::optional<double> value = calibration::number_of(text);
    if (value && *value >= least && *value <= most) return "";
    return fmt::format("{}: allowed: {} to {} {}", scenarios::one_line(text, 60), least, most, unit);
  };
  return {check, ""};
}

/// Flags of one of the two ways to measure say nothing to the other.
void refuse_other_flags(const CLI::App& command, bool imports) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool of_import = name == "--perftest" || name == "--link-gbps";
    if (option->count() == 0 || name == "--out" || of_import == imports) continue;
    throw UserError("", fmt::format("verbtwin measure: {} is of {}", name,
                                    imports ? "--primitives; allowed with --perftest: --link-gbps, --out"
                                            : "--perftest"));
  }
}

int import(const MeasureOptions& options) {
  if (options.link_gbps == 0) {
    throw UserError("",
                    "verbtwin measure: --perftest: --link-gbps is missing: perftest does not say how fast "
                    "the link is; allowed: its data rate, 100 of EDR or 100 GbE");
  }
  const calibration::PerftestImport all =
      calibration::import_perftest({options.perftest.begin(), options.perftest.end()}, options.link_gbps);
  std::vector<InputFile> inputs;
  for (const std::string& file : options.perftest) inputs.push_back({file, "an output of perftest"});
  const OutputDirectory directory(options.out, {kFile}, inputs);
  for (const std::string& skipped : all.skipped) print(skipped + "\n");
  const fs::path file = fs::path(options.out) / kFile;
  write_file_whole(file, all.measurement.dump(2) + "\n");
  print_written(
      file, fmt::format(": {}{}", format_counted(all.measurement.at("points").size(), "point"),
                        all.measurement.at("partial") ? ", partial: a test did not come to its end" : ""));
  return kExitDone;
}

int measure(const MeasureOptions& options) {
  if (!options.hosts.empty()) {
    if (const std::size_t hosts = read_hosts(options.hosts).size(); hosts != 2) {
      throw UserError("",
                      fmt::format("--hosts {}: {}; allowed: two, one that posts and one that is posted to",
                                  scenarios::one_line(options.hosts), format_counted(hosts, "host")));
    }
  }
  const MeasuredPoints points = measured_points(options.grid);
  std::vector<InputFile> inputs;
  if (!options.hosts.empty()) inputs.push_back({options.hosts, "the file of --hosts"});
  const OutputDirectory directory(options.out, {kFile, kScenarioFile}, inputs);
  return Measurement(options).run(points);
}

/// Which points: flags named as perftest's where they mean the same.
void add_grid_options(CLI::App& command, MeasuredGrid& grid) {
  // What the scenario's schema would refuse is not found out between two points.
  const auto most_of = [](const char* key) {
    return most_allowed(std::string("workload.") + key, "primitive");
  };
  const auto several = [&](const char* flags, std::vector<int>& values, const char* what, int most) {
    return command.add_option(flags, values, fmt::format("{}; absent: {}", what, fmt::join(values, ",")))
        ->delimiter(',')
        ->type_name("N,...")
        ->check(CLI::Range(1, most));
  };
  several("-s,--size", grid.sizes, "Payloads in bytes", most_of("payload_b"));
  several("--threads", grid.threads, "Threads that post, of one rank", most_allowed("cluster.threads"));
  several("-t,--tx-depth", grid.windows, "Requests in flight, of a thread", most_of("outstanding"));
  several("-q,--qp", grid.queue_pairs, "Queue pairs of a thread", most_allowed("cluster.qps_per_peer"));
  several("-l,--post_list", grid.batches, "Requests a doorbell", most_of("doorbell_batch"));
  command
      .add_option(
          "-I,--inline_size", grid.inline_b,
          fmt::format("Largest payload that one request at a time sends inline; absent: {}", grid.inline_b))
      ->type_name("N")
      ->check(CLI::Range(0, calibration::kMeasuredInlineMax_b));
  command
      .add_option("-Q,--cq-mod", grid.signal_interval,
                  fmt::format("One in so many requests is signalled, at least one in half a window; "
                              "absent: {}",
                              grid.signal_interval))
      ->type_name("N")
      ->check(CLI::Range(1, most_of("signal_interval")));
  command
      .add_option("--verbs", grid.verbs,
                  fmt::format("What is measured; absent: {}", fmt::join(grid.verbs, ",")))
      ->delimiter(',')
      ->type_name("NAME,...")
      ->check(CLI::IsMember(grid.verbs));
}

}  // namespace

void add_measure_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<MeasureOptions>();
  CLI::App* command = app.add_subcommand("measure", "Measure raw verbs between two ranks on real devices");
  command->add_flag("--primitives", options->primitives,
                    "Latency and rate of READ, WRITE, SEND, CAS, FAA, UD SEND");
  command
      ->add_option("--perftest", options->perftest,
                   "Measure nothing: take what perftest's tools printed, or wrote with --out_json")
      ->type_name("FILE");
  command
      ->add_option("--link-gbps", options->link_gbps,
                   "With --perftest: data rate of the slower end's link, which its files do not say")
      ->type_name("GBPS")
      ->check(within(1, 1600, "Gb/s"));
  command->add_option("--hosts", options->hosts, "File with two hosts, a line each; absent: both ranks here")
      ->type_name("FILE");
  command
      ->add_option(
          "--out", options->out,
          "Directory for measurement.json; created if absent; with --hosts, at the same path on both, as "
          "the program")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--rendezvous", options->rank.rendezvous,
                   "Where the rank that posts listens and the other finds it; chosen where absent")
      ->type_name("HOST:PORT");
  add_grid_options(*command, options->grid);
  command
      ->add_option("-D,--duration", options->seconds,
                   fmt::format("Seconds a point; absent: {}", options->seconds))
      ->type_name("S")
      ->check(within(0.001, 1000, "seconds"));
  command
      ->add_option("-d,--device", options->rank.devices,
                   "RDMA device, perftest's --ib-dev; chosen where absent")
      ->type_name("NAME")
      ->check(check_device_names);
  command
      ->add_option("-i,--port", options->rank.port,
                   "Port of the device, perftest's --ib-port; chosen where absent")
      ->type_name("N")
      ->check(kPortNumbers);
  command->add_option("-x,--gid-index", options->rank.gid_index, "GID of the port; chosen where absent")
      ->type_name("N")
      ->check(kGidIndices);
  command->add_option("-S,--sl", options->rank.sl, "Service level of all that is sent; absent: 0")
      ->type_name("N")
      ->check(kServiceLevels);
  command
      ->add_option(
          "--traffic-class", options->rank.traffic_class,
          "Traffic class of all that is sent, perftest's --tclass; RoCE: 4 times the DSCP; absent: 0")
      ->type_name("N")
      ->check(kTrafficClasses);
  command->footer(R"(Examples:
  verbtwin measure --primitives --out out/measured -s 8,64 -t 1,16 -D 2
  verbtwin measure --perftest read_lat.txt write_bw.txt bw.json --link-gbps 100 --out out/measured
Flags that mean the same in perftest: -s, -l, -I, -Q, -D, -d, -i, -x and -S; of the long names --size,
--post_list, --inline_size, --cq-mod, --duration, --gid-index and --sl.
Flags that mean something else there: -t (--tx-depth) is of a queue pair there and of a thread here, -q
(--qp) of a process there and of a thread here. Our --device and --port are perftest's --ib-dev and
--ib-port; its --port is a TCP port. perftest lacks our other flags, and takes no lists of values.
It also lets PCIe reorder writes where it can, which protocols do not; --disable_pcie_relaxed compares.
Latency of a WRITE, of one thread with a window of 1: half a round trip of two ranks that answer each
other, as ib_write_lat takes it. Other latencies end with the completion. A result names its device,
firmware, link, CPU and kernel.
--perftest takes all that the client printed (several runs in a file, -a, --report_gbits), or --out_json,
where -a leaves only the last size and -C cannot be told from microseconds. Of bandwidth tests it takes
MsgRate, of latency tests t_typical, the median. Left out, and said so: SEND latency (half a round trip,
where ours ends with the completion), WRITE latency below 8 B, and what is larger than our limits.
Refused: inf and nan, both directions (-b), -D of a latency test, events (-e), SRQs, other devices.)");
  command->callback([options, command, &exit_code] {
    if (options->primitives == !options->perftest.empty()) {
      throw UserError("", fmt::format("verbtwin measure: {}; allowed: --primitives, --perftest FILE",
                                      options->primitives ? "one of the two" : "what?"));
    }
    refuse_other_flags(*command, !options->primitives);
    exit_code = options->primitives ? measure(*options) : import(*options);
  });
}

}  // namespace verbtwin::tools
