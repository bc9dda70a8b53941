// The rules of the tree that a compiler does not check: who includes whom (for tools/ also tools/README.md),
// how long a file may be, what must not stay in it. Each rule is a function of a path and a text, shown to
// catch what it is for; the last test applies all of them to the sources.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace verbtwin {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kFileLinesMax = 500;

struct Line {
  int number;
  std::string text;
};

std::vector<Line> lines_of(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back({static_cast<int>(lines.size()) + 1, line});
  return lines;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}
bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}
bool is_cpp(std::string_view path) {
  return ends_with(path, ".cpp") || ends_with(path, ".hpp");
}

std::string at(const std::string& path, int line, const std::string& what) {
  return path + ":" + std::to_string(line) + ": " + what;
}

using Problems = std::vector<std::string>;

// --- who includes whom ---

struct Folder {
  std::string_view name;
  std::vector<std::string_view> may_include;  // of our folders
};

// An arrow of the design each; what is not told apart within tools/ may include everything.
const std::array kFolders = {
    Folder{"backend/", {"backend/"}},
    Folder{"models/", {"models/"}},
    Folder{"sim/", {"sim/", "models/", "backend/"}},
    Folder{"protocols/", {"protocols/", "backend/"}},
    Folder{"scenarios/", {"scenarios/", "backend/"}},
    Folder{"calibration/", {"calibration/", "scenarios/", "models/", "backend/"}},
    Folder{"tools/console/", {"tools/console/", "scenarios/", "backend/"}},
    Folder{"tools/report/", {"tools/report/", "tools/console/", "calibration/", "scenarios/", "backend/"}},
    Folder{"tools/compare/",
           {"tools/compare/", "tools/report/", "tools/console/", "calibration/", "scenarios/", "backend/"}},
    Folder{"tools/run/",
           {"tools/run/", "tools/console/", "calibration/", "scenarios/", "protocols/", "sim/", "models/",
            "backend/"}},
    Folder{"tools/ranks/",
           {"tools/ranks/", "tools/run/", "tools/console/", "scenarios/", "protocols/", "backend/"}},
    Folder{"tools/sweeps/",
           {"tools/sweeps/", "tools/ranks/", "tools/run/", "tools/report/", "tools/console/", "calibration/",
            "scenarios/", "sim/", "models/", "backend/"}},
    Folder{"tools/commands/", {"tools/", "calibration/", "scenarios/", "models/", "backend/"}},
    Folder{"tools/", {"tools/", "calibration/", "scenarios/", "protocols/", "sim/", "models/", "backend/"}},
};

bool is_test(std::string_view path) {
  return ends_with(path, "_test.cpp") || ends_with(path, "_for_test.hpp");
}

/// A library that belongs to one folder: SimGrid's and libibverbs' names stay in few files.
struct Confined {
  std::string_view prefix;
  std::string_view folder;
};
constexpr std::array kConfined = {
    Confined{"simgrid/", "sim/"},
    Confined{"xbt/", "sim/"},
    Confined{"infiniband/", "backend/ibverbs/"},
    Confined{"rdma/", "backend/ibverbs/"},
};

bool may_include(std::string_view path, std::string_view included) {
  // Tests of the program's parts may look at all of it, as the last row may.
  const bool test_of_tools = starts_with(path, "tools/") && is_test(path);
  const auto* folder = std::find_if(test_of_tools ? kFolders.end() - 1 : kFolders.begin(), kFolders.end(),
                                    [&](const Folder& f) { return starts_with(path, f.name); });
  if (folder == kFolders.end()) return true;
  const bool real_binding = starts_with(included, "backend/ibverbs/");
  if (real_binding) {
    return starts_with(path, "backend/ibverbs/") || starts_with(path, "tools/ranks/") || test_of_tools;
  }
  return std::any_of(folder->may_include.begin(), folder->may_include.end(),
                     [&](std::string_view allowed) { return starts_with(included, allowed); });
}

