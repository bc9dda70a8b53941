#include "tools/report/html_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "scenarios/text.hpp"
#include "tools/console/text.hpp"
#include "tools/report/bottleneck.hpp"
#include "tools/report/conditions.hpp"
#include "tools/report/member.hpp"
#include "tools/report/summary.hpp"

namespace verbtwin::tools {

namespace {

using Json = nlohmann::json;

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d1d9e0; --page: #fff; --box: #f6f8fa;
  --bar: #0072b2; --most: #d55e00; --good: #00734f; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --page: #0d1117;
  --box: #151b23; --bar: #56b4e9; --most: #e69f00; --good: #3fb950; --bad: #f85149; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.soft { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); }
.box { background: var(--box); border-left: 4px solid var(--bar); padding: .6rem 1rem; margin: 1rem 0; }
.box.warning { border-color: var(--most); } .box.failed { border-color: var(--bad); }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; }
.tile { background: var(--box); padding: .6rem 1rem; min-width: 8rem; }
.tile b { display: block; font-size: 1.35rem; font-weight: 600; }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
td.bar { width: 45%; } .bar div { position: relative; background: var(--line); height: .7rem; }
.bar i { position: absolute; inset: 0 auto 0 0; background: var(--bar); }
.bar s { position: absolute; top: -.15rem; bottom: -.15rem; width: 2px; background: var(--most); }
svg { max-width: 100%; height: auto; } .chart text { fill: var(--soft); font-size: 12px; }
.chart .grid { stroke: var(--line); } .chart .curve { stroke: var(--bar); stroke-width: 2; fill: none; }
.picture { background: #fff; } pre { background: var(--box); padding: 1rem; overflow-x: auto; }
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : scenarios::for_xml(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

bool counts_operations(const Json& result) {
  return result.contains("operations");
}

std::string what_ran(const Json& result) {
  const Json& scenario = member(result, "scenario");
  const std::string protocol = member(scenario, "protocol").value("name", "");
  const std::string workload = member(scenario, "workload").value("name", "");
  return protocol.empty() ? workload : protocol + " running " + workload;
}

std::string where_it_ran(const Json& result) {
  const Json& cluster = member(member(result, "scenario"), "cluster");
  std::string text = fmt::format("{} x {}", format_counted(cluster.value("nodes", 0), "machine"),
                                 format_counted(cluster.value("threads", 0), "thread"));
  if (!counts_operations(result))
    text += fmt::format(" x {}", format_counted(cluster.value("coroutines", 0), "coroutine"));
  const bool simulated = result.value("backend", "sim") == "sim";
  if (simulated) {
    text += fmt::format("; {} x {}, {}", cluster.value("nics_per_node", 1), cluster.value("nic", ""),
                        cluster.value("host", ""));
  }
  for (const Json& machine : result.value("measured_on", Json::array())) {
    for (const Json& device : machine.value("devices", Json::array()))
      text += "; " + device.value("device", std::string());
    break;  // they are alike
  }
  text += describe_conditions(member(result, "scenario"));
  return text + fmt::format("; {}, {}", simulated ? "simulated" : "measured", seed_text(result));
}

class Page {
 public:
  Page(const Json& scenario, std::string_view subtitle) {
    const std::string name = scenario.value("name", "");
    const std::string title = escaped(name.empty() ? "verbtwin" : name);
    out_ = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{}</title>\n"
        "<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n<p class=\"soft\">{}",
        title, kStyle, title, escaped(subtitle));
    const std::string description = scenario.value("description", "");
    if (!description.empty()) out_ += "<br/>" + escaped(description);
    out_ += "</p>\n";
  }

  void heading(std::string_view text) { out_ += fmt::format("<h2>{}</h2>\n", escaped(text)); }
  void box(std::string_view kind, std::string_view text) {
    out_ += fmt::format("<p class=\"box {}\">{}</p>\n", kind, escaped(text));
  }
  void raw(std::string_view html) { out_ += html; }

  std::string end(const Json& scenario, std::string_view of = "") {
    out_ += fmt::format("<details><summary>Scenario{}</summary><pre>{}</pre></details>\n</body>\n</html>\n",
                        of, escaped(scenario.dump(2)));
    return std::move(out_);
  }

 private:
  std::string out_;
};

std::string row(std::string_view tag, const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (const std::string& cell : cells) {
    const bool bar = cell.starts_with("<div>");
    out += fmt::format("<{}{}>{}</{}>", tag, bar ? " class=\"bar\"" : "", cell, tag);
  }
  return out + "</tr>\n";
}

/// A share of a whole, and where the largest of its parts is, if that says more.
std::string bar(double share, double most = 0) {
  const auto percent = [](double of) { return std::isfinite(of) ? std::clamp(of, 0.0, 1.0) * 100 : 0.0; };
  std::string out = fmt::format("<div><i style=\"width:{:.2f}%\"></i>", percent(share));
  if (most > share) out += fmt::format("<s style=\"left:{:.2f}%\"></s>", percent(most));
  return out + "</div>";
}

void table(Page& page, const std::vector<std::string>& head,
           const std::vector<std::vector<std::string>>& rows) {
  page.raw("<div class=\"wide\"><table>\n" + row("th", head));
  for (const auto& cells : rows) page.raw(row("td", cells));
  page.raw("</table></div>\n");
}

void add_tiles(Page& page, const Json& result) {
  const bool operations = counts_operations(result);
  const Json& latency = member(result, "latency_us");
  std::vector<std::pair<std::string, std::string>> tiles = {
      {format_si(number(result, operations ? "operations_per_s" : "committed_per_s")) + "/s",
       operations ? fmt::format("operations {}", operations_where(result)) : "committed"},
      {format_us(number(latency, "p50")) + " us", "median latency"},
      {format_us(number(latency, "p99")) + " us", "99th percentile"}};
  if (const Json& uncorrected = member(result, "latency_uncorrected_us"); !uncorrected.empty())
    tiles.emplace_back(format_us(number(uncorrected, "p99")) + " us", "99th percentile, uncorrected");
  if (!operations) tiles.emplace_back(format_percent(number(result, "abort_ratio")), "of attempts aborted");
  const double offered_per_s = number(member(member(result, "scenario"), "run"), "offered_per_s");
  if (offered_per_s > 0)
    tiles.insert(tiles.begin(), {format_si(offered_per_s) + "/s", operations ? "offered in all" : "offered"});
  page.raw("<div class=\"tiles\">\n");
  for (const auto& [value, what] : tiles)
    page.raw(fmt::format("<div class=\"tile\"><b>{}</b><span class=\"soft\">{}</span></div>\n", value, what));
  page.raw("</div>\n");
}

/// Latency over the share of transactions that took no longer, time on a logarithmic axis.
void add_distribution(Page& page, const Json& result) {
  constexpr double kWidth = 720, kHeight = 260, kLeft = 50, kBottom = 40, kTop = 10, kRight = 10;
  std::vector<std::pair<double, double>> points;  // us, share
  for (const auto& [share, us] : member(result, "latency_quantiles_us").items()) {
    if (us.get<double>() > 0) points.emplace_back(us.get<double>(), std::stod(share));
  }
  if (points.size() < 2 || points.front().first >= points.back().first) return;
  const double least = std::log10(points.front().first), most = std::log10(points.back().first);
  const auto x = [&](double us) {
    return kLeft + (kWidth - kLeft - kRight) * (std::log10(us) - least) / (most - least);
  };
  const auto y = [&](double share) { return kTop + (kHeight - kTop - kBottom) * (1 - share); };
  page.heading("Latency: share of all that took no longer");
  page.raw(fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"latency distribution\">\n",
      kWidth, kHeight));
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    page.raw(
        fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                    "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.0f} %</text>\n",
                    kLeft, kWidth - kRight, y(share), y(share), kLeft - 6, y(share) + 4, share * 100));
  }
  for (double decade = std::pow(10, std::floor(least)); decade <= std::pow(10, most); decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      const double us = decade * step;
      if (us < points.front().first || us > points.back().first) continue;
      page.raw(
          fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
                      "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
                      x(us), kTop, kHeight - kBottom, kHeight - kBottom + 16, us));
    }
  }
  page.raw(fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">us</text>\n<path class=\"curve\" d=\"",
                       kWidth / 2, kHeight - 4));
  const char* command = "M";
  for (const auto& [us, share] : points)
    page.raw(fmt::format("{}{:.1f} {:.1f}", std::exchange(command, "L"), x(us), y(share)));
  page.raw("\"/>\n</svg>\n");
}

