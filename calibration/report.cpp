#include "calibration/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string_view>

#include "calibration/csv_table.hpp"
#include "calibration/shape.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::calibration {

namespace {

using nlohmann::json;
using Predictions = std::vector<Prediction>;

constexpr double kFarOff = 0.2;

constexpr const char* kMeasured = "measured";

const char* reference_of(const ReportInput& input) {
  return input.reference == Reference::kPublished ? "published" : kMeasured;
}

double error_of(const Point& point, const Prediction& prediction) {
  return prediction.value / point.published - 1;
}

Errors errors_of(const Experiment& experiment, const Predictions& predictions) {
  std::vector<double> all;
  Errors errors;
  for (std::size_t p = 0; p < experiment.points.size(); ++p) {
    all.push_back(std::abs(error_of(experiment.points[p], predictions[p])));
    if (all.back() > errors.worst) {
      errors.worst = all.back();
      errors.worst_point = p;
    }
  }
  errors.points = all.size();
  const double squares = std::inner_product(all.begin(), all.end(), all.begin(), 0.0);
  errors.root_mean_square = std::sqrt(squares / static_cast<double>(all.size()));
  errors.far_off =
      static_cast<std::size_t>(std::ranges::count_if(all, [](double error) { return error > kFarOff; }));
  std::sort(all.begin(), all.end());
  const std::size_t half = all.size() / 2;
  errors.median = all.size() % 2 == 1 ? all[half] : (all[half - 1] + all[half]) / 2;
  return errors;
}

/// The simulated value as it is shown: four digits.
double shown(double value) {
  return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
}

/// Text of a profile, which may be a user's, as a paragraph or a cell of a table.
std::string table_cell(const std::string& text) {
  std::string cell;
  for (const char c : scenarios::one_line(text, text.size()))
    cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

/// Of a measurement the rows' x is a payload; what papers call theirs stands beside the data.
std::string x_and_series(const ReportInput& input, const Point& point) {
  if (input.reference == Reference::kPublished)
    return point.series.empty() ? point.x : point.series + " " + point.x;
  return (point.series.empty() ? "" : point.series + ", ") + point.x + " B";
}

/// Text that a measurement or its files' names bring along says nothing to Markdown.
std::string plain(const ReportInput& input, const std::string& text) {
  if (input.reference == Reference::kPublished) return text;
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("\\`*[]<>").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

/// The root mean square, which the few that are far off stand out in; published ones have it in the README.
std::string root_mean_square(const ReportInput& input, const Errors& errors) {
  if (input.reference == Reference::kPublished) return "";
  return fmt::format("root mean square {:.1f} %, ", errors.root_mean_square * 100);
}

bool names_limit(const Point& point, const Prediction& prediction) {
  return std::find(point.limits.begin(), point.limits.end(), prediction.bottleneck) != point.limits.end();
}

Shape shape_of(const Experiment& experiment, const Predictions& predictions) {
  Shape shape;
  for (const Pair& pair : ordered_pairs(experiment)) {
    ++shape.pairs;
    if (pair.kept(predictions)) ++shape.pairs_kept;
  }
  for (std::size_t p = 0; p < experiment.points.size(); ++p) {
    if (experiment.points[p].limits.empty()) continue;
    ++shape.limits;
    if (names_limit(experiment.points[p], predictions[p])) ++shape.limits_right;
  }
  return shape;
}

std::string counted(std::size_t right, std::size_t all) {
  return all == 0 ? "-" : fmt::format("{} of {}", right, all);
}

/// A row's last column, of what papers say: a measurement says nothing of limits.
std::string said_column(const ReportInput& input, const std::string& cell) {
  return input.reference == Reference::kPublished ? fmt::format(" {} |\n", cell) : "\n";
}

std::string overview(const ReportInput& input) {
  std::string text = "| experiment | machines | points | median error | worst error | at | pairs in order |" +
                     said_column(input, "limit as the paper says") +
                     "| --- | --- | ---: | ---: | ---: | --- | ---: |" + said_column(input, "---:");
  for (std::size_t e = 0; e < input.set->experiments.size(); ++e) {
    const Experiment& experiment = input.set->experiments[e];
    const Predictions& predictions = input.predictions[e];
    const Errors errors = errors_of(experiment, predictions);
    const Shape shape = shape_of(experiment, predictions);
    text += fmt::format("| {} | {}, {} | {} | {:.1f} % | {:.1f} % | {} | {} |", experiment.name,
                        experiment.nic, experiment.host, experiment.points.size(), errors.median * 100,
                        errors.worst * 100, x_and_series(input, experiment.points[errors.worst_point]),
                        counted(shape.pairs_kept, shape.pairs)) +
            said_column(input, counted(shape.limits_right, shape.limits));
  }
  return text;
}

/// "nic_send 97 %"; where the limit is not what is most in use, "round_trips, core 62 %".
std::string limit_of(const Prediction& prediction) {
  const std::string busiest = fmt::format("{} {:.0f} %", prediction.busiest, prediction.utilization * 100);
  return prediction.bottleneck == prediction.busiest ? busiest : prediction.bottleneck + ", " + busiest;
}

std::string points_table(const ReportInput& input, const Experiment& experiment,
                         const Predictions& predictions) {
  const bool measured = input.reference == Reference::kMeasured;
  std::string text = fmt::format("| series | {} | {} | simulated | error | simulated limit |",
                                 measured ? "payload B" : "x", reference_of(input)) +
                     said_column(input, "as the paper says") + "| --- | --- | ---: | ---: | ---: | --- |" +
                     said_column(input, "---");
  for (std::size_t p = 0; p < experiment.points.size(); ++p) {
    const Point& point = experiment.points[p];
    const Prediction& prediction = predictions[p];
    const double error = error_of(point, prediction);
    std::string said = "-";
    if (!point.limits.empty()) {
      said = names_limit(point, prediction) ? "yes" : fmt::format("no: {}", fmt::join(point.limits, " or "));
    }
    // As a paper prints it; of what was measured as many digits as of what is simulated.
    const std::string reference =
        measured ? fmt::format("{:.4g}", point.published) : fmt::format("{}", point.published);
    text += fmt::format("| {} | {} | {} | {:.4g} | {}{:+.1f} %{} | {} |", point.series, point.x, reference,
                        prediction.value, std::abs(error) > kFarOff ? "**" : "", error * 100,
                        std::abs(error) > kFarOff ? "**" : "", limit_of(prediction)) +
            said_column(input, said);
  }
  return text;
}

/// What is said beside the data of why a point is off; for a pair, of either.
std::string reason(const Point& point) {
  return point.missing.empty() ? "" : fmt::format(" Missing mechanism: {}.", point.missing);
}
std::string reason(const Point& one, const Point& other) {
  if (one.missing == other.missing) return reason(one);
  return reason(one) + reason(other);
}

std::string shape_lines(const ReportInput& input, const Experiment& experiment,
                        const Predictions& predictions) {
  std::string text;
  for (const Pair& pair : ordered_pairs(experiment)) {
    if (pair.kept(predictions)) continue;
    const Point &larger = experiment.points[pair.second], &smaller = experiment.points[pair.first];
    text += fmt::format("* Order: {} should exceed {}.{}\n", x_and_series(input, larger),
                        x_and_series(input, smaller), reason(larger, smaller));
  }
  for (const Knee& knee : knees(experiment, predictions)) {
    if (knee.published == "none" && knee.simulated == "none") continue;
    text += fmt::format("* Largest step of {}: {} {}, {} simulated.\n",
                        knee.series.empty() ? "the series" : knee.series, knee.published, reference_of(input),
                        knee.simulated);
  }
  return text;
}

std::string experiment_section(const ReportInput& input, std::size_t number) {
  const Experiment& experiment = input.set->experiments[number];
  const Predictions& predictions = input.predictions[number];
  const std::string picture = input.pictures.empty() ? "" : input.pictures[number];
  std::string text = fmt::format(
      "## {}\n\n{} Unit: {}. Data: `{}{}`", experiment.name, experiment.description, experiment.unit,
      input.reference == Reference::kPublished ? "published/train/" : "", experiment.data);
  text += fmt::format("; NIC `{}`, host `{}`.\n\nAssumed, as the source does not say:\n\n", experiment.nic,
                      experiment.host);
  for (const std::string& assumption : experiment.assumptions) text += fmt::format("* {}\n", assumption);
  if (experiment.assumptions.empty()) text += "* nothing\n";
  std::vector<std::string> sources;
  for (const Point& point : experiment.points) {
    if (point.limits.empty() || std::count(sources.begin(), sources.end(), point.limit_source) > 0) continue;
    sources.push_back(point.limit_source);
  }
  for (const std::string& source : sources) text += fmt::format("\nLimit: {}\n", source);
  const std::string shape = shape_lines(input, experiment, predictions);
  if (!picture.empty()) text += fmt::format("\n![{}]({})\n", experiment.name, picture);
  text += fmt::format("\n{}\n", points_table(input, experiment, predictions));
  return text + (shape.empty() ? "" : fmt::format("{}\n", shape));
}

std::string parameters_section(const ReportInput& input) {
  std::string text =
      "# Parameters\n\nUncertainty is relative: for fitted values the standard error at the optimum, n "
      "points of "
      "an experiment counting as the square root of n (a lower bound: what is left is reckoned by all "
      "points), or half of the allowed range, at most 1000 %, where the data do not determine the value; for "
      "what a "
      "factor multiplies, with that of the value before.\n";
  for (const json& profile : input.profiles) {
    text += fmt::format(
        "\n## {}\n\n{}\n\n| parameter | value | unit | uncertainty | source |\n| --- | ---: | --- | ---: | "
        "--- |\n",
        table_cell(plain(input, profile.at("name"))), table_cell(plain(input, profile.at("description"))));
    for (const auto& [name, item] : profile.at("parameters").items()) {
      text += fmt::format("| {} | {} | {} | {:.0f} % | {} |\n", name, item.at("value").get<double>(),
                          item.at("unit").get<std::string>(), item.at("uncertainty").get<double>() * 100,
                          table_cell(plain(input, item.at("source"))));
    }
  }
  return text;
}

std::string far_off_section(const ReportInput& input) {
  std::string text;
  for (std::size_t e = 0; e < input.set->experiments.size(); ++e) {
    const Experiment& experiment = input.set->experiments[e];
    for (std::size_t p = 0; p < experiment.points.size(); ++p) {
      const double error = error_of(experiment.points[p], input.predictions[e][p]);
      if (std::abs(error) <= kFarOff) continue;
      text +=
          fmt::format("* {}, {}: {:+.0f} %.{}\n", experiment.name, x_and_series(input, experiment.points[p]),
                      error * 100, reason(experiment.points[p]));
    }
  }
  return text.empty() ? "None.\n" : text;
}

/// What most of the points that are far off share, where it is a limit that a machine's own slot or NIC sets.
struct SharedLimit {
  std::size_t points = 0;
  const char* what = "";  // "are ..."
  const char* parameter = "";
  bool less = false;  // on the machine that was measured
};

constexpr const char* kDmaReads = "dma_reads_outstanding";
constexpr const char* kSlot = "pcie_gbps";

std::optional<SharedLimit> shared_limit(const ReportInput& input) {
  SharedLimit tags{0, "are limited by the NICs' DMA reads in flight in the simulation", kDmaReads};
  SharedLimit slot{0, "are limited by PCIe in the simulation", kSlot};
  SharedLimit bytes{0, "were measured at one and the same rate of bytes", kSlot, true};
  std::size_t all = 0, faster = 0;
  std::vector<double> rates;  // of bytes
  for (std::size_t e = 0; e < input.set->experiments.size(); ++e) {
    const Experiment& experiment = input.set->experiments[e];
    for (std::size_t p = 0; p < experiment.points.size(); ++p) {
      const Point& point = experiment.points[p];
      const Prediction& prediction = input.predictions[e][p];
      const double error = error_of(point, prediction);
      if (std::abs(error) <= kFarOff) continue;
      ++all;
      if (error > 0) ++faster;
      if (prediction.bottleneck == "dma_reads") ++tags.points;
      if (prediction.bottleneck == "pcie_up" || prediction.bottleneck == "pcie_down") ++slot.points;
      // A latency is none, nor is what is faster than the twin held up by a limit of its own.
      const std::optional<double> payload_b = number_of(point.x);
      if (experiment.result_pointer == "/operations_per_s" && error > 0 && payload_b)
        rates.push_back(point.published * *payload_b);
    }
  }
  constexpr double kAlike = 1.1;
  constexpr std::size_t kSeveral = 3;
  if (rates.size() >= kSeveral) {
    const auto [least, most] = std::ranges::minmax(rates);
    if (most < kAlike * least) bytes.points = rates.size();
  }
  tags.less = slot.less = 2 * faster > all;
  for (const SharedLimit& limit : {tags, slot, bytes})
    if (limit.points >= kSeveral && 2 * limit.points > all) return limit;
  return std::nullopt;
}

/// Why points are far off, as far as that can be told; a sentence's end.
std::string far_off_reason(const ReportInput& input, std::size_t points) {
  const char* them = points == 1 ? "it" : "them";
  const std::string not_fitted = fmt::format("these profiles were not fitted to {}", them);
  if (const auto limit = shared_limit(input)) {
    const double value = input.profiles.at(0).at("parameters").at(limit->parameter).at("value");
    return fmt::format(
               "{} of them {}: {} may be {} on your machine than {:g}, as in this profile{}", limit->points,
               limit->what, limit->parameter, limit->less ? "less" : "more", value,
               limit->parameter == std::string_view(kSlot) ? " (see the slot's width and speed)" : "") +
           (input.fitted ? "" : "; " + not_fitted);
  }
  return input.fitted ? fmt::format("the models do not explain {}", them) : not_fitted;
}

/// Of the experiments that `is_among` them, as if they were one.
template <typename IsAmong>
Errors errors_among(const ReportInput& input, const IsAmong& is_among) {
  Experiment all;
  Predictions predictions;
  for (std::size_t e = 0; e < input.set->experiments.size(); ++e) {
    const Experiment& experiment = input.set->experiments[e];
    if (!is_among(experiment)) continue;
    all.points.insert(all.points.end(), experiment.points.begin(), experiment.points.end());
    predictions.insert(predictions.end(), input.predictions[e].begin(), input.predictions[e].end());
  }
  return errors_of(all, predictions);
}

}  // namespace

json report_json(const ReportRow& row) {
  const std::optional<double> number = number_of(row.x);
  const double simulated = shown(row.simulated);
  return {{"set", row.set},
          {"experiment", row.experiment},
          {"series", row.series},
          {"x", number ? json(*number) : json(row.x)},
          {row.set == kMeasured ? kMeasured : "published", row.reference},
          {"simulated", simulated},
          {"error", std::round((simulated / row.reference - 1) * 1e4) / 1e4}};
}

json report_json(const ReportInput& input) {
  json all = json::array();
  for (std::size_t e = 0; e < input.set->experiments.size(); ++e) {
    const Experiment& experiment = input.set->experiments[e];
    for (std::size_t p = 0; p < experiment.points.size(); ++p) {
      const Point& point = experiment.points[p];
      all.push_back(
          report_json({input.reference == Reference::kPublished ? "train" : kMeasured, experiment.name,
                       point.series, point.x, point.published, input.predictions[e][p].value}));
    }
  }
  return all;
}

std::map<std::string, Errors> errors_by_nic(const ReportInput& input) {
  std::map<std::string, Errors> by_nic;
  for (const Experiment& experiment : input.set->experiments) {
    if (by_nic.contains(experiment.nic)) continue;
    by_nic[experiment.nic] =
        errors_among(input, [&](const Experiment& other) { return other.nic == experiment.nic; });
  }
  return by_nic;
}

Errors errors_of_all(const ReportInput& input) {
  return errors_among(input, [](const Experiment&) { return true; });
}

Shape shape_of_all(const ReportInput& input) {
  Shape all;
  for (std::size_t e = 0; e < input.set->experiments.size(); ++e) {
    const Shape shape = shape_of(input.set->experiments[e], input.predictions[e]);
    all.pairs += shape.pairs;
    all.pairs_kept += shape.pairs_kept;
    all.limits += shape.limits;
    all.limits_right += shape.limits_right;
  }
  return all;
}

std::string report_markdown(const ReportInput& input) {
  const Errors errors = errors_of_all(input);
  const bool published = input.reference == Reference::kPublished;
  const char* what = reference_of(input);
  std::string text = fmt::format(
      "# {} against the simulator\n\nMade by `verbtwin calibrate --{}` (the fit) "
      "or `--{} --evaluate` (this page only). Error is simulated / {} - 1. Over all points: "
      "median {:.1f} %, {}worst {:.1f} %.\n\nPairs: any two points of a series, and of two series at the "
      "same "
      "x, where {} values differ by more than 4 %.\n\n",
      published ? "Published measurements" : "A measurement", what, what, what, errors.median * 100,
      root_mean_square(input, errors), errors.worst * 100, what);
  if (!input.note.empty()) text += fmt::format("{}\n\n", plain(input, input.note));
  text += overview(input);
  text += "\n## Points worse than 20 %\n\n" + far_off_section(input);
  if (!published && errors.far_off > 0)
    text += fmt::format("\n{} of {}: {}.\n", errors.far_off, errors.points,
                        far_off_reason(input, errors.far_off));
  text += "\n# Experiments\n\n";
  for (std::size_t e = 0; e < input.set->experiments.size(); ++e) {
    text += experiment_section(input, e);
  }
  if (published) {
    text += "# Not run\n\n| row | what | why |\n| --- | --- | --- |\n";
    for (const LeftOut& left : input.set->left_out)
      text += fmt::format("| {} | {} | {} |\n", left.place, left.what, left.reason);
    text += "\n";
  }
  return text + parameters_section(input);
}

std::string report_summary(const ReportInput& input) {
  std::string text;
  for (std::size_t e = 0; e < input.set->experiments.size(); ++e) {
    const Experiment& experiment = input.set->experiments[e];
    const Errors errors = errors_of(experiment, input.predictions[e]);
    text += fmt::format("{:<28} {:>3} points  median {:>5.1f} %  worst {:>5.1f} % at {}\n", experiment.name,
                        experiment.points.size(), errors.median * 100, errors.worst * 100,
                        x_and_series(input, experiment.points[errors.worst_point]));
  }
  const Errors errors = errors_of_all(input);
  text += fmt::format("{:<28}             median {:>5.1f} %  worst {:>5.1f} %", "all", errors.median * 100,
                      errors.worst * 100);
  const bool measured = input.reference == Reference::kMeasured;
  if (measured) text += fmt::format("  root mean square {:.1f} %", errors.root_mean_square * 100);
  text += "\n";
  if (errors.far_off == 0) return text;
  return text +
         fmt::format(
             "{} of {} points are more than {:.0f} % off: {}\n", errors.far_off, errors.points, kFarOff * 100,
             measured ? far_off_reason(input, errors.far_off)
                      : fmt::format("the models do not explain {}", errors.far_off == 1 ? "it" : "them"));
}

}  // namespace verbtwin::calibration
