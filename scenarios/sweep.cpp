#include "scenarios/sweep.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "backend/user_error.hpp"
#include "scenarios/loader.hpp"
#include "scenarios/text.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::scenarios {

using nlohmann::json;

namespace {

constexpr const char* kSweep = "/sweep";

/// One entry of the list: keys that move together, and how many values each of them has.
struct Entry {
  struct Key {
    std::string name, pointer;
    const json* values = nullptr;
    std::string flag = {};  // "--sweep cluster.nodes=4,8", where it does not stand in the file
  };
  std::vector<Key> keys;
  std::size_t values = 0;
};

/// Of lists of unequal length, the first in the file that is not as long as the one before it.
[[noreturn]] void refuse_lengths(const Document& document, const json& keys, const std::string& pointer) {
  std::vector<std::pair<Position, std::string>> in_file;
  for (const auto& item : keys.items()) {
    in_file.emplace_back(document.position(child_pointer(pointer, item.key()), Anchor::kKey), item.key());
  }
  std::ranges::sort(in_file);
  const auto values_of = [&](const auto& place) { return keys.at(place.second).size(); };
  std::size_t at = 1;
  while (values_of(in_file[at]) == values_of(in_file[0])) ++at;
  refuse(document, child_pointer(pointer, in_file[at].second),
         "a list of " + std::to_string(values_of(in_file[at])) + "; allowed: of " +
             std::to_string(values_of(in_file[0])) + ", as " + in_quotes(in_file[0].second) +
             " before it, because the keys of one entry move together");
}

/// `seen`: the keys of the entries before it, and then its own.
Entry entry_of(const Document& document, const json& keys, const std::string& pointer,
               std::set<std::string>& seen) {
  if (!keys.is_object() || keys.empty()) {
    refuse(document, pointer,
           "expected an object of fields, each with its values, such as "
           "{\"cluster.nodes\": [4, 8]}");
  }
  Entry entry;
  for (const auto& [key, values] : keys.items()) {
    const std::string at = child_pointer(pointer, key);
    if (key.empty() || key.find('=') != std::string::npos) {
      refuse(document, at, in_quotes(key) + " is no field; allowed: a path such as \"cluster.nodes\"",
             Anchor::kKey);
    }
    if (key.starts_with("sweep")) refuse(document, at, "a sweep cannot be swept", Anchor::kKey);
    if (key.starts_with("$")) refuse(document, at, in_quotes(key) + " cannot be swept", Anchor::kKey);
    if (!seen.insert(key).second) {
      refuse(document, at, in_quotes(key) + " is swept already; allowed: once, with all its values",
             Anchor::kKey);
    }
    if (seen.size() > kSweepKeysMax) {
      refuse(document, at, "more than " + std::to_string(kSweepKeysMax) + " keys are swept", Anchor::kKey);
    }
    if (!values.is_array() || values.empty()) refuse(document, at, "expected a list of at least one value");
    entry.keys.push_back({key, at, &values});
  }
  entry.values = entry.keys.front().values->size();
  const auto is_words = [](const Entry::Key& key) { return key.name == "name" || key.name == "description"; };
  if (entry.values > 1 && std::ranges::all_of(entry.keys, is_words)) {
    refuse(
        document, pointer,
        "varies words only, so that its points are the same; allowed: words beside a field that they name");
  }
  const auto as_long = [&](const Entry::Key& key) { return key.values->size() == entry.values; };
  if (!std::ranges::all_of(entry.keys, as_long)) refuse_lengths(document, keys, pointer);
  return entry;
}

[[noreturn]] void refuse_key(const Document& document, const Entry::Key& key, const std::string& pointer,
                             const std::string& why, Anchor anchor = Anchor::kValue) {
  if (!key.flag.empty()) throw UserError("", key.flag + ": " + why);
  refuse(document, pointer, why, anchor);
}

/// "1,2" and "[1,2],{\"a\":3}" at the commas that are no value's own.
std::vector<std::string> values_in(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) values.back() += text[i++];
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == '}')) --depth;
    if (c == ',' && !quoted && depth <= 0) {
      values.emplace_back();
    } else {
      values.back() += text[i];
    }
  }
  return values;
}

