#include "sim/platform_names.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/platform_words.hpp"

namespace verbtwin::sim {

namespace {

/// SimGrid's; those that do nothing, or that it refuses (<include>, <actor>), last.
const std::vector<std::string>& elements() {
  static const std::vector<std::string> all = {
      "zone",        "host",    "link",          "route",     "link_ctn",        "cluster", "router",
      "backbone",    "cabinet", "peer",          "zoneRoute", "bypassZoneRoute", "trace",   "trace_connect",
      "bypassRoute", "prop",    "host_link",     "disk",      "platform",        "AS",      "ASroute",
      "random",      "mount",   "storage",       "argument",  "storage_type",    "actor",   "process",
      "config",      "include", "bypassASroute", "model_prop"};
  return all;
}

/// Which character an entity stands for is SimGrid's to read.
bool is_literal(std::string_view id) {
  return id.find('&') == id.npos;
}

template <typename Map>
std::vector<std::string> ids_of(const Map& map) {
  std::vector<std::string> ids;
  for (const auto& [id, _] : map) ids.emplace_back(id);
  return ids;
}

}  // namespace

void PlatformNames::check_text(std::string_view name, std::string_view text) const {
  const std::size_t at = find_no_text(text);
  if (at == text.npos) return;
  xml_.refuse(text.substr(at),
              fmt::format("{}: a byte 0x{:02x} that is no text; allowed: printable characters "
                          "in UTF-8",
                          name, static_cast<unsigned char>(text[at])));
}

void PlatformNames::refuse_second(std::string_view id, std::string_view first) const {
  xml_.refuse(id, fmt::format("'{:.100}' is there already, at {}; allowed: names that differ", id,
                              xml_.place_of(first)));
}

void PlatformNames::check_link_of_route(const Tag& tag) const {
  const std::optional<std::string_view> given = tag["id"], direction = tag["direction"];
  if (!given || !is_literal(*given) || *given == "__loopback__") return;  // SimGrid's own link has that name
  const auto link = links_.find(*given);
  if (link == links_.end()) {
    for (const std::string_view end : {"_UP", "_DOWN"}) {
      if (!given->ends_with(end)) continue;
      const auto whole = links_.find(given->substr(0, given->size() - end.size()));
      if (whole != links_.end() && whole->second.has_directions) return;
    }
    xml_.refuse(*given,
                fmt::format("no link '{:.100}'; allowed: the id of a <link> that stands before the route{}",
                            *given, did_you_mean(*given, ids_of(links_))));
  }
  if (direction && *direction != "NONE" && !link->second.has_directions) {
    xml_.refuse(*direction,
                fmt::format("link '{:.100}' is one for both directions; allowed: no direction, or "
                            "sharing_policy=\"SPLITDUPLEX\" of the link",
                            *given));
  }
}

void PlatformNames::check_ends_of_route(const Tag& tag) const {
  for (const auto& [name, value] : tag.attributes) {
    const bool is_end = name == "src" || name == "dst" || name == "gw_src" || name == "gw_dst";
    if (!is_end || !is_literal(value) || nodes_.contains(value) || zones_.contains(value)) continue;
    std::vector<std::string> known = ids_of(nodes_);
    std::ranges::move(ids_of(zones_), std::back_inserter(known));
    xml_.refuse(value, fmt::format("{}='{:.100}': no such host, router or zone; allowed: the id of one that "
                                   "stands before the route{}",
                                   name, value, did_you_mean(value, known)));
  }
}

void PlatformNames::check(const Tag& tag) {
  check_text("an element", tag.name);
  if (std::ranges::find(elements(), tag.name) == elements().end()) {
    constexpr std::size_t kTold = 20;
    xml_.refuse(tag.name, fmt::format("<{:.60}>: no element of a platform; allowed: {}, ...{}", tag.name,
                                      fmt::join(std::span(elements()).first(kTold), ", "),
                                      did_you_mean(tag.name, elements())));
  }
  for (const auto& [name, value] : tag.attributes) {
    check_text("an attribute", name);
    check_text(name, value);
  }
  if (tag.name == "cluster" || tag.name == "cabinet" || tag.name == "peer") has_made_names_ = true;
  if (tag.name == "link_ctn" && !has_made_names_) check_link_of_route(tag);
  if (!has_made_names_) check_ends_of_route(tag);
  const std::optional<std::string_view> id = tag["id"];
  if (!id || !is_literal(*id)) return;
  if (tag.name == "host" || tag.name == "router") {
    const auto [first, is_new] = nodes_.emplace(*id, *id);
    if (!is_new) refuse_second(*id, first->second);
  } else if (tag.name == "link" || tag.name == "backbone") {
    const std::string_view policy = tag["sharing_policy"].value_or("");
    const auto [first, is_new] = links_.emplace(*id, Link{*id, policy.ends_with("DUPLEX")});
    if (!is_new) refuse_second(*id, first->second.id);
  } else if (tag.name == "zone" || tag.name == "AS") {
    zones_.emplace(*id, *id);
  }
}

}  // namespace verbtwin::sim
