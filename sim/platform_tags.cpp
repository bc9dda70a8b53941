#include "sim/platform_tags.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "backend/user_error.hpp"
#include "sim/platform_file.hpp"

namespace verbtwin::sim {

std::string PlatformText::place_of(std::string_view part) const {
  const std::string_view before(text.data(), static_cast<std::size_t>(part.data() - text.data()));
  const std::string_view on_line = before.substr(before.rfind('\n') + 1);  // npos + 1 == 0: the first line
  const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return fmt::format("{}:{}", 1 + std::ranges::count(before, '\n'),
                     1 + std::ranges::count_if(on_line, begins_character));
}

void PlatformText::refuse(std::string_view part, const std::string& why) const {
  throw UserError(kPlatformPointer, fmt::format("platform {}:{}: {}", file.string(), place_of(part), why));
}

void for_each_tag(std::string_view text, const std::function<void(const Tag&)>& visit) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::size_t at = 0;
  int depth = 0;
  const auto skip = [&](std::string_view end) {  // behind it
    const std::size_t found = text.find(end, at);
    at = found == text.npos ? text.size() : found + end.size();
  };
  const auto skip_space = [&] { at = std::min(text.find_first_not_of(kSpace, at), text.size()); };
  const auto take_until = [&](std::string_view ends) {
    const std::size_t begin = at;
    at = std::min(text.find_first_of(ends, at), text.size());
    return text.substr(begin, at - begin);
  };
  while ((at = text.find('<', at)) != text.npos) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("<!--")) {
      skip("-->");
    } else if (rest.starts_with("<?")) {
      skip("?>");
    } else if (rest.starts_with("<![CDATA[")) {
      skip("]]>");
    } else if (rest.starts_with("<!") || rest.starts_with("</")) {
      if (rest[1] == '/') --depth;
      skip(">");
    } else {
      ++at;
      Tag tag{take_until(" \t\r\n/>"), {}, {}, depth + 1};
      for (skip_space(); at < text.size() && text[at] != '>' && text[at] != '/'; skip_space()) {
        const std::string_view name = take_until(" \t\r\n=");
        skip_space();
        if (at == text.size() || text[at++] != '=') return visit(tag);
        skip_space();
        if (at == text.size() || (text[at] != '"' && text[at] != '\'')) return visit(tag);
        const std::string_view quote = text.substr(at++, 1);
        tag.attributes.push_back({name, take_until(quote)});
        at = std::min(at + 1, text.size());
      }
      const bool is_closed = text.substr(at).starts_with('/');
      if (!is_closed) ++depth;
      skip(">");
      // Looked for where it is used only: for each tag it would go through all of the text.
      if (tag.name == "trace" && !is_closed)
        tag.content = text.substr(at, std::min(text.find("</", at), text.size()) - at);
      visit(tag);
    }
  }
}

}  // namespace verbtwin::sim
