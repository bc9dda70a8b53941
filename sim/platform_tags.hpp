// The opening tags of a SimGrid platform's XML, and where in the file what they say stands.
//
// What looks like a tag in a comment, an instruction or a value is none, for SimGrid neither. Takes time in
// proportion to the text, whatever it holds. Pure functions; tags and their parts point into the text.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbtwin::sim {

struct PlatformText {
  std::filesystem::path file;
  std::string text;

  /// "line:column" of a part of the text, counted in characters.
  std::string place_of(std::string_view part) const;
  /// Throws UserError with the place of `part`.
  [[noreturn]] void refuse(std::string_view part, const std::string& why) const;
};

/// An element's opening tag.
struct Tag {
  struct Attribute {
    std::string_view name, value;
  };
  std::string_view name;
  std::vector<Attribute> attributes;
  std::string_view content;  // of a <trace>: up to the next closing tag
  int depth;                 // of elements, itself among them

  /// Of several with one name the last one; none: it has no such attribute.
  std::optional<std::string_view> operator[](std::string_view wanted) const {
    std::optional<std::string_view> found;
    for (const Attribute& attribute : attributes)
      if (attribute.name == wanted) found = attribute.value;
    return found;
  }
};

/// They end where the XML does, or where it is none: SimGrid gets no further.
void for_each_tag(std::string_view text, const std::function<void(const Tag&)>& visit);

}  // namespace verbtwin::sim
