// verbtwin list: the names that scenarios may use.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/profile_file.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/print.hpp"
#include "tools/console/text.hpp"
#include "tools/run/catalog.hpp"

namespace verbtwin::tools {

namespace {

constexpr std::size_t kWidthColumns = 80;
constexpr std::size_t kNameColumns = 24;

struct Row {
  std::string name;
  std::string description;
};

std::string render(std::string_view title, const std::vector<Row>& rows) {
  std::string text = fmt::format("{}\n", title);
  for (const Row& row : rows) {
    text += fmt::format("  {:<{}} {}\n", row.name, kNameColumns - 3,
                        wrap(row.description, kNameColumns, kWidthColumns));
  }
  return text;
}

std::vector<Row> entry_rows(const std::vector<scenarios::CatalogEntry>& entries) {
  std::vector<Row> rows;
  for (const scenarios::CatalogEntry& entry : entries) rows.push_back({entry.name, entry.description});
  return rows;
}

std::vector<Row> profile_rows() {
  std::vector<Row> rows;
  for (const calibration::ProfileInfo& profile :
       calibration::list_profiles(calibration::profile_directory())) {
    const char* kind = calibration::to_string(profile.kind);
    rows.push_back({profile.name, fmt::format("({}; {}) {}", kind, profile.provenance, profile.description)});
  }
  return rows;
}

int list(const std::string& kind) {
  const std::vector<std::string> kinds = {"protocols", "workloads", "profiles"};
  if (!kind.empty() && std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    throw UserError("",
                    fmt::format("verbtwin list: unknown kind {}; allowed: {}{}", scenarios::in_quotes(kind),
                                scenarios::listed(kinds), scenarios::did_you_mean(kind, kinds)));
  }
  const scenarios::Catalog catalog = make_catalog();
  const std::vector<Row> tables[] = {entry_rows(catalog.protocols), entry_rows(catalog.workloads),
                                     profile_rows()};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kind.empty() || kind == kinds[i]) print(render(kinds[i], tables[i]));
  }
  return kExitDone;
}

}  // namespace

void add_list_command(CLI::App& app, int& exit_code) {
  auto kind = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("list", "List the protocols, workloads and profiles that scenarios may name");
  command->add_option("KIND", *kind, "protocols, workloads or profiles; all of them if left out")
      ->type_name("");
  command->footer(
      "A profile's fitted parameters are those that published measurements determine; the others are a data\n"
      "sheet's, another NIC's or an estimate, as each says in its file and in calibration/REPORT.md.\n"
      "Example:\n"
      "  verbtwin list protocols");
  command->callback([kind, &exit_code] { exit_code = list(*kind); });
}

}  // namespace verbtwin::tools
