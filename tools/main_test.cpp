// The command line itself: flags and commands that are refused, help, and output that cannot be written.
#include "tools/tests/command_line_for_test.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace verbtwin::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(CommandLine, WhatItRefuses) {
  EXPECT_THAT(refusal({}),
              testing::MatchesRegex("verbtwin: a command is missing; allowed: run, check, list, schema"
                                    "(, [a-z-]+)* .see verbtwin --help."));
  EXPECT_THAT(
      refusal({"chekc", scenario_}),
      testing::AllOf(StartsWith("verbtwin: unknown command \"chekc\"; allowed: run, check, list, schema"),
                     testing::EndsWith("; did you mean \"check\"? (see verbtwin --help)")));
  EXPECT_EQ(
      refusal({"--verion"}),
      "verbtwin: unknown flag \"--verion\"; allowed: --help, --version; did you mean \"--version\"? (see "
      "verbtwin --help)");
  EXPECT_EQ(refusal({"check", scenario_, "--jsno=1"}),
            "verbtwin check: unknown flag \"--jsno\"; allowed: --help, --set, --sweep, --json, --cfg, --log; "
            "did you mean \"--json\"? (see verbtwin check --help)");
  EXPECT_EQ(refusal({"run"}), "verbtwin run: SCENARIO is required (see verbtwin run --help)");
  EXPECT_EQ(refusal({"run", scenario_, "another.json"}),
            "verbtwin run: unexpected argument \"another.json\" (see verbtwin run --help)");
  EXPECT_EQ(refusal({"run", scenario_, "--set", "cluster.nodes", "32"}),
            "verbtwin run: --set cluster.nodes: expected PATH=VALUE, such as cluster.nodes=80 (see verbtwin "
            "run --help)");
  EXPECT_EQ(refusal({"list", "protocol"}),
            "verbtwin list: unknown kind \"protocol\"; allowed: protocols, workloads, profiles; did you mean "
            "\"protocols\"?");
  const auto run = [this](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", scenario_});
    const std::string line = refusal(std::move(flags)), end = " (see verbtwin run --help)";
    EXPECT_THAT(line, testing::AllOf(StartsWith("verbtwin run: "), testing::EndsWith(end)));
    return line.substr(14, line.size() - 14 - end.size());
  };
  EXPECT_EQ(run({"--seed"}), "--seed: a value is missing");
  EXPECT_EQ(run({"--seed", "1", "--seed", "2"}), "--seed: given twice; allowed: once");
  EXPECT_EQ(run({"--seed", "1", "--seed", "2", "--seed=3"}), "--seed: given 3 times; allowed: once");
  EXPECT_EQ(run({"--jobs", "x"}), "--jobs x: allowed: an integer, 1 to 256");
  EXPECT_EQ(run({"--jobs", "0"}), "--jobs 0: allowed: an integer, 1 to 256");
  EXPECT_EQ(run({"--jobs"}), "--jobs: a value is missing");
  EXPECT_EQ(run({"--out", "--quiet"}), "--out: a value is missing");
  EXPECT_EQ(run({"--set", "--seed=1"}), "--set: a value is missing");
  EXPECT_EQ(run({"--rank", "x"}), "--rank x: allowed: an integer");
  EXPECT_EQ(run({"--json=maybe"}), "--json: takes no value");
  EXPECT_THAT(refusal({"run\n\x1b[31m"}), Not(HasSubstr("\x1b"))) << "what the user typed is made printable";
}

TEST_F(CommandLine, HelpHasAnExampleForEveryCommand) {
  for (const std::string command :
       {"run", "plan", "explain", "check", "schema", "list", "compare-published", "calibrate", "launch",
        "compare", "measure", "sweep", "reproduce", "validate"}) {
    const Ended help = verbtwin({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, HasSubstr("Example"));
    EXPECT_THAT(help.out, HasSubstr("\n  verbtwin " + command));
    EXPECT_THAT(verbtwin({"--help"}).out, HasSubstr("\n  " + command + " "));
  }
}

TEST_F(CommandLine, Version) {
  EXPECT_EQ(verbtwin({"--version"}).out, "verbtwin " VERBTWIN_VERSION "\n");
}

TEST_F(CommandLine, ListNamesWhatScenariosMayName) {
  const std::string all = verbtwin({"list"}).out;
  for (const char* name : {"protocols\n", "  drtmh ", "  fasst-occ ", "workloads\n", "  smallbank ",
                           "profiles\n", "  connectx-4 ", "  xeon-e5-2650v4 "}) {
    EXPECT_THAT(all, HasSubstr(name));
  }
  EXPECT_THAT(verbtwin({"list", "workloads"}).out, Not(HasSubstr("drtmh")));
}

TEST_F(CommandLine, SchemaIsASchema) {
  const json schema = json::parse(verbtwin({"schema"}).out);
  EXPECT_EQ(schema.at("$schema"), "http://json-schema.org/draft-07/schema#");
  EXPECT_THAT(schema.dump(), HasSubstr("fasst-occ"));
}

TEST_F(CommandLine, OutputThatCannotBeWrittenIsAFailure) {
  for (const char* arguments : {"schema", "--help", "--version", "run --help"}) {
    const std::string command = fmt::format("{} {} >/dev/full", VERBTWIN_BINARY, arguments);
    ChildProcess shell(directory_, {"/bin/sh", "-c", command});
    EXPECT_EQ(shell.wait(), 1) << arguments;
    EXPECT_EQ(shell.err(), "verbtwin: cannot write to standard output: No space left on device\n");
  }
}

TEST_F(CommandLine, ErrorsThatCannotBeWrittenAreStillErrors) {
  for (const auto& [arguments, code] : {std::pair("list", 1), std::pair("lsit", 2)}) {
    const std::string command = fmt::format("{} {} >/dev/full 2>&1", VERBTWIN_BINARY, arguments);
    ChildProcess shell(directory_, {"/bin/sh", "-c", command});
    EXPECT_EQ(shell.wait(), code) << arguments;
  }
}

}  // namespace
}  // namespace verbtwin::tools
