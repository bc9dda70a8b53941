#include "calibration/perftest_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "backend/user_error.hpp"
#include "calibration/csv_table.hpp"
#include "scenarios/document.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::calibration {

namespace {

using nlohmann::json;
using scenarios::in_quotes;

constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Takes the first word off `text`; empty where there is none.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kSpace));
  text.remove_prefix(word.size());
  return word;
}

/// Of a result nothing but numbers, and neither "inf" nor "-nan", which perftest tells where its clock
/// failed.
void refuse_no_number(const PerftestSource& source, const std::string& name, const PerftestField& field) {
  if (!number_of(field.value))
    source.refuse(field.at, fmt::format("{} is {}; allowed: a number", name, in_quotes(field.value)));
}

// --- what was printed ---

std::string underscored(std::string_view name) {
  std::string all(name);
  std::ranges::replace_if(
      all, [](char c) { return c == ' ' || c == '-'; }, '_');
  return all;
}

/// Whether perftest says in it that its buffers are a GPU's, above or below its header.
bool tells_of_gpu(std::string_view line) {
  return line.find("CUDA") != line.npos || line.find("ROCm") != line.npos;
}

/// A line of the header: one or two of "name : value".
void add_fields(std::string_view line, PerftestFields& fields) {
  if (trimmed(line).starts_with("Test with events")) fields.insert({"Test_with_events", {"ON", line}});
  for (std::size_t colon; (colon = line.find(':')) != line.npos;) {
    const std::string name = underscored(trimmed(line.substr(0, colon)));
    line.remove_prefix(colon + 1);
    const std::string_view value = next_word(line);
    fields.insert({name, {std::string(value), value}});  // the first of a name is the header's
  }
}

/// "#bytes", "BW peak[MB/sec]", ...: of two words where the first of them says nothing alone.
std::vector<std::string> columns_of(std::string_view line) {
  std::vector<std::string> columns;
  while (!trimmed(line).empty()) {
    std::string name(next_word(line));
    if (name == "BW" || name == "tps" || name.ends_with('%')) name.append(" ").append(next_word(line));
    columns.push_back(std::move(name));
  }
  return columns;
}

PerftestResult result_of(const PerftestSource& source, const std::vector<std::string>& columns,
                         std::string_view line) {
  static const std::map<std::string, std::string> kNames = {
      {"#bytes", "MsgSize"}, {"MsgRate[Mpps]", "MsgRate"}, {"t_typical[usec]", "t_typical"}};
  std::vector<std::string_view> cells;
  for (std::string_view rest = line; !trimmed(rest).empty();) cells.push_back(next_word(rest));
  if (cells.size() != columns.size()) {
    source.refuse(cells[0], fmt::format("a result of {} columns; allowed: {}, as its table has", cells.size(),
                                        columns.size()));
  }
  PerftestResult result{{}, cells[0]};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto name = kNames.find(columns[i]);
    PerftestField& cell = result.cells[name == kNames.end() ? columns[i] : name->second];
    cell = {std::string(cells[i]), cells[i]};
    refuse_no_number(source, columns[i], cell);
  }
  return result;
}

/// The runs that `source` has the output of, one behind another; `partial` where one did not come to its end.
std::vector<PerftestRun> printed_runs(const PerftestSource& source, bool& partial) {
  std::vector<PerftestRun> runs;
  std::vector<std::string> columns;  // of the table that the lines are in
  std::string_view gpu;              // the line that says so of the next table
  std::size_t number = 0, results = 0;
  for (std::string_view rest = source.all(); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const bool is_whole = line.size() < rest.size();
    rest.remove_prefix(line.size() + (is_whole ? 1 : 0));
    ++number;
    std::string_view words = line;
    const std::string_view first = next_word(words);
    if (columns.empty() && tells_of_gpu(line)) gpu = line;
    if (const std::string_view title = trimmed(line); title.ends_with(" Test")) {
      partial = partial || !columns.empty();
      columns.clear();
      if (runs.size() == kPerftestResultsMax)
        source.refuse(title, fmt::format("too many tests; allowed: {}", kPerftestResultsMax));
      runs.push_back({{{"test", {underscored(title), title}}}, {}, title});
    } else if (first == "#bytes") {
      if (runs.empty())
        source.refuse(first, "a table without the header above it; allowed: all of what perftest printed");
      columns = columns_of(line);
      if (!gpu.empty()) runs.back().info[kGpuMemory] = {"ON", std::exchange(gpu, {})};
    } else if (runs.empty()) {
      continue;
    } else if (first.starts_with("-----")) {
      columns.clear();
    } else if (columns.empty()) {
      add_fields(line, runs.back().info);
    } else if (!first.empty() && first.find_first_not_of("0123456789") == first.npos) {
      // Other lines are warnings, and the samples of -H and -U.
      if (!is_whole) source.refuse(first, "the file ends in the middle of a result; allowed: whole lines");
      if (++results > kPerftestResultsMax)
        source.refuse(first, fmt::format("too many results; allowed: {}", kPerftestResultsMax));
      runs.back().results.push_back(result_of(source, columns, line));
      runs.back().results.back().line = number;
    }
  }
  partial = partial || !columns.empty();
  return runs;
}