bool may_include_system(std::string_view path, std::string_view included) {
  for (const Confined& library : kConfined) {
    if (starts_with(included, library.prefix)) return starts_with(path, library.folder);
  }
  // The models are arithmetic: the standard library, whose headers have neither folder nor ending, is enough.
  const bool test = ends_with(path, "_test.cpp") || ends_with(path, "_bench.cpp");
  return !starts_with(path, "models/") || test || included.find_first_of("/.") == std::string_view::npos;
}

Problems include_problems(const std::string& path, const std::string& text) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)re");
  Problems problems;
  if (!is_cpp(path)) return problems;
  for (const Line& line : lines_of(text)) {
    std::smatch match;
    if (!std::regex_match(line.text, match, kInclude)) continue;
    const bool ours = match[1] == "\"";
    const std::string included = match[2];
    if (ours ? may_include(path, included) : may_include_system(path, included)) continue;
    problems.push_back(at(path, line.number, "must not include " + included));
  }
  return problems;
}

// --- what a file looks like ---

Problems length_problems(const std::string& path, const std::string& text) {
  const auto lines = std::count(text.begin(), text.end(), '\n');
  if (!is_cpp(path) || lines <= kFileLinesMax) return {};
  return {path + ": " + std::to_string(lines) + " lines; at most " + std::to_string(kFileLinesMax)};
}

Problems opening_problems(const std::string& path, const std::string& text) {
  if (!ends_with(path, ".hpp")) return {};
  Problems problems;
  if (!starts_with(text, "// ")) problems.push_back(at(path, 1, "a header opens with what it is"));
  if (text.find("\n#pragma once\n") == std::string::npos) problems.push_back(path + ": no #pragma once");
  return problems;
}

Problems leftover_problems(const std::string& path, const std::string& text) {
  // Spelt in pieces, so that this file passes.
  static const std::regex kMarker(
      "\\b(TO"
      "DO|FIX"
      "ME|X"
      "XX)\\b");
  static const std::regex kAbsolutePath(
      "(^|[^A-Za-z0-9_./])/(wo"
      "rk|ro"
      "ot|ho"
      "me)/");
  Problems problems;
  for (const Line& line : lines_of(text)) {
    if (std::regex_search(line.text, kMarker)) problems.push_back(at(path, line.number, "a leftover marker"));
    if (std::regex_search(line.text, kAbsolutePath)) {
      problems.push_back(at(path, line.number, "a path that only one machine has"));
    }
  }
  return problems;
}

/// Clang 14 does not compile the subranges of GCC 12's library, which GCC does.
Problems subrange_problems(const std::string& path, const std::string& text) {
  static const std::regex kSubrange(
      "ranges::(equal_range|partition|remove|remove_if|rotate|search|unique)\\(");
  Problems problems;
  if (!is_cpp(path)) return problems;
  for (const Line& line : lines_of(text)) {
    if (std::regex_search(line.text, kSubrange))
      problems.push_back(at(path, line.number, "a subrange, which Clang 14 does not compile"));
  }
  return problems;
}

/// GCC drops calls of functions that only prefetch, unless they do it as prefetch_line() does.
Problems prefetch_problems(const std::string& path, const std::string& text) {
  Problems problems;
  if (!is_cpp(path) || path == "backend/prefetch.hpp") return problems;
  for (const Line& line : lines_of(text)) {
    if (line.text.find("__builtin_pre"
                       "fetch") != std::string::npos)
      problems.push_back(at(path, line.number, "prefetch by backend/prefetch.hpp"));
  }
  return problems;
}

Problems problems_of(const std::string& path, const std::string& text) {
  Problems all;
  for (const auto rule : {include_problems, length_problems, opening_problems, leftover_problems,
                          subrange_problems, prefetch_problems}) {
    for (std::string& problem : rule(path, text)) all.push_back(std::move(problem));
  }
  return all;
}

// --- each rule catches what it is for ---

