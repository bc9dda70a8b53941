// The names in a platform's XML: of elements, hosts and links, and where routes say them.
//
// SimGrid's own words for what is wrong with these name no place. Reads one file, tag by tag, in order: what
// a route names stands before it. What the hosts and links that a <cluster>, <cabinet> or <peer> makes are
// called is SimGrid's to know.
#pragma once

#include <map>
#include <string_view>

#include "sim/platform_tags.hpp"

namespace verbtwin::sim {

class PlatformNames {
 public:
  /// `xml` must outlive it.
  explicit PlatformNames(const PlatformText& xml) : xml_(xml) {}

  /// Throws UserError.
  void check(const Tag& tag);

 private:
  struct Link {
    std::string_view id;
    bool has_directions;
  };
  void check_text(std::string_view name, std::string_view text) const;
  void check_link_of_route(const Tag& tag) const;
  void check_ends_of_route(const Tag& tag) const;
  [[noreturn]] void refuse_second(std::string_view id, std::string_view first) const;

  const PlatformText& xml_;
  std::map<std::string_view, std::string_view> nodes_;  // hosts and routers: their ids
  std::map<std::string_view, Link> links_;
  std::map<std::string_view, std::string_view> zones_;
  bool has_made_names_ = false;
};

}  // namespace verbtwin::sim
