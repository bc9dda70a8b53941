// ScenarioSource: where a scenario's values came from, so that what is wrong is said where it was written.
//
// Shared by the scenarios that were made of it; const calls from any thread.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "scenarios/document.hpp"
#include "scenarios/overrides.hpp"
#include "scenarios/text.hpp"
#include "scenarios/validate.hpp"

namespace verbtwin::scenarios {

/// A document and the overrides on top of it: who said what.
class ScenarioSource {
 public:
  ScenarioSource(std::shared_ptr<const Document> document, std::vector<Override> overrides)
      : document_(std::move(document)), overrides_(std::move(overrides)) {}

  const Document& document() const { return *document_; }
  const std::shared_ptr<const Document>& shared_document() const { return document_; }
  const std::vector<Override>& overrides() const { return overrides_; }

  /// The override that set the value at `pointer` or something around it; null where the file did.
  const Override* override_of(const std::string& pointer) const {
    const auto sets = [&](const Override& o) {
      return pointer == o.pointer || pointer.compare(0, o.pointer.size() + 1, o.pointer + '/') == 0;
    };
    const auto found = std::find_if(overrides_.rbegin(), overrides_.rend(), sets);
    return found == overrides_.rend() ? nullptr : &*found;
  }

  std::string place_of(const std::string& pointer, Anchor anchor) const {
    const Override* setter = override_of(pointer);
    return setter ? setter->place() : document_->place(pointer, anchor);
  }

  [[noreturn]] void refuse(const std::vector<Finding>& findings) const {
    refuse(
        first_of(*document_, findings, [&](const Finding& f) { return override_of(f.pointer) != nullptr; }));
  }

  [[noreturn]] void refuse(const Finding& finding) const {
    const UserError error(finding.pointer, finding.message + changed_name(finding.pointer));
    throw UserError("", format_error(place_of(finding.pointer, finding.anchor), error));
  }

  /// A path that the user wrote at `pointer`, usable from the current directory.
  std::string path_at(const std::string& pointer, const std::string& path) const {
    const Override* setter = override_of(pointer);
    const bool typed = setter != nullptr && setter->document == nullptr;
    const std::filesystem::path base =
        typed ? std::filesystem::path() : std::filesystem::path(document_->label()).parent_path();
    return (base / path).lexically_normal().string();
  }

 private:
  /// Where the file's own field does not suit the protocol or workload that an override names: that one.
  std::string changed_name(const std::string& pointer) const {
    for (const std::string kind : {"protocol", "workload"}) {
      if (!pointer.starts_with("/" + kind + "/") || override_of(pointer) != nullptr) continue;
      const Override* setter = override_of("/" + kind + "/name");
      if (setter == nullptr || setter->document || setter->path.size() != 2) continue;
      const nlohmann::json::json_pointer name("/" + kind + "/name");
      if (document_->root().contains(name) && document_->root().at(name) == setter->value) continue;
      return "; " + setter->place() + " changed the " + kind + ": give all of it, --set '" + kind +
             "={\"name\":" + in_quotes(setter->value) + "}'";
    }
    return "";
  }

  std::shared_ptr<const Document> document_;
  std::vector<Override> overrides_;
};

}  // namespace verbtwin::scenarios