TEST(Tidy, ArrowsPointOneWay) {
  const auto refused = [](const std::string& path, const std::string& include) {
    return !include_problems(path, "#include " + include + "\n").empty();
  };
  EXPECT_FALSE(refused("protocols/occ/commit.cpp", "\"backend/verbs.hpp\""));
  EXPECT_TRUE(refused("protocols/occ/commit.cpp", "\"sim/device.hpp\""));
  EXPECT_TRUE(refused("protocols/occ/commit.cpp", "\"backend/ibverbs/device.hpp\""));
  EXPECT_TRUE(refused("protocols/occ/commit.hpp", "\"commit_steps.hpp\"")) << "includes start at the root";
  EXPECT_TRUE(refused("models/nic.hpp", "\"backend/verbs.hpp\""));
  EXPECT_TRUE(refused("models/nic.hpp", "<nlohmann/json.hpp>"));
  EXPECT_TRUE(refused("models/nic.hpp", "<stdio.h>"));
  EXPECT_FALSE(refused("models/nic.hpp", "<vector>"));
  EXPECT_FALSE(refused("models/nic_test.cpp", "<gtest/gtest.h>"));
  EXPECT_FALSE(refused("sim/clock.cpp", "<simgrid/s4u.hpp>"));
  EXPECT_FALSE(refused("sim/device.cpp", "\"models/nic.hpp\""));
  EXPECT_TRUE(refused("sim/device.cpp", "\"protocols/runtime/task.hpp\""));
  EXPECT_TRUE(refused("sim/device.cpp", "\"scenarios/scenario.hpp\""));
  EXPECT_TRUE(refused("tools/run/simulate.cpp", "<simgrid/s4u.hpp>"));
  EXPECT_TRUE(refused("backend/verbs.cpp", "\"sim/device.hpp\""));
  EXPECT_TRUE(refused("backend/verbs.cpp", "<infiniband/verbs.h>"));
  EXPECT_FALSE(refused("backend/ibverbs/device.cpp", "<infiniband/verbs.h>"));
  EXPECT_TRUE(refused("scenarios/loader.cpp", "\"models/profile.hpp\""));
  EXPECT_TRUE(refused("calibration/fit.cpp", "\"tools/report/summary.hpp\""));
  EXPECT_TRUE(refused("calibration/fit.cpp", "\"sim/cluster.hpp\""));
  EXPECT_TRUE(refused("calibration/fit.cpp", "\"protocols/system.hpp\""));
  EXPECT_FALSE(refused("tools/run/simulate.cpp", "\"sim/cluster.hpp\""));
  EXPECT_TRUE(refused("tools/report/summary.cpp", "\"sim/cluster.hpp\""));
  EXPECT_TRUE(refused("tools/run/simulate.cpp", "\"tools/commands/commands.hpp\""));
  EXPECT_TRUE(refused("tools/run/simulate.cpp", "\"backend/ibverbs/cluster.hpp\""));
  EXPECT_FALSE(refused("tools/ranks/ibverbs_run.cpp", "\"backend/ibverbs/cluster.hpp\""));
  EXPECT_FALSE(refused("tools/run/simulate_test.cpp", "\"tools/tests/runs_for_test.hpp\""));
}

TEST(Tidy, LinesAreNamed) {
  EXPECT_THAT(include_problems("models/a.cpp", "#include <vector>\n#  include \"sim/core.hpp\"  // why\n"),
              ElementsAre("models/a.cpp:2: must not include sim/core.hpp"));
}

TEST(Tidy, LongFilesAreRefused) {
  const auto file = [](int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += '\n';
    return text;
  };
  EXPECT_THAT(length_problems("sim/core.cpp", file(kFileLinesMax)), IsEmpty());
  EXPECT_THAT(length_problems("sim/core.cpp", file(kFileLinesMax + 1)),
              ElementsAre("sim/core.cpp: 501 lines; at most 500"));
  EXPECT_THAT(length_problems("LICENSE", file(kFileLinesMax + 1)), IsEmpty());
}

