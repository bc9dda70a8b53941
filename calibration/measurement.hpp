// Measurements: what `verbtwin measure` found on real devices, as its file has it and as experiments that the
// simulator can run, so that a NIC and a host profile can be fitted to a cluster of one's own.
//
// {"format": "verbtwin-measurement", "version": 1, "time": "...", "partial": false, "measured_on": [{"host":
//  "...", "cpu": "...", "devices": [{"device": "mlx5_0", "link_layer": "Ethernet", "link_gbps": 100.0, "mtu":
//  4096, "pcie_gbps": 126.0, ...}], ...}, ...], "points": [{"verb": "read", "transport": "rc", "payload_b":
//  8, "outstanding": 1, "doorbell_batch": 1, "threads": 1, "queue_pairs": 1, "signal_interval": 100,
//  "inline": false, "mode": "pipelined", "seconds": 1.0, "operations_per_s": 480000, "latency_us":
//  {"p50": 2.1, ...}}, ...]}
// Two ranks, of which the first posts: `outstanding` requests on `queue_pairs` queue pairs of each of its
// threads. pcie_gbps is the slot's raw rate, where it is known. What else `measure` writes is allowed and not
// read; any other key is refused. What perftest measured (perftest.hpp) has one end without `host` and `cpu`,
// and of each point either the rate or, with one request at a time, the latency.
//
// Values and free functions, callable from any thread. What is wrong in a file is a UserError of one line
// with its place.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "calibration/experiment.hpp"
#include "calibration/machine.hpp"
#include "scenarios/catalog.hpp"

namespace verbtwin::calibration {

/// What `measure` calls its file.
inline constexpr const char* kMeasurementFile = "measurement.json";

/// A rate that is rounded up a little is none beyond its link.
inline constexpr double kLinkRounding = 1.02;

/// The largest payload posted inline: what the libibverbs binding and the profiles take.
inline constexpr int kMeasuredInlineMax_b = 188;

/// What is measured at one point: the parameters of a `primitive` workload, as the scenario names them.
struct PrimitivePoint {
  std::string verb, transport;
  int payload_b = 8, outstanding = 1, doorbell_batch = 1, threads = 1, queue_pairs = 1, signal_interval = 1;
  bool is_inline = false;
  std::string mode = "pipelined";

  /// One request at a time: its latency is what is told where it is known. Of others, the rate.
  bool is_alone() const { return threads == 1 && outstanding == 1; }
  bool is_atomic() const { return verb == "compare_swap" || verb == "fetch_add"; }
};

/// The point's keys of the file.
nlohmann::json to_json(const PrimitivePoint& point);

/// The scenario that measures it, on real devices as in a simulation; without NIC and host.
nlohmann::json scenario_of(const PrimitivePoint& point, double warmup_us, double measure_us);

struct MeasuredPoint {
  PrimitivePoint what;
  std::optional<double> operations_per_s, latency_p50_us;  // at least what is compared
  std::string place;                                       // "file:7:3: point 3"

  /// What is compared: the latency, or the rate.
  bool tells_latency() const { return what.is_alone() && latency_p50_us; }
};

struct Measurement {
  std::string file;
  std::string devices;  // "mlx5_0 and mlx5_0, 100 Gb/s Ethernet; Intel ..."
  bool partial = false;
  bool one_machine = false;  // both ranks: nothing lies between them
  bool ethernet = false;
  double link_gbps = 0, mtu_b = 0;  // the lesser of both ends
  std::optional<double> pcie_gbps;  // likewise, of their slots, where both are known
  std::vector<MeasuredPoint> points;
};

Measurement read_measurement(const std::filesystem::path& file);

/// One experiment for each verb and transport: the median latency of one request at a time, and the rate of
/// more. `nic` and `host` must be known to `catalog`.
std::vector<Experiment> experiments_of(const Measurement& measurement, const std::string& nic,
                                       const std::string& host, const scenarios::Catalog& catalog);

/// Adds to `machines` what is to be fitted: the machines `nic` and `host`, which are as `base_nic` and
/// `base_host` but for the link that was measured over and a few factors on what belongs together. The
/// curves of one machine that posts tell no more apart. `limits`: also how many DMA reads the NIC has in
/// flight and, where the measurement does not say it, the slot's rate, which only points at those limits
/// tell.
MachineGroup add_machines(Machines& machines, const Measurement& measurement, const std::string& nic,
                          const std::string& base_nic, const std::string& host, const std::string& base_host,
                          bool limits = false);

/// The factor on the slot's rate.
inline constexpr const char* kPcieRateFactor = "PCIe rate";

}  // namespace verbtwin::calibration