void add_transactions(Page& page, const Json& result) {
  const Json& kinds = member(result, "transactions");
  if (kinds.empty()) return;
  page.heading("Transactions");
  std::vector<std::vector<std::string>> rows;
  for (const auto& [kind, values] : kinds.items()) {
    const Json& latency = member(values, "latency_us");
    const auto committed = values.value("committed", std::uint64_t{0});
    const auto time = [&](const char* key) { return committed == 0 ? "-" : format_us(number(latency, key)); };
    rows.push_back({escaped(kind), format_count(committed), time("p50"), time("p99"), time("max")});
  }
  table(page, {"transaction", "committed", "p50 us", "p99 us", "max us"}, rows);
}

void add_phases(Page& page, const Json& result) {
  const Json& phases = member(result, "phases");
  // Not all transactions have all phases: those that only read log nothing.
  const auto time_us = [](const Json& phase) { return number(phase, "count") * number(phase, "mean_us"); };
  double whole_us = 0;
  for (const auto& [name, phase] : phases.items()) whole_us += time_us(phase);
  if (whole_us == 0) return;
  const auto committed = number(result, "committed");
  // Attempts before it and waiting for a coroutine are no phases: a mean latency may be many times as long.
  page.heading("Where the time of the attempt that commits goes");
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : phases_in_order(phases)) {
    if (time_us(phases.at(name)) == 0) continue;
    const Json& phase = phases.at(name);
    rows.push_back({escaped(name), bar(time_us(phase) / whole_us), format_us(number(phase, "mean_us")),
                    format_us(number(phase, "p50_us")), format_percent(number(phase, "count") / committed)});
  }
  table(page, {"phase", "share of the time", "mean us", "p50 us", "of transactions"}, rows);
}