/// An entry of one key: what `--sweep PATH=V1,V2` says. Its values as JSON are put into `storage`.
Entry entry_of_flag(const std::string& text, std::list<json>& storage, std::set<std::string>& seen) {
  const std::string flag = "--sweep " + one_line(text, 200);
  const auto refuse = [&](const std::string& why) { throw UserError("", flag + ": " + why); };
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    refuse("expected PATH=VALUE,VALUE, such as cluster.nodes=4,8,16");
  const std::string name = text.substr(0, equals);
  if (name.starts_with("sweep") || name.starts_with("$")) refuse(in_quotes(name) + " cannot be swept");
  if (!seen.insert(name).second)
    refuse(in_quotes(name) + " is swept already; allowed: once, with all its values");
  json values = json::array();
  for (const std::string& value : values_in(text.substr(equals + 1))) {
    if (value.empty()) refuse("a value is empty; allowed: PATH=VALUE,VALUE, such as cluster.nodes=4,8,16");
    values.push_back(loose_value(parse_override(name + "=" + value)));
  }
  storage.push_back(std::move(values));
  const json& stored = storage.back();
  return {{{name, std::string(kSweep), &stored, flag}}, stored.size()};
}

/// "cluster" holds "cluster.nodes".
bool holds(const std::string& whole, const std::string& part) {
  return part.starts_with(whole + ".");
}

/// What a value of the last entry sets: null is as the file has it, unless an entry before sweeps the whole.
json value_of(const Document& document, const std::vector<Entry>& entries, const Entry::Key& key,
              std::size_t number) {
  const json& value = key.values->at(number);
  const json::json_pointer own(parse_override(key.name + "=").pointer);
  const auto holds_it = [&](const Entry& entry) {
    return std::ranges::any_of(entry.keys,
                               [&](const Entry::Key& other) { return holds(other.name, key.name); });
  };
  if (!value.is_null() || std::ranges::any_of(entries, holds_it)) return value;
  return document.root().contains(own) ? document.root().at(own) : json();
}

/// A point that is there already tells nothing, and nobody could tell the two apart.
void refuse_twins(const Document& document, const std::vector<Entry>& entries) {
  const Entry& entry = entries.back();
  std::map<std::vector<json>, std::size_t> numbers;
  for (std::size_t number = 0; number < entry.values; ++number) {
    std::vector<json> values;
    for (const Entry::Key& key : entry.keys) values.push_back(value_of(document, entries, key, number));
    const auto [first, is_new] = numbers.emplace(std::move(values), number);
    if (is_new) continue;
    const Entry::Key& key = entry.keys.front();
    refuse_key(document, key, child_pointer(key.pointer, std::to_string(number)),
               "value " + std::to_string(number) + " makes the same points as value " +
                   std::to_string(first->second) + " (from 0); allowed: values that differ");
  }
}

/// Whether a value says what stands at the path "nodes" or "network.topology" in it.
bool says(json value, std::string path) {
  path += '.';
  for (std::size_t dot; (dot = path.find('.')) != std::string::npos; path.erase(0, dot + 1)) {
    if (!value.is_object()) return false;
    json member = value.value(path.substr(0, dot), json());
    value = std::move(member);
  }
  return !value.is_null();
}

/// Two axes that set one field: only the second would count.
void refuse_overlaps(const Document& document, const std::vector<Entry>& entries) {
  std::vector<const Entry::Key*> before;  // as they are applied
  const auto refuse_second = [&](const Entry::Key& first, const Entry::Key& second, const char* remedy) {
    const std::string place = first.flag.empty() ? document.place(first.pointer, Anchor::kKey) : first.flag;
    refuse_key(document, second, second.pointer,
               in_quotes(second.name) + " sets what " + in_quotes(first.name) + " sweeps already (" + place +
                   "); allowed: " + remedy,
               Anchor::kKey);
  };
  for (const Entry& entry : entries) {
    for (const Entry::Key& key : entry.keys) {
      for (const Entry::Key* other : before) {
        if (holds(key.name, other->name)) {
          refuse_second(*other, key, "one of them, or the whole in an entry before its part");
        }
        if (!holds(other->name, key.name)) continue;
        const std::string part = key.name.substr(other->name.size() + 1);
        const auto said = [&](const json& value) { return says(value, part); };
        if (std::ranges::any_of(*other->values, said)) {
          refuse_second(*other, key, "one of them, or values of the whole that leave its part out");
        }
      }
      before.push_back(&key);
    }
  }
}

