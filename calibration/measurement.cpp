#include "calibration/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "backend/user_error.hpp"
#include "calibration/perftest.hpp"
#include "calibration/plausible.hpp"
#include "scenarios/document.hpp"
#include "scenarios/json_schema.hpp"
#include "scenarios/loader.hpp"
#include "scenarios/text.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::calibration {

namespace {

using nlohmann::json;
using scenarios::Document;

json number(const json& least, const json& most) {
  return {{"type", "number"}, {"minimum", least}, {"maximum", most}};
}

/// Of these keys all of `read`; the others are `measure`'s (result.json's too), for people.
json part(json read, const json& others) {
  json object = scenarios::json_schema::object(std::move(read));
  object["properties"].update(others);
  return object;
}

const json& measurement_schema() {
  constexpr int kMost = 1 << 20;
  using namespace scenarios::json_schema;
  const json name = text(0, 1000), boolean = {{"type", "boolean"}}, any = json::object();
  const json device = part({{"device", name},
                            {"link_layer", one_of({"InfiniBand", "Ethernet"})},
                            {"link_gbps", number(1, 1600)},  // as a profile's
                            {"mtu", whole(256, 4096)}},
                           {{"pcie_gbps", number(1, 4000)},  // as a profile's
                            {"port", any},
                            {"firmware", any},
                            {"inline_b", any},
                            {"atomics", any},
                            {"gid_index", any},
                            {"gid", any},
                            {"sl", any},
                            {"traffic_class", any},
                            {"pkey", any}});
  const json end = part({{"devices", list_of(device, 1, 64)}}, {{"host", name},
                                                                {"cpu", name},
                                                                {"kernel", any},
                                                                {"worker_cpus", any},
                                                                {"tcp_address", any},
                                                                {"environment", any},
                                                                {"warning", any}});
  // From what a clock can tell to the longest measurement that there is, with room on both sides.
  const json per_s = number(0.001, 100'000'000'000), us = number(0.01, 1'000'000'000);
  const json latency =
      part({{"p50", us}}, {{"mean", any}, {"p90", any}, {"p99", any}, {"p999", any}, {"max", any}});
  const json point =
      part({{"verb", one_of({"read", "write", "send", "compare_swap", "fetch_add"})},
            {"transport", one_of({"rc", "ud"})},
            {"payload_b", whole(1, kMost)},
            {"outstanding", whole(1, kMost)},
            {"doorbell_batch", whole(1, kMost)},
            {"threads", whole(1, 256)},
            {"queue_pairs", whole(1, kMost)},
            {"signal_interval", whole(1, kMost)},
            {"inline", boolean},
            {"mode", one_of({"pipelined", "ping_pong"})}},
           {{"operations_per_s", per_s}, {"latency_us", latency}, {"seconds", any}, {"source", any}});
  static const json schema = part({{"format", exactly("verbtwin-measurement")},
                                   {"version", exactly(1)},
                                   {"partial", boolean},
                                   {"measured_on", list_of(end, 1, 2)},
                                   {"points", list_of(point, 1, 10'000)}},
                                  {{"time", any}, {"failure", any}});
  return schema;
}

PrimitivePoint point_from(const json& read) {
  return {read.at("verb"),           read.at("transport"), read.at("payload_b"),   read.at("outstanding"),
          read.at("doorbell_batch"), read.at("threads"),   read.at("queue_pairs"), read.at("signal_interval"),
          read.at("inline"),         read.at("mode")};
}

void describe_ends(const json& ends, Measurement& m) {
  m.link_gbps = m.mtu_b = std::numeric_limits<double>::max();
  double pcie_gbps = std::numeric_limits<double>::max();
  bool slots_known = true;
  std::string names, cpus;
  for (const json& end : ends) {
    const json& device = end.at("devices")[0];  // with one NIC a node, all threads use it
    m.link_gbps = std::min(m.link_gbps, device.at("link_gbps").get<double>());
    m.mtu_b = std::min(m.mtu_b, device.at("mtu").get<double>());
    slots_known = slots_known && device.contains("pcie_gbps");
    if (slots_known) pcie_gbps = std::min(pcie_gbps, device.at("pcie_gbps").get<double>());
    m.ethernet = m.ethernet || device.at("link_layer") == "Ethernet";
    names += (names.empty() ? "" : " and ") +
             scenarios::one_line(device.at("device").get_ref<const std::string&>());
    const std::string cpu = scenarios::one_line(end.value("cpu", "CPU not named"));
    if (cpus.find(cpu) == std::string::npos) cpus += (cpus.empty() ? "" : ", ") + cpu;
  }
  if (slots_known) m.pcie_gbps = pcie_gbps;
  m.one_machine =
      ends.size() == 2 && ends[0].contains("host") && ends[0].at("host") == ends[1].value("host", json());
  m.devices =
      fmt::format("{}, {} Gb/s {}; {}", names, m.link_gbps, m.ethernet ? "Ethernet" : "InfiniBand", cpus);
}

std::string experiment_of(const MeasuredPoint& p) {
  return fmt::format("{}{}_{}", p.what.transport == "ud" ? "ud_" : "", p.what.verb,
                     p.tells_latency() ? "latency" : "rate");
}

/// What tells a point from the others of its experiment, beside payload and inlining. `signalling`: they
/// differ in it, too.
std::string series_of(const PrimitivePoint& p, bool signalling) {
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (p.threads > 1) add(fmt::format("{} threads", p.threads));
  if (!p.is_alone()) add(fmt::format("window {}", p.outstanding));
  if (p.doorbell_batch > 1) add(fmt::format("{} a doorbell", p.doorbell_batch));
  if (p.queue_pairs > 1) add(fmt::format("{} queue pairs", p.queue_pairs));
  if (signalling && p.signal_interval > 1) add(fmt::format("1 of {} signalled", p.signal_interval));
  if (p.mode != "pipelined") add(p.mode);
  return text;
}

bool differ_in_signalling(const Measurement& measurement) {
  const auto differs = [](const MeasuredPoint& one, const MeasuredPoint& other) {
    return one.what.signal_interval != other.what.signal_interval;
  };
  return std::ranges::adjacent_find(measurement.points, differs) != measurement.points.end();
}

/// The experiments with points that differ in nothing but inlining. Elsewhere it goes with the payload.
std::set<std::string> inlined_or_not(const Measurement& measurement) {
  std::set<std::string> both;
  std::map<std::string, bool> seen;
  for (const MeasuredPoint& p : measurement.points) {
    const std::string experiment = experiment_of(p);
    const std::string point =
        fmt::format("{}, {}, {} B", experiment, series_of(p.what, true), p.what.payload_b);
    if (seen.emplace(point, p.what.is_inline).first->second != p.what.is_inline) both.insert(experiment);
  }
  return both;
}

/// What may complete at once, of a thread: what one completion covers, half a window at the most, and what
/// shares a doorbell.
double batch_of(const PrimitivePoint& what) {
  return std::min(what.outstanding,
                  std::min(what.signal_interval, what.outstanding / 2) + what.doorbell_batch);
}

/// At the measured rate some hundred operations, enough for a median, and twenty times what is in flight. A
/// window's ends count whole batches, also of several threads, which keep in step: of 200 one more or less is
/// 0.5 %. Models far faster than the device would do millions in that time, so that one which is slower than
/// kSlow_us an operation has no more: but not less than the link takes for as many payloads, of which no
/// model does more.
constexpr double kOperations = 400, kWindows = 20, kBatches = 200, kSlow_us = 2;
constexpr double kWindowMin_us = 200, kWindowShort_us = 5000, kWindowMax_us = 1'000'000;

double window_us(const PrimitivePoint& what, double per_s, double link_gbps) {
  const double of_thread = std::max({kOperations, kWindows * what.outstanding, kBatches * batch_of(what)});
  const double operations = of_thread * what.threads;
  const double link_us = operations * what.payload_b * 8e-3 / link_gbps;
  const double most_us = std::max({kWindowShort_us, kSlow_us * of_thread, link_us});
  return std::clamp(operations / per_s * 1e6, kWindowMin_us, std::min(most_us, kWindowMax_us));
}

Point experiment_point(const MeasuredPoint& measured, double link_gbps, const std::string& nic,
                       const std::string& host, const scenarios::Catalog& catalog, bool signalling) {
  Point p;
  p.series = series_of(measured.what, signalling);
  p.x = std::to_string(measured.what.payload_b);
  const double per_s =
      measured.operations_per_s ? *measured.operations_per_s : 1e6 / *measured.latency_p50_us;
  p.published = measured.tells_latency() ? *measured.latency_p50_us : per_s * 1e-6;
  p.place = measured.place;
  const double measure_us = window_us(measured.what, per_s, link_gbps);
  json scenario = scenario_of(measured.what, measure_us / 4, measure_us);
  scenario["cluster"]["nic"] = nic;
  scenario["cluster"]["host"] = host;
  try {
    p.variants.push_back(
        scenarios::load_scenario(Document::parse(kUnseenScenario, scenario.dump()), {}, catalog));
  } catch (const UserError& error) {
    throw UserError("", cannot_be_simulated(measured.place, error.what()));
  }
  return p;
}

json fixed(double value, const char* unit, const std::string& source) {
  return {{"value", value}, {"unit", unit}, {"source", source}, {"uncertainty", 0}};
}
json factor(const char* name, const std::vector<std::string>& parameters, double low, double high) {
  return {{"name", name},
          {"parameters", parameters},
          {"value", 1.0},
          {"fit", {low, high}},
          {"source", fmt::format("times a factor ({})", name)}};
}
json machine(const char* kind, const std::string& name, const std::string& base, const Measurement& m) {
  return {{"format", "verbtwin-machine"},
          {"version", 1},
          {"kind", kind},
          {"name", name},
          {"description", fmt::format("{}, fitted to {}: {}", base, m.file, m.devices)},
          {"from", base}};
}

}  // namespace

json to_json(const PrimitivePoint& p) {
  return {{"verb", p.verb},
          {"transport", p.transport},
          {"payload_b", p.payload_b},
          {"outstanding", p.outstanding},
          {"doorbell_batch", p.doorbell_batch},
          {"threads", p.threads},
          {"queue_pairs", p.queue_pairs},
          {"signal_interval", p.signal_interval},
          {"inline", p.is_inline},
          {"mode", p.mode}};
}

json scenario_of(const PrimitivePoint& p, double warmup_us, double measure_us) {
  json workload = to_json(p);
  workload.erase("threads");
  workload.erase("queue_pairs");
  workload["name"] = "primitive";
  workload["pattern"] = "one_to_many";
  workload["target_kib"] = 4;  // as perftest's buffer: the verb is measured, not the target's caches
  return {{"name", "measure"},
          {"cluster",
           {{"nodes", 2}, {"threads", p.threads}, {"nics_per_node", 1}, {"qps_per_peer", p.queue_pairs}}},
          {"workload", std::move(workload)},
          {"run", {{"warmup_us", warmup_us}, {"measure_us", measure_us}}}};
}

Measurement read_measurement(const std::filesystem::path& file) {
  const std::string text =
      scenarios::read_text(file, scenarios::kDocumentBytesMax + scenarios::kByteOrderMark.size());
  if (looks_like_perftest(text)) {
    throw UserError("", fmt::format("{}:1:1: an output of perftest; allowed: a measurement, which `verbtwin "
                                    "measure --perftest FILE --link-gbps GBPS --out DIR` makes of it",
                                    scenarios::one_line(file.string())));
  }
  const Document document = Document::parse(file.string(), text);
  const json root = scenarios::require(document, measurement_schema());
  Measurement m;
  m.file = scenarios::one_line(file.filename().string());
  m.partial = root.at("partial");
  describe_ends(root.at("measured_on"), m);
  for (std::size_t i = 0; i < root.at("points").size(); ++i) {
    const json& point = root.at("points")[i];
    MeasuredPoint& measured = m.points.emplace_back();
    measured.what = point_from(point);
    if (point.contains("operations_per_s")) measured.operations_per_s = point.at("operations_per_s");
    if (point.contains("latency_us")) measured.latency_p50_us = point.at("latency_us").at("p50");
    const std::string pointer = fmt::format("/points/{}", i);
    measured.place = fmt::format("{}: point {}", document.place(pointer), i + 1);
    if (!measured.operations_per_s && !measured.tells_latency()) {
      scenarios::refuse(document, pointer,
                        "missing: operations_per_s; allowed without it: one request at a time, with its "
                        "latency_us");
    }
  }
  refuse_impossible(document, m);
  return m;
}

std::vector<Experiment> experiments_of(const Measurement& measurement, const std::string& nic,
                                       const std::string& host, const scenarios::Catalog& catalog) {
  std::map<std::string, Experiment> by_name;
  const std::set<std::string> tell_inline = inlined_or_not(measurement);
  const bool tell_signalling = differ_in_signalling(measurement);
  for (const MeasuredPoint& point : measurement.points) {
    const bool latency = point.tells_latency();
    const std::string name = experiment_of(point);
    Experiment& e = by_name[name];
    if (e.points.empty()) {
      e.name = name;
      e.description = latency ? "One request at a time of one thread: median." : "Requests of one machine.";
      if (!tell_signalling && point.what.signal_interval > 1)
        e.description += fmt::format(" 1 of {} is signalled.", point.what.signal_interval);
      e.data = measurement.file;
      e.unit = latency ? "us" : "M operations/s";
      e.x_name = "payload_b";
      e.nic = nic;
      e.host = host;
      e.result_pointer = latency ? "/latency_us/p50" : "/operations_per_s";
      e.scale = latency ? 1 : 1e-6;
      if (measurement.one_machine)
        e.assumptions.emplace_back("a network between the ranks, which were on one machine");
      if (measurement.partial)
        e.assumptions.emplace_back("nothing of the points that the measurement did not reach");
    }
    Point& added = e.points.emplace_back(
        experiment_point(point, measurement.link_gbps, nic, host, catalog, tell_signalling));
    if (tell_inline.contains(name)) {
      added.series += (added.series.empty() ? "" : ", ");
      added.series += point.what.is_inline ? "inline" : "not inline";
    }
  }
  std::vector<Experiment> all;
  for (auto& [name, experiment] : by_name) all.push_back(std::move(experiment));
  return all;
}

MachineGroup add_machines(Machines& machines, const Measurement& m, const std::string& nic,
                          const std::string& base_nic, const std::string& host, const std::string& base_host,
                          bool limits) {
  json wanted = machine("nic", nic, base_nic, m);
  const std::string source = "as measured: " + m.devices;
  wanted["parameters"] = {
      {"link_gbps", fixed(m.link_gbps, "Gb/s", source)},
      {"mtu_b", fixed(m.mtu_b, "B", source)},
      {"wire_header_b", fixed(m.ethernet ? 56 : 0, "B", m.ethernet ? "RoCEv2" : "InfiniBand")}};
  // Of every generation that is known, between a twentieth and twenty times; latencies differ by less.
  wanted["factors"] = {factor("engines",
                              {"send_doorbell_ns", "send_wqe_ns", "send_wqe_block_ns", "send_response_ns",
                               "serve_request_ns", "send_fetch_ns", "recv_packet_ns", "recv_ack_ns",
                               "recv_wqe_ns", "recv_imm_ns", "queue_pair_gap_ns", "atomic_engine_ns"},
                              0.05, 20),
                       factor("streams",
                              {"send_response_block_ns", "send_fetch_block_ns", "recv_block_ns",
                               "recv_tlp_ns", "recv_scatter_block_ns"},
                              0.05, 20),
                       factor("pipelines", {"send_pipeline_ns", "recv_pipeline_ns"}, 0.1, 10),
                       factor("PCIe latency", {"dma_read_ns", "dma_write_ns", "mmio_ns"}, 0.2, 5)};
  if (m.pcie_gbps) wanted["parameters"]["pcie_gbps"] = fixed(*m.pcie_gbps, "Gb/s", source);
  if (limits) {
    wanted["factors"].push_back(factor("DMA reads", {"dma_reads_outstanding"}, 0.1, 10));
    if (!m.pcie_gbps) wanted["factors"].push_back(factor(kPcieRateFactor, {"pcie_gbps"}, 0.1, 4));
  }
  machines.add(wanted, m.file);
  json cores = machine("host", host, base_host, m);
  cores["factors"] = json::array({factor("core time", {"ns"}, 0.1, 10)});  // {json}: a copy for Clang
  machines.add(cores, m.file);
  constexpr int kRounds = 8;
  return {"fit", {nic, host}, kRounds, true, true};
}

}  // namespace verbtwin::calibration
