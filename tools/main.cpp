// verbtwin's command line: finds the command, runs it, turns every error into one line and an exit code.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "backend/user_error.hpp"
#include "scenarios/document.hpp"
#include "scenarios/overrides.hpp"
#include "scenarios/text.hpp"
#include "tools/commands/commands.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/print.hpp"

namespace verbtwin::tools {

namespace {

constexpr std::size_t kLineLengthMax = 2000;

constexpr const char* kFooter =
    "Examples:\n"
    "  verbtwin run scenarios/smallbank-16.json\n"
    "  verbtwin run scenarios/smallbank-16.json --set protocol.name=fasst-occ --out out/fasst\n"
    "  verbtwin check scenarios/smallbank-16.json --set cluster.nodes=80\n"
    "Exit codes: 0 done; 2 bad input; 3 a check of the run failed; 128 + the signal's number: ended by a\n"
    "signal, results marked partial; 1 anything else.";

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // only there to be refused in words of its own
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// "verbtwin run": what the user typed so far, for messages.
std::string spelt(const CLI::App& app, const CLI::App& command) {
  return &app == &command ? app.get_name() : app.get_name() + " " + command.get_name();
}

[[noreturn]] void refuse(const CLI::App& app, const CLI::App& command, const std::string& what) {
  const std::string name = spelt(app, command);
  throw UserError("", fmt::format("{}: {} (see {} --help)", name, what, name));
}

/// CLI11 would take a misspelt command for a stray argument and say only that a command is missing.
void refuse_unknown_command(const CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string> names = command_names(app);
  if (argc < 2) refuse(app, app, "a command is missing; allowed: " + scenarios::listed(names));
  const std::string first = argv[1];
  if (first.starts_with("-") || std::find(names.begin(), names.end(), first) != names.end()) return;
  refuse(app, app,
         fmt::format("unknown command {}; allowed: {}{}", scenarios::in_quotes(first),
                     scenarios::listed(names), scenarios::did_you_mean(first, names)));
}

/// The command's option of this name, "--out=DIR" too; null where it has none.
const CLI::Option* option_of(const CLI::App& command, const std::string& argument) {
  if (!argument.starts_with("-")) return nullptr;
  return command.get_option_no_throw(argument.substr(0, argument.find('=')));
}

/// CLI11 would take the next flag for a missing value: `--out --quiet` for a directory of that name.
void refuse_flag_without_value(const CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string> names = command_names(app);
  if (std::find(names.begin(), names.end(), argv[1]) == names.end()) return;
  const CLI::App* command = app.get_subcommand(argv[1]);
  for (int i = 2; i + 1 < argc; ++i) {
    const std::string argument = argv[i];
    const CLI::Option* option = option_of(*command, argument);
    if (option == nullptr || argument.find('=') != std::string::npos) continue;
    if (option->get_items_expected_min() > 0 && option_of(*command, argv[i + 1]) != nullptr)
      refuse(app, *command, fmt::format("{}: a value is missing", argument));
  }
}

/// Takes `text` apart at the first `mark`; false where there is none.
bool split(std::string_view text, std::string_view mark, std::string_view& before, std::string_view& after) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return false;
  before = text.substr(0, at);
  after = text.substr(at + mark.size());
  return true;
}

/// The names in "{a,b,c}".
std::vector<std::string> names_in(std::string_view braces) {
  std::vector<std::string> names(1);
  for (const char c : braces.substr(1, braces.size() - 2)) {
    if (c == ',') {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  return names;
}

/// What CLI11 says of a flag, in the words of all other refusals: "--jobs x: allowed: an integer, 1 to 256".
std::string in_our_words(const CLI::App& command, std::string_view what) {
  std::string_view flag, rest, value, allowed, times;
  if (split(what, "Could not convert: ", flag, rest) && split(rest, " = ", flag, value)) {
    const CLI::Option* option = command.get_option_no_throw(std::string(flag));
    if (option != nullptr && option->get_items_expected_max() == 0)
      return fmt::format("{}: takes no value", flag);
    return fmt::format("{} {}: allowed: an integer", flag, scenarios::one_line(value, 60));
  }
  if (!split(what, ": ", flag, rest)) return std::string(what);
  if (rest.starts_with("1 required ") && rest.ends_with(" missing"))
    return fmt::format("{}: a value is missing", flag);
  if (split(rest, "At Most 1 required but received ", value, times))
    return fmt::format("{}: given {}; allowed: once", flag,
                       times == "2" ? "twice" : fmt::format("{} times", times));
  if (split(rest, ": allowed: ", value, allowed)) return fmt::format("{} {}", flag, rest);
  if (rest.starts_with("Value ") && split(rest.substr(6), " not in range ", value, allowed))
    return fmt::format("{} {}: allowed: an integer, {}", flag, scenarios::one_line(value, 60), allowed);
  if (split(rest, " not in {", value, allowed)) {
    const std::vector<std::string> names = names_in(rest.substr(value.size() + 8));
    return fmt::format("{}: unknown value {}; allowed: {}{}", flag, scenarios::in_quotes(value),
                       scenarios::listed(names), scenarios::did_you_mean(value, names));
  }
  return std::string(what);
}

[[noreturn]] void refuse_command_line(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::vector<std::string> extras = app.remaining(true);
  if (extras.empty()) refuse(app, command, scenarios::one_line(in_our_words(command, error.what())));
  const std::string& extra = extras.front();
  try {  // `--set cluster.nodes 32` leaves its value behind
    if (const CLI::Option* set = command.get_option_no_throw("--set"))
      for (const std::string& field : set->results()) scenarios::parse_override(field);
  } catch (const UserError& no_value) {
    refuse(app, command, no_value.what());
  }
  if (!extra.starts_with("-")) refuse(app, command, "unexpected argument " + scenarios::in_quotes(extra));
  const std::string flag = extra.substr(0, extra.find('='));
  const std::vector<std::string> flags = flag_names(command);
  refuse(app, command,
         fmt::format("unknown flag {}; allowed: {}{}", scenarios::in_quotes(flag), scenarios::listed(flags),
                     scenarios::did_you_mean(flag, flags)));
}

int run_command_line(int argc, const char* const* argv) {
  CLI::App app(
      "Predicts what an RDMA transaction system does on a cluster: simulated NICs, real protocol code.",
      "verbtwin");
  app.set_version_flag("--version", "verbtwin " VERBTWIN_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  int exit_code = kExitDone;
  add_run_command(app, exit_code);
  add_check_command(app, exit_code);
  add_list_command(app, exit_code);
  add_schema_command(app, exit_code);
  add_calibrate_command(app, exit_code);
  add_launch_command(app, exit_code);
  add_compare_command(app, exit_code);
  add_compare_published_command(app, exit_code);
  add_measure_command(app, exit_code);
  add_plan_command(app, exit_code);
  add_explain_command(app, exit_code);
  add_sweep_command(app, exit_code);
  add_reproduce_command(app, exit_code);
  add_validate_command(app, exit_code);

  refuse_unknown_command(app, argc, argv);
  refuse_flag_without_value(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    std::ostringstream text;
    app.exit(help_or_version, text);
    print(text.str());
    return kExitDone;
  } catch (const CLI::ParseError& error) {
    refuse_command_line(app, error);
  }
  return exit_code;
}

void print_error_line(const std::string& line) {
  print_error(line + "\n");
}

}  // namespace

}  // namespace verbtwin::tools

namespace {

/// Backs the heap with huge pages where the system has them: a simulated cluster is tens of MiB of small
/// objects that are visited at random, and every visit would miss the TLB too. Costs nothing where they are
/// missing.
void prefer_huge_pages() {
  constexpr std::size_t kHeapBytes = std::size_t{256} << 20;
  constexpr std::uintptr_t kHugePageBytes = std::uintptr_t{2} << 20;
  mallopt(M_TOP_PAD, static_cast<int>(kHeapBytes));
  mallopt(M_TRIM_THRESHOLD, static_cast<int>(2 * kHeapBytes));
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(kHeapBytes));
  const auto start = reinterpret_cast<std::uintptr_t>(std::malloc(kHeapBytes / 64));
  if (start == 0) return;
  const std::uintptr_t aligned = (start + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  madvise(reinterpret_cast<void*>(aligned), kHeapBytes - kHeapBytes / 32, MADV_HUGEPAGE);
  std::free(reinterpret_cast<void*>(start));
}

/// A rank has a connection to every other one, and with kernel TCP one for each two workers.
void allow_many_connections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace verbtwin::tools;
  prefer_huge_pages();
  allow_many_connections();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a write that fails, as a full disk's
  try {
    return run_command_line(argc, argv);
  } catch (const verbtwin::UserError& error) {
    // Errors with a pointer have been given their place where the scenario is known; this one has none.
    print_error_line(error.pointer().empty() ? verbtwin::scenarios::one_line(error.what(), kLineLengthMax)
                                             : verbtwin::scenarios::format_error("verbtwin", error));
    return kExitUserError;
  } catch (const std::bad_alloc&) {
    print_error_line(
        "verbtwin: this takes more memory than there is: use fewer machines, threads, records or versions, "
        "or a shorter run.measure_us");
    return kExitFailure;
  } catch (const std::exception& error) {
    print_error_line(fmt::format("verbtwin: {}", verbtwin::scenarios::one_line(error.what())));
    return kExitFailure;
  }
}
