// verbtwin compare: two results side by side.
#include <unistd.h>

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "tools/commands.hpp"
#include "tools/result_comparison.hpp"

namespace verbtwin::tools {

namespace {

struct CompareOptions {
  std::string a, b;
  bool json = false;
};

scenarios::Document read_result(const std::string& given) {
  std::filesystem::path file = given;
  std::error_code ignored;  // what is no directory is read, and refused in words there
  if (std::filesystem::is_directory(file, ignored)) file /= "result.json";
  return scenarios::Document::read(file);
}

int compare(const CompareOptions& options) {
  const ResultComparison comparison = compare_results(read_result(options.a), read_result(options.b));
  print(options.json ? comparison_json(comparison).dump(2) + "\n"
                     : render_comparison(comparison, style_of_stream(STDOUT_FILENO)));
  return kExitDone;
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command =
      app.add_subcommand("compare", "Put two results side by side: a measured run and its simulated twin");
  command->add_option("A", options->a, "A result.json, or the directory that holds it")
      ->required()
      ->type_name("RESULT");
  command->add_option("B", options->b, "Another")->required()->type_name("RESULT");
  command->add_flag("--json", options->json, "Print the comparison as JSON");
  command->footer(
      "Example:\n"
      "  verbtwin launch --hosts hosts.txt scenarios/my.json --out out/measured\n"
      "  verbtwin run scenarios/my.json --set cluster.nic=out/mine/nic.json --out out/twin\n"
      "  verbtwin compare out/measured out/twin\n"
      "Where A and B differ in their scenarios is said first. Counts are told of one commit or operation.");
  command->callback([options, &exit_code] { exit_code = compare(*options); });
}

}  // namespace verbtwin::tools