/// `flags`: behind those of the file.
std::vector<Entry> entries_of(const Document& document, const std::vector<std::string>& flags,
                              std::list<json>& storage) {
  std::vector<Entry> entries;
  double points = 1;  // of many entries more than 64 bits count
  std::optional<Entry::Key> beyond;
  std::set<std::string> seen;
  const auto add = [&](Entry entry) {
    entries.push_back(std::move(entry));
    points *= static_cast<double>(entries.back().values);
    if (points > kSweepPointsMax && !beyond) beyond = entries.back().keys.front();
    refuse_twins(document, entries);
  };
  if (document.root().is_object() && document.root().contains("sweep")) {
    const json& sweep = document.root().at("sweep");
    if (!sweep.is_array()) refuse(document, kSweep, "expected a list of objects");
    for (std::size_t i = 0; i < sweep.size(); ++i)
      add(entry_of(document, sweep[i], child_pointer(kSweep, std::to_string(i)), seen));
  }
  for (const std::string& flag : flags) add(entry_of_flag(flag, storage, seen));
  if (beyond) {
    refuse_key(document, *beyond, kSweep,
               fmt::format("out of range: {:.10g} points; allowed: up to {}", points, kSweepPointsMax));
  }
  refuse_overlaps(document, entries);
  return entries;
}

/// How long a point runs may be set for all points where it moves with what tells them apart.
bool is_only_length(const Entry& entry, const Entry::Key& key) {
  const auto length = [](const Entry::Key& k) {
    return k.name == "run.warmup_us" || k.name == "run.measure_us";
  };
  return length(key) && !std::ranges::all_of(entry.keys, length);
}

/// The values of a key, each once, as far as a line has room for them.
std::string values_of(const Entry::Key& key) {
  constexpr std::size_t kToldMax = 12;
  std::string text;
  std::vector<json> told;
  for (const json& value : *key.values) {
    if (std::ranges::find(told, value) != told.end()) continue;
    if (told.size() == kToldMax) return text + ", ...";
    told.push_back(value);
    text += (told.size() == 1 ? "" : ", ") + one_line(value.is_null() ? "null" : text_of(value), 60);
  }
  return text;
}

/// A value that a field of the sweep is given from outside picks the points that have it. Others would leave
/// points that differ in nothing.
class Picks {
 public:
  Picks(const std::vector<Entry>& entries, const std::vector<Override>& overrides) {
    for (const Entry& entry : entries) {
      std::vector<std::size_t> all(entry.values);
      std::iota(all.begin(), all.end(), 0);
      picked_.push_back(std::move(all));
    }
    for (auto it = overrides.begin(); it != overrides.end(); ++it) {
      const auto sets_the_same = [&](const Override& later) { return later.pointer == it->pointer; };
      const bool wins = std::none_of(it + 1, overrides.end(), sets_the_same);
      if (wins && !picks(entries, *it)) others_.push_back(*it);
    }
  }

  /// Of an entry: the numbers of its values that are left, never none.
  const std::vector<std::size_t>& of(std::size_t entry) const { return picked_[entry]; }
  /// The overrides that pick nothing.
  const std::vector<Override>& others() const { return others_; }

 private:
  bool picks(const std::vector<Entry>& entries, const Override& override) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      for (const Entry::Key& key : entries[i].keys) {
        const std::string pointer = parse_override(key.name + "=").pointer;
        if (!(pointer + "/").starts_with(override.pointer + "/") || is_only_length(entries[i], key)) continue;
        const json value = loose_value(override);
        const auto differs = [&](std::size_t number) {
          const json& swept = key.values->at(number);
          return swept != value && (!swept.is_string() || swept != override.value);
        };
        if (pointer == override.pointer) std::erase_if(picked_[i], differs);
        if (pointer == override.pointer && !picked_[i].empty()) return true;
        throw UserError("", override.place() + ": the scenario sweeps " + one_line(key.name, 120) +
                                "; allowed: its values, " + values_of(key));
      }
    }
    return false;
  }

  std::vector<std::vector<std::size_t>> picked_;
  std::vector<Override> others_;
};

/// A protocol and a workload, which say what their fields may be.
using Names = std::pair<std::string, std::string>;

Names names_of(const json& scenario) {
  const auto name = [&](const char* kind) {
    const json value = scenario.value(json::json_pointer(kind), json());
    return value.is_string() ? value.get<std::string>() : "";
  };
  return {name("/protocol/name"), name("/workload/name")};
}

/// What is wrong with the file's own value of a swept field, were these the names; absent parts aside.
std::vector<Finding> check_own(const json& root, const Override& field, const Names& names,
                               const Catalog& catalog) {
  json schema = schema_for(catalog, names.first, names.second);
  for (const std::string& key : field.path) {
    json member = schema.value("properties", json::object()).value(key, json());
    if (member.is_null()) return {};  // of other protocols
    schema = std::move(member);
  }
  json value = root.at(json::json_pointer(field.pointer));
  std::vector<Finding> findings = check(value, schema, field.pointer);
  std::erase_if(findings, &Finding::missing);
  return findings;
}

