#include "scenarios/sweep.hpp"

#include <memory>
#include <set>

#include "backend/user_error.hpp"
#include "scenarios/loader.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::scenarios {

using nlohmann::json;

namespace {

constexpr const char* kSweep = "/sweep";

/// One entry of the list: keys that move together, and how many values each of them has.
struct Entry {
  struct Key {
    std::string name, pointer;
    const json* values = nullptr;
  };
  std::vector<Key> keys;
  std::size_t values = 0;
};

[[noreturn]] void refuse(const Document& document, const std::string& pointer, const std::string& what,
                         Anchor anchor = Anchor::kValue) {
  throw UserError("", format_error(document, UserError(pointer, what), anchor));
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
    if (key.starts_with("sweep")) refuse(document, at, "a sweep cannot be swept", Anchor::kKey);
    if (!seen.insert(key).second) {
      refuse(document, at, in_quotes(key) + " is swept already; allowed: once, with all its values",
             Anchor::kKey);
    }
    if (seen.size() > kSweepKeysMax) {
      refuse(document, at, "more than " + std::to_string(kSweepKeysMax) + " keys are swept", Anchor::kKey);
    }
    if (!values.is_array() || values.empty()) refuse(document, at, "expected a list of at least one value");
    if (entry.values != 0 && values.size() != entry.values) {
      refuse(document, at,
             "has " + std::to_string(values.size()) + " values, the keys before it have " +
                 std::to_string(entry.values) + "; the keys of one entry move together");
    }
    entry.values = values.size();
    entry.keys.push_back({key, at, &values});
  }
  return entry;
}

std::vector<Entry> entries_of(const Document& document) {
  std::vector<Entry> entries;
  if (!document.root().is_object() || !document.root().contains("sweep")) return entries;
  const json& sweep = document.root().at("sweep");
  if (!sweep.is_array()) refuse(document, kSweep, "expected a list of objects");
  std::size_t points = 1;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < sweep.size(); ++i) {
    entries.push_back(entry_of(document, sweep[i], child_pointer(kSweep, std::to_string(i)), seen));
    points *= entries.back().values;
    if (points > kSweepPointsMax) {
      refuse(document, kSweep, "more than " + std::to_string(kSweepPointsMax) + " points");
    }
  }
  return entries;
}

/// What a sweep's value sets, told as a place in the file where it is wrong.
Override override_of(const std::shared_ptr<const Document>& document, const Entry::Key& key,
                     std::size_t number) {
  const json& value = key.values->at(number);
  Override override =
      parse_override(key.name + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
  override.document = document;
  override.document_pointer = child_pointer(key.pointer, std::to_string(number));
  return override;
}

}  // namespace

std::vector<SweepPoint> load_points(const std::filesystem::path& file,
                                    const std::vector<std::string>& overrides, const Catalog& catalog) {
  const auto document = std::make_shared<const Document>(Document::read(file));
  const std::vector<Entry> entries = entries_of(*document);
  std::vector<Override> given;
  for (const std::string& text : overrides) {
    given.push_back(parse_override(text));
    if (given.back().path.front() == "sweep") {
      throw UserError("", given.back().place() + ": a sweep belongs in the scenario's file");
    }
  }
  std::vector<SweepPoint> points;
  std::vector<std::size_t> at(entries.size(), 0);
  for (;;) {
    SweepPoint point;
    std::vector<Override> settings;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      for (const Entry::Key& key : entries[i].keys) {
        const json& value = key.values->at(at[i]);
        // null: the file's own value, or none: what one point's protocol takes, another's may not.
        if (!value.is_null()) settings.push_back(override_of(document, key, at[i]));
        point.settings.emplace_back(key.name, value);
      }
    }
    settings.insert(settings.end(), given.begin(), given.end());
    point.scenario = resolve_scenario(document, std::move(settings), catalog);
    points.push_back(std::move(point));
    std::size_t i = entries.size();
    while (i > 0 && ++at[i - 1] == entries[i - 1].values) at[--i] = 0;
    if (i == 0) return points;
  }
}

}  // namespace verbtwin::scenarios