// --- what --out_json wrote ---

/// JSON from what perftest 4.5 writes, which has neither quotes around words nor an end to its lists before
/// the last comma. What is JSON already stays as it is.
struct Mended {
  std::string text;
  std::vector<std::size_t> origins;  // of each byte, in what it was made from

  void add(std::string_view part, std::size_t origin) {
    for (std::size_t i = 0; i < part.size(); ++i) origins.push_back(origin + i);
    text += part;
  }
};

Mended mended(std::string_view text) {
  constexpr std::string_view kMarks = "{}[],:\"";
  const auto next = [&](std::size_t at) { return std::min(text.find_first_not_of(kSpace, at), text.size()); };
  Mended all;
  for (std::size_t at = next(0), end = 0; at < text.size(); at = next(end)) {
    end = at + 1;
    if (text[at] == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (kMarks.find(text[at]) == kMarks.npos) {
      end = std::min(text.find_first_of(std::string(kMarks).append(kSpace), at), text.size());
    }
    const std::string_view token = text.substr(at, end - at);
    const std::string_view behind = text.substr(next(end), 1);
    if (token == "," && (behind == "}" || behind == "]")) continue;
    const bool is_word = kMarks.find(token[0]) == kMarks.npos;
    const bool is_quoted = is_word && (behind == ":" || !json::accept(token));
    if (is_quoted) all.add("\"", at);
    all.add(token, at);
    if (is_quoted) all.add("\"", end - 1);
    if (token != ":" && behind != ":") all.add(" ", end - 1);
  }
  return all;
}

/// Where the value of a name stands. Each name is there once, so the last of them is it.
std::string_view value_of(const PerftestSource& source, const Mended& text, const std::string& name) {
  const std::string key = json(name).dump() + ":";
  const std::size_t at = text.text.rfind(key);
  const bool is_there = at != std::string::npos && at + key.size() < text.origins.size();
  return source.all().substr(is_there ? text.origins[at + key.size()] : 0);
}

PerftestFields members(const PerftestSource& source, const Mended& text, const json& object) {
  PerftestFields fields;
  for (const auto& [name, value] : object.items()) {
    const std::string_view at = value_of(source, text, name);
    if (value.is_structured())
      source.refuse(at, fmt::format("{} is a list; allowed: a value", in_quotes(name)));
    fields[underscored(name)] = {value.is_string() ? value.get<std::string>() : value.dump(), at};
  }
  return fields;
}

PerftestRun written_run(const PerftestSource& source) {
  constexpr const char* kAllowed =
      "allowed: what --out_json of perftest writes, {\"test_info\": {...}, \"results\": {...}}";
  constexpr std::size_t kMost_b = 1 << 20;  // a thousand times as much as it is
  if (source.all().size() > kMost_b) source.refuse(source.all(), "the file is too large; allowed: 1 MiB");
  const Mended text = mended(source.all());
  std::vector<std::set<std::string>> names;
  // Of two members with one name the library would take the last and say nothing.
  const auto refuse_twice = [&](int, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second) {
      const std::string name = value;
      source.refuse(value_of(source, text, name),
                    fmt::format("{} stands twice; allowed: once", in_quotes(name)));
    }
    return true;
  };
  json root;
  try {
    root = json::parse(text.text, refuse_twice);
  } catch (const json::parse_error& e) {
    const std::size_t byte = e.byte > 0 ? e.byte - 1 : 0;
    const bool ends = byte >= text.origins.size();
    source.refuse(source.all().substr(ends ? source.all().size() : text.origins[byte]),
                  fmt::format("{}; {}", ends ? "the file ends too early" : "a syntax error", kAllowed));
  }
  for (const char* part : {"test_info", "results"}) {
    if (!root.contains(part) || !root[part].is_object())
      source.refuse(source.all(), fmt::format("no {}; {}", part, kAllowed));
  }
  PerftestResult result{members(source, text, root["results"]), source.all(), 1};
  for (const auto& [name, cell] : result.cells) refuse_no_number(source, name, cell);
  return {members(source, text, root["test_info"]), {std::move(result)}, source.all()};
}

}  // namespace

PerftestSource::PerftestSource(const std::filesystem::path& file)
    : label_(scenarios::one_line(file.string())),
      text_(scenarios::read_text(file, scenarios::kDocumentBytesMax)) {
  if (const std::size_t nul = text_.find('\0'); nul != std::string::npos)
    refuse(all().substr(nul), "NUL byte; allowed: text");
}

void PerftestSource::refuse(std::string_view part, const std::string& what) const {
  const std::string_view before = all().substr(0, static_cast<std::size_t>(part.data() - text_.data()));
  const std::string_view in_line = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0
  const auto starts_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  throw UserError("", fmt::format("{}:{}:{}: {}", label_, 1 + std::ranges::count(before, '\n'),
                                  1 + std::ranges::count_if(in_line, starts_character), what));
}

std::vector<PerftestRun> perftest_runs(const PerftestSource& source, bool& partial) {
  if (!trimmed(source.all()).starts_with('{')) return printed_runs(source, partial);
  std::vector<PerftestRun> runs;
  runs.push_back(written_run(source));
  return runs;
}

}  // namespace verbtwin::calibration
