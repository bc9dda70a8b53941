// verbtwin schema: the JSON Schema of scenarios, with everything that this program knows filled in.
#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/catalog.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/print.hpp"
#include "tools/run/catalog.hpp"

namespace verbtwin::tools {

void add_schema_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("schema", "Print the JSON Schema of scenarios");
  command->footer(
      "Example, for completion in an editor through \"$schema\":\n"
      "  verbtwin schema > scenario.schema.json");
  command->callback([&exit_code] {
    print(scenarios::effective_schema(make_catalog()).dump(2) + "\n");
    exit_code = kExitDone;
  });
}

}  // namespace verbtwin::tools