void add_aborts(Page& page, const Json& result) {
  std::vector<std::pair<std::uint64_t, std::string>> reasons;
  std::uint64_t all = 0;
  for (const auto& [reason, count] : member(result, "aborts").items()) {
    if (count.get<std::uint64_t>() == 0) continue;
    reasons.emplace_back(count.get<std::uint64_t>(), reason);
    all += reasons.back().first;
  }
  if (reasons.empty()) return;
  std::ranges::stable_sort(reasons, std::greater<>(), &std::pair<std::uint64_t, std::string>::first);
  page.heading("Why attempts aborted");
  std::vector<std::vector<std::string>> rows;
  for (const auto& [count, reason] : reasons) {
    rows.push_back(
        {escaped(reason), bar(static_cast<double>(count) / static_cast<double>(all)), format_count(count)});
  }
  table(page, {"reason", "share", "attempts"}, rows);
}

void add_resources(Page& page, const Json& result) {
  const Json resources = result.value("resources", Json::array());
  if (resources.empty()) return;
  std::vector<std::vector<std::string>> used, caches;
  const auto add_cache = [&](const std::string& name, const Json& cache) {
    const auto hits = cache.find("hit_ratio");
    if (hits == cache.end() || !hits->is_number()) return;  // nothing was looked up
    const auto least = cache.find("hit_ratio_min");
    const bool of_nics = least != cache.end() && least->is_number();
    caches.push_back({name, bar(hits->get<double>()), format_percent(hits->get<double>()),
                      of_nics ? format_percent(least->get<double>()) : ""});
  };
  for (const Json& resource : resources) {
    const std::string name = escaped(resource.value("name", ""));
    if (resource.contains("hit_ratio")) {
      add_cache(name, resource);
      continue;
    }
    const double mean = number(resource, "utilization_mean"), most = number(resource, "utilization_max");
    used.push_back({name, bar(mean, most), format_percent(mean), format_percent(most)});
  }
  add_cache("locations", member(result, "location_cache"));
  page.heading("How full each resource was");
  page.raw("<p class=\"soft\">Bar: mean over all of them; mark: the fullest one.</p>\n");
  table(page, {"resource", "in use", "mean", "fullest"}, used);
  if (caches.empty()) return;
  page.heading("Look-ups that hit");
  table(page, {"cache", "hits", "share", "least of a NIC"}, caches);
}

void add_verbs(Page& page, const Json& result) {
  const auto work = static_cast<double>(
      result.value(counts_operations(result) ? "operations" : "committed", std::uint64_t{0}));
  std::vector<std::vector<std::string>> rows;
  for (const auto& [verb, values] : member(result, "verbs").items()) {
    const auto count = values.value("count", std::uint64_t{0});
    if (count == 0) continue;
    rows.push_back({escaped(verb), format_count(count),
                    work == 0 ? "-" : fmt::format("{:.2f}", static_cast<double>(count) / work),
                    fmt::format("{:.0f}", number(values, "bytes") / static_cast<double>(count))});
  }
  if (rows.empty()) return;
  page.heading("Verbs");
  table(page, {"verb", "posted", counts_operations(result) ? "per operation" : "per commit", "bytes each"},
        rows);
}

