#include "calibration/plausible.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace verbtwin::calibration {

namespace {

using scenarios::Document;

double payload_gbps(const MeasuredPoint& p) {
  return p.operations_per_s.value_or(0) * p.what.payload_b * 8 / 1e9;
}

/// A datagram's completion may be there before its last bit has left.
void check_link(const Document& document, const std::string& pointer, const MeasuredPoint& p,
                double link_gbps) {
  if (const double gbps = payload_gbps(p); gbps > kLinkRounding * link_gbps) {
    scenarios::refuse(document, pointer + "/operations_per_s",
                      fmt::format("of {} B each, {:.0f} Gb/s; allowed: at most the {:g} Gb/s of link_gbps",
                                  p.what.payload_b, gbps, link_gbps));
  }
  if (!p.latency_p50_us || p.what.transport == "ud") return;
  if (const std::string why = sooner_than_link(*p.latency_p50_us, p.what.payload_b, link_gbps, "link_gbps");
      !why.empty()) {
    scenarios::refuse(document, pointer + "/latency_us/p50", why);
  }
}

/// Each payload passes the slots of both ends once. Headers, which devices cut as they like, are left out.
void check_slots(const Document& document, const Measurement& m) {
  const auto most = std::ranges::max_element(m.points, {}, payload_gbps);
  const double gbps = payload_gbps(*most);
  const nlohmann::json& ends = document.root().at("measured_on");
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const double slot_gbps = ends[i].at("devices")[0].value("pcie_gbps", gbps);
    if (gbps <= kLinkRounding * slot_gbps) continue;
    scenarios::refuse(
        document, fmt::format("/measured_on/{}/devices/0/pcie_gbps", i),
        fmt::format("{:g}, where point {} has {:.0f} Gb/s of payload; allowed: at least that, or "
                    "no pcie_gbps{}",
                    slot_gbps, most - m.points.begin() + 1, gbps, guessed_gbps(slot_gbps, gbps)));
  }
}

/// By Little's law as many operations are in flight as are done in the time that one takes: all of the
/// windows. Unsignalled requests make the median half of that, ping-pong too. Half of all take as long as the
/// median, so that it is twice the mean at most; many times below it where threads share cores or a few wait
/// for long.
constexpr double kLeastInFlight = 1.0 / 30, kMostInFlight = 3;

/// What a rate or a latency is given in, in all likelihood, where it makes this share of what it should be.
struct Mistake {
  double share = 1;
  const char *rate = "", *latency = "";  // units; empty: none
};

Mistake mistake_of(double share) {
  constexpr Mistake kMistakes[] = {{1e-9, "G operations/s", ""},
                                   {1e-6, "M operations/s", "s"},
                                   {1e-3, "k operations/s", "ms"},
                                   {1e3, "", "ns"},
                                   {1e6, "", "ps"}};
  constexpr double kNear = 30;
  for (const Mistake& mistake : kMistakes)
    if (share > mistake.share / kNear && share < mistake.share * kNear) return mistake;
  return {};
}

std::string guessed_unit(double share) {
  const Mistake m = mistake_of(share);
  const std::string rate = *m.rate ? fmt::format("the rate in {}", m.rate) : "";
  const std::string latency = *m.latency ? fmt::format("the latency in {}", m.latency) : "";
  const char* between = rate.empty() || latency.empty() ? "" : ", or ";
  return rate.empty() && latency.empty() ? "" : fmt::format("; is {}{}{}?", rate, between, latency);
}

/// A rate and a latency that cannot both be true are of another unit than ours.
void check_units(const Document& document, const std::string& pointer, const MeasuredPoint& p) {
  if (!p.operations_per_s || !p.latency_p50_us) return;
  const double windows = static_cast<double>(p.what.threads) * p.what.outstanding;
  const double in_flight = *p.operations_per_s * *p.latency_p50_us * 1e-6;
  const double share = in_flight / windows;
  if (share >= kLeastInFlight && share <= kMostInFlight) return;
  scenarios::refuse(
      document, pointer + (share < 1 ? "/operations_per_s" : "/latency_us/p50"),
      fmt::format("{:.4g} operations/s of {:.4g} us each are {:.2g} in flight; allowed: about the {:g} of "
                  "threads x outstanding{}",
                  *p.operations_per_s, *p.latency_p50_us, in_flight, windows, guessed_unit(share)));
}

}  // namespace

std::string guessed_gbps(double said_gbps, double needed_gbps) {
  constexpr double kBits = 8;
  if (kBits * said_gbps * kLinkRounding < needed_gbps) return "";
  return fmt::format("; is it in GB/s? Those are {:g} Gb/s", kBits * said_gbps);
}

std::string sooner_than_link(double latency_us, int payload_b, double link_gbps, std::string_view key) {
  const double link_us = payload_b * 8e-3 / link_gbps;
  if (latency_us * kLinkRounding >= link_us) return "";
  return fmt::format(
      "{:g} us of {} B; allowed: at least the {:.3g} us that these take over the {:g} Gb/s of "
      "{}{}",
      latency_us, payload_b, link_us, link_gbps, key,
      guessed_gbps(link_gbps, link_gbps * link_us / latency_us));
}

std::string unit_doubts(const Measurement& measurement, std::span<const Experiment* const> experiments,
                        const std::vector<std::vector<Prediction>>& predictions) {
  constexpr double kFarOff = 100;
  std::string first;
  int more = 0;
  for (std::size_t e = 0; e < experiments.size(); ++e) {
    for (std::size_t i = 0; i < experiments[e]->points.size(); ++i) {
      const Point& point = experiments[e]->points[i];
      const auto measured = std::ranges::find(measurement.points, point.place, &MeasuredPoint::place);
      if (measured->operations_per_s && measured->latency_p50_us) continue;
      const double share = point.published / predictions[e][i].value;
      if (share > 1 / kFarOff && share < kFarOff) continue;
      const bool latency = measured->tells_latency();
      const char* guess = latency ? mistake_of(share).latency : mistake_of(share).rate;
      if (!*guess) continue;
      if (!first.empty()) {
        ++more;
        continue;
      }
      first = fmt::format("{}: {:.4g} {}, where the profiles named give {:.4g}: is it in {}?", point.place,
                          point.published / experiments[e]->scale, latency ? "us" : "operations/s",
                          predictions[e][i].value / experiments[e]->scale, guess);
    }
  }
  return more == 0 ? first : fmt::format("{} {} more are as far off.", first, more);
}

void refuse_impossible(const Document& document, const Measurement& m) {
  for (std::size_t i = 0; i < m.points.size(); ++i) {
    const std::string pointer = fmt::format("/points/{}", i);
    if (!m.one_machine) check_link(document, pointer, m.points[i], m.link_gbps);
    check_units(document, pointer, m.points[i]);
  }
  check_slots(document, m);
}

}  // namespace verbtwin::calibration
