// verbtwin compare: two results, or two sweeps, side by side.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "backend/user_error.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/compare/checked_result.hpp"
#include "tools/compare/result_comparison.hpp"
#include "tools/compare/saved_sweep.hpp"
#include "tools/compare/sweep_comparison.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/print.hpp"

namespace verbtwin::tools {

namespace {

struct CompareOptions {
  std::string a, b;
  bool json = false;
};

using Compared = std::variant<scenarios::Document, SavedSweep>;

/// A result; any other document is refused before it is told what it does not go with.
scenarios::Document checked(scenarios::Document document) {
  static_cast<void>(CheckedResult(document));
  return document;
}

Compared read_compared(const std::string& given) {
  namespace fs = std::filesystem;
  const fs::path path = given;
  std::error_code ignored;  // what is no directory is read, and refused in words there
  if (fs::is_directory(path, ignored)) {
    const bool sweep = fs::exists(path / "points.csv", ignored);
    const bool run = fs::exists(path / "result.json", ignored);
    if (!sweep && !run && fs::is_directory(path / "points", ignored)) {
      throw UserError(
          "", fmt::format("{}: has points of a sweep that did not come to its end; allowed: a points.csv or "
                          "result.json in it",
                          scenarios::one_line(given)));
    }
    if (!sweep) return checked(scenarios::Document::read(path / "result.json"));
    if (!run) return read_saved_sweep(path);
    throw UserError("", fmt::format("{}: has a sweep and a result; allowed: its points.csv or result.json",
                                    scenarios::one_line(given)));
  }
  if (path.filename() == "points.csv")
    return read_saved_sweep(path.has_parent_path() ? path.parent_path() : ".");
  auto document = scenarios::Document::read(path);
  if (is_sweep(document)) return read_saved_sweep(document);
  return checked(std::move(document));
}

template <typename Comparison>
void show(const Comparison& comparison, bool json) {
  // A file's name may be no UTF-8.
  print(json
            ? comparison_json(comparison).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
            : render_comparison(comparison, style_of_stream(STDOUT_FILENO)));
}

int compare(const CompareOptions& options) {
  const Compared a = read_compared(options.a);
  const Compared b = read_compared(options.b);
  if (a.index() != b.index()) {
    const auto kind = [](const Compared& one) {
      return std::holds_alternative<SavedSweep>(one) ? "a sweep" : "one result";
    };
    throw UserError(
        "", fmt::format("{}: {}, and {} is {}; allowed: two results or two sweeps",
                        scenarios::one_line(options.b), kind(b), scenarios::one_line(options.a), kind(a)));
  }
  if (const auto* sweep = std::get_if<SavedSweep>(&a)) {
    show(compare_sweeps(*sweep, std::get<SavedSweep>(b)), options.json);
  } else {
    show(compare_results(std::get<scenarios::Document>(a), std::get<scenarios::Document>(b)), options.json);
  }
  return kExitDone;
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare", "Put two results or sweeps side by side: a measured run and its simulated twin");
  command
      ->add_option("A", options->a,
                   "A result.json, what `run --json` prints of a sweep, or the directory of either")
      ->required()
      ->type_name("RESULT");
  command->add_option("B", options->b, "Another of the same kind")->required()->type_name("RESULT");
  command->add_flag("--json", options->json, "Print the comparison as JSON");
  command->footer(
      "Example:\n"
      "  verbtwin launch --hosts hosts.txt scenarios/my.json --out out/measured\n"
      "  verbtwin run scenarios/my.json --set cluster.nic=out/mine/nic.json --out out/twin\n"
      "  verbtwin compare out/measured out/twin\n"
      "Where A and B differ in their scenarios is said first. Counts are told of one commit or operation.\n"
      "Points of sweeps are matched by the settings that the sweeps vary:\n"
      "  verbtwin run scenarios/smallbank-16-offered.json --out out/before\n"
      "  verbtwin run scenarios/smallbank-16-offered.json --set cluster.nic=connectx-5 --out out/after\n"
      "  verbtwin compare out/before out/after");
  command->callback([options, &exit_code] { exit_code = compare(*options); });
}

}  // namespace verbtwin::tools