TEST(Tidy, HeadersOpenWithWhatTheyAre) {
  EXPECT_THAT(opening_problems("sim/core.hpp", "// Core: one core.\n#pragma once\n"), IsEmpty());
  EXPECT_THAT(opening_problems("sim/core.hpp", "#pragma once\n\n#pragma once\n"),
              ElementsAre("sim/core.hpp:1: a header opens with what it is"));
  EXPECT_THAT(opening_problems("sim/core.hpp", "// Core.\n"), ElementsAre("sim/core.hpp: no #pragma once"));
}

TEST(Tidy, SubrangesAreRefused) {
  EXPECT_THAT(subrange_problems("sim/core.cpp",
                                "x\nv.erase(std::ranges::uni"
                                "que(v).begin(), v.end());\n"),
              ElementsAre("sim/core.cpp:2: a subrange, which Clang 14 does not compile"));
  EXPECT_THAT(subrange_problems("sim/core.cpp", "std::ranges::sort(v); std::unique(a, b);"), IsEmpty());
  EXPECT_THAT(subrange_problems("README.md",
                                "ranges::uni"
                                "que("),
              IsEmpty());
}

TEST(Tidy, PrefetchesThatMayBeDroppedAreRefused) {
  const std::string hint =
      "void near() {\n__builtin_pre"
      "fetch(at);\n}";
  EXPECT_THAT(prefetch_problems("sim/core.cpp", hint),
              ElementsAre("sim/core.cpp:2: prefetch by backend/prefetch.hpp"));
  EXPECT_THAT(prefetch_problems("backend/prefetch.hpp", hint), IsEmpty());
  EXPECT_THAT(prefetch_problems("sim/core.cpp", "prefetch_line(at);"), IsEmpty());
}

TEST(Tidy, LeftoversAreRefused) {
  EXPECT_THAT(leftover_problems("a",
                                "x\n// TO"
                                "DO: later\n"),
              ElementsAre("a:2: a leftover marker"));
  EXPECT_THAT(leftover_problems("a",
                                "FIX"
                                "ME"),
              ElementsAre("a:1: a leftover marker"));
  EXPECT_THAT(leftover_problems("a", "mastodon METHODS"), IsEmpty());
  EXPECT_THAT(leftover_problems("a",
                                "cd /wo"
                                "rk/main"),
              ElementsAre("a:1: a path that only one machine has"));
  EXPECT_THAT(leftover_problems("a",
                                "\"/ro"
                                "ot/x\""),
              ElementsAre("a:1: a path that only one machine has"));
  EXPECT_THAT(leftover_problems("a", "frame/work/main, ../home/x"), IsEmpty());
}

// --- the sources ---

/// Every text file of ours, by its path from the root; builds, outputs and version control aside.
std::vector<std::string> source_files(const fs::path& root) {
  constexpr std::array kSkipped = {".git", "build", "out", ".cache"};
  std::vector<std::string> files;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::end(entry); ++entry) {
    const std::string name = entry->path().filename().string();
    const bool skipped = std::find(kSkipped.begin(), kSkipped.end(), name) != kSkipped.end();
    if (entry->is_directory() && skipped) entry.disable_recursion_pending();
    if (entry->is_regular_file() && !skipped)
      files.push_back(entry->path().lexically_relative(root).generic_string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Tidy, TheSourcesAre) {
  const fs::path root = VERBTWIN_SOURCE_DIR;
  const std::vector<std::string> files = source_files(root);
  ASSERT_GT(files.size(), 20U) << "is " << root << " the source tree?";
  for (const std::string& file : files) {
    std::ostringstream text;
    text << std::ifstream(root / file).rdbuf();
    for (const std::string& problem : problems_of(file, text.str())) ADD_FAILURE() << problem;
  }
}

}  // namespace
}  // namespace verbtwin