/// No point has what the file itself says of a field that is swept: so it is looked at here. Protocols and
/// workloads may be swept too: it has to suit one of them.
void refuse_own_values(const Document& document, const std::vector<Entry>& entries,
                       const std::vector<SweepPoint>& points, const Catalog& catalog) {
  const Names own = names_of(document.root());
  std::set<Names> others;
  for (const SweepPoint& point : points) others.insert(names_of(point.scenario.resolved));
  for (const Entry& entry : entries) {
    for (const Entry::Key& key : entry.keys) {
      const Override field = parse_override(key.name + "=");
      if (!document.root().contains(json::json_pointer(field.pointer))) continue;
      const auto wrong = [&](const Names& names) {
        return check_own(document.root(), field, names, catalog);
      };
      const std::vector<Finding> findings = wrong(own);
      const auto suits = [&](const Names& names) { return wrong(names).empty(); };
      if (findings.empty() || std::ranges::any_of(others, suits)) continue;
      const Finding& first = first_of(document, findings);
      refuse(document, first.pointer, first.message, first.anchor);
    }
  }
}

/// What a sweep's value sets, told as a place in the file where it is wrong.
Override override_of(const std::shared_ptr<const Document>& document, const Entry::Key& key,
                     std::size_t number) {
  const json& value = key.values->at(number);
  Override override = parse_override(key.name + "=" + text_of(value));
  override.given = value;
  if (!key.flag.empty()) {  // as typed, "8" may be a number or a word
    override.text = key.flag;
    override.given.reset();
    return override;
  }
  override.document = document;
  override.document_pointer = child_pointer(key.pointer, std::to_string(number));
  return override;
}

}  // namespace

std::string text_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "" : value.dump();
}

Override flag_override(const std::string& path, const std::string& flag, const std::string& value) {
  Override override = parse_override(path + "=" + value);
  override.text = flag + " " + value;
  return override;
}

std::string describe_point(const SweepPoint& point) {
  if (point.settings.empty()) return "the run as it is";
  std::string settings;
  for (const auto& [path, value] : point.settings) {
    settings += (settings.empty() ? "" : ", ") + path + "=" + text_of(value);
  }
  return "point " + std::to_string(point.number) + " (" + one_line(settings, 200) + ")";
}

std::vector<SweepPoint> load_points(const std::filesystem::path& file,
                                    const std::vector<std::string>& overrides, const Catalog& catalog,
                                    const std::vector<Override>& flags,
                                    const std::vector<std::string>& sweeps) {
  const auto document = std::make_shared<const Document>(Document::read(file));
  std::list<json> storage;  // of values that stand in no file
  const std::vector<Entry> entries = entries_of(*document, sweeps, storage);
  std::vector<Override> given;
  for (const std::string& text : overrides) {
    given.push_back(parse_override(text));
    if (given.back().path.front() == "sweep") {
      throw UserError("", given.back().place() +
                              ": a sweep belongs in the scenario's file, or in --sweep PATH=VALUE,VALUE");
    }
  }
  given.insert(given.end(), flags.begin(), flags.end());
  const Picks picks(entries, given);
  std::vector<SweepPoint> points;
  std::vector<std::size_t> at(entries.size(), 0);
  for (;;) {
    SweepPoint point;
    point.number = points.size();
    std::vector<Override> settings;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::size_t number = picks.of(i)[at[i]];
      for (const Entry::Key& key : entries[i].keys) {
        const json& value = key.values->at(number);
        // null: the file's own value, or none: what one point's protocol takes, another's may not.
        if (!value.is_null()) settings.push_back(override_of(document, key, number));
        point.settings.emplace_back(key.name, value);
      }
    }
    settings.insert(settings.end(), picks.others().begin(), picks.others().end());
    try {
      point.scenario = resolve_scenario(document, std::move(settings), catalog);
    } catch (const UserError& error) {
      // The place may be one that all points share: a field of the file that this one's settings do not suit.
      if (point.settings.empty()) throw;
      throw UserError("", std::string(error.what()) + "; in " + describe_point(point));
    }
    points.push_back(std::move(point));
    std::size_t i = entries.size();
    while (i > 0 && ++at[i - 1] == picks.of(i - 1).size()) at[--i] = 0;
    if (i == 0) break;
  }
  refuse_own_values(*document, entries, points, catalog);
  return points;
}

}  // namespace verbtwin::scenarios