void add_checks(Page& page, const Json& result) {
  const Json checks = result.value("checks", Json::array());
  if (checks.empty()) return;
  page.heading("Checks");
  page.raw("<ul>\n");
  for (const Json& check : checks) {
    const auto violations = check.value("violations", std::uint64_t{0});
    const std::string of =
        check.contains("transactions")
            ? format_counted(check.value("transactions", std::uint64_t{0}), "transaction") + ", "
            : "";
    page.raw(fmt::format("<li><b class=\"{}\">{}</b> {}: {}{}</li>\n", violations == 0 ? "good" : "bad",
                         violations == 0 ? "PASS" : "FAIL", escaped(check.value("name", "")), of,
                         format_counted(violations, "violation")));
  }
  page.raw("</ul>\n");
}

std::string workload_of(const Json& result) {
  return member(member(result, "scenario"), "workload").value("name", "");
}

}  // namespace

std::string html_report(const Json& result) {
  const Json& scenario = member(result, "scenario");
  Page page(scenario, what_ran(result) + "; " + where_it_ran(result));
  if (const std::string failure = result.value("failure", ""); !failure.empty())
    page.box("failed", "Failed: " + failure);
  if (result.value("partial", false)) {
    page.box("warning", fmt::format("Partial: stopped after {} us of the window.",
                                    format_us(number(result, "window_us"))));
  }
  if (!member(result, "bottleneck").empty())
    page.box("limit", describe_bottleneck(result.at("bottleneck"), workload_of(result)));
  for (const Json& warning : result.value("warning", Json::array()))
    page.box("warning", "Warning: " + warning.get<std::string>());
  add_tiles(page, result);
  add_distribution(page, result);
  add_phases(page, result);
  add_transactions(page, result);
  add_aborts(page, result);
  add_resources(page, result);
  add_verbs(page, result);
  add_checks(page, result);
  return page.end(scenario);
}

std::string html_report(const std::vector<SweepRow>& rows, std::size_t points, std::string_view plot_svg) {
  static const Json kNothing = Json::object();
  const Json& scenario = rows.empty() ? kNothing : member(rows.front().result, "scenario");
  Page page(scenario, fmt::format("{} of a sweep", format_counted(rows.size(), "point")));
  if (const std::string left_out = partial_text(rows, points); !left_out.empty())
    page.box("warning", left_out);
  if (const std::size_t begin = plot_svg.find("<svg"); begin != std::string_view::npos)
    page.raw(fmt::format("<div class=\"picture\">{}</div>\n", plot_svg.substr(begin)));
  std::vector<std::string> head = {"point"};
  if (!rows.empty())
    for (const auto& [path, value] : rows.front().settings) head.push_back(escaped(short_name(path)));
  const bool operations = !rows.empty() && counts_operations(rows.front().result);
  head.push_back(fmt::format("rate {}", operations ? operations_where(rows.front().result) : "per machine"));
  for (const char* column : {"p50 us", "p99 us"}) head.emplace_back(column);
  if (!operations) head.emplace_back("aborts");
  head.emplace_back("limit");
  std::vector<std::vector<std::string>> lines;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json& result = rows[i].result;
    const std::string name = point_name(rows[i].number.value_or(i));
    std::vector<std::string> cells = {fmt::format("<a href=\"points/{0}/report.html\">{0}</a>", name)};
    for (const auto& [path, value] : rows[i].settings) cells.push_back(escaped(point_text(rows[i], path)));
    const Json& latency = member(result, "latency_us");
    cells.push_back(format_si(rate_per_s(result) / machines_of(result)) + "/s");
    cells.push_back(format_us(number(latency, "p50")));
    cells.push_back(format_us(number(latency, "p99")));
    if (!operations) cells.push_back(format_percent(number(result, "abort_ratio")));
    cells.push_back(escaped(limit_text(result)));
    lines.push_back(std::move(cells));
  }
  for (const std::string& warning : sweep_warnings(rows)) page.box("warning", "Warning: " + warning);
  page.heading("Points");
  table(page, head, lines);
  return page.end(scenario, " of the first point");
}

}  // namespace verbtwin::tools
