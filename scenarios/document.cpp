#include "scenarios/document.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "scenarios/text.hpp"

namespace verbtwin::scenarios {

namespace {

using nlohmann::json;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_mark(char c) {
  return c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':';
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

/// Past the token that starts at `at`: a string, a mark, or a run of anything else (a number, a word).
std::size_t token_end(std::string_view text, std::size_t at) {
  if (text[at] == '"') {
    for (++at; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\') ++at;
    }
    return std::min(at + 1, text.size());
  }
  if (is_mark(text[at])) return at + 1;
  while (at < text.size() && !is_space(text[at]) && !is_mark(text[at]) && text[at] != '"') ++at;
  return at;
}

/// Start of the token that holds byte `byte`, or of the first one behind it.
std::size_t token_start(std::string_view text, std::size_t byte) {
  std::size_t at = skip_space(text, 0);
  while (at < text.size()) {
    const std::size_t end = token_end(text, at);
    if (end > byte) break;
    at = skip_space(text, end);
  }
  return at;
}

/// Past the value that starts at `at`; counts brackets, so that no nesting costs stack.
std::size_t value_end(std::string_view text, std::size_t at) {
  int open = 0;
  while (at < text.size()) {
    const char c = text[at];
    open += (c == '{' || c == '[') ? 1 : (c == '}' || c == ']') ? -1 : 0;
    at = token_end(text, at);
    if (open == 0) break;
    at = skip_space(text, at);
  }
  return at;
}

/// The text of the (valid) string token at [at, end).
std::string string_at(std::string_view text, std::size_t at, std::size_t end) {
  const std::string_view token = text.substr(at, end - at);
  if (token.find('\\') != std::string_view::npos) return json::parse(token).get<std::string>();
  return std::string(token.substr(1, token.size() - 2));
}

struct Member {
  std::size_t key = 0;    // byte of the opening quote; of the value in an array
  std::size_t value = 0;  // byte of the value's first character
};

/// The member of the (valid) container at `at` that `name` names; false where there is none.
bool find_member(std::string_view text, std::size_t at, const std::string& name, Member& found) {
  const bool object = text[at] == '{';
  if (!object && text[at] != '[') return false;
  std::size_t index = 0;
  for (at = skip_space(text, at + 1); text[at] != '}' && text[at] != ']'; ++index) {
    Member member{at, at};
    std::string key = std::to_string(index);
    if (object) {
      const std::size_t end = token_end(text, at);
      key = string_at(text, at, end);
      member.value = skip_space(text, skip_space(text, end) + 1);
    }
    if (key == name) {
      found = member;
      return true;
    }
    at = skip_space(text, value_end(text, member.value));
    if (text[at] == ',') at = skip_space(text, at + 1);
  }
  return false;
}

std::vector<std::string> reference_tokens(std::string_view pointer) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      tokens.emplace_back();
    } else if (!tokens.empty()) {
      const bool escape = pointer[i] == '~' && i + 1 < pointer.size();
      tokens.back() += !escape ? pointer[i] : pointer[++i] == '1' ? '/' : '~';
    }
  }
  return tokens;
}

/// The pointer to the value at byte `byte` of a text that is valid up to there.
std::string pointer_at(std::string_view text, std::size_t byte) {
  struct Open {
    bool object;
    std::size_t index = 0;
    std::string key{};
  };
  std::vector<Open> open;
  for (std::size_t at = skip_space(text, 0); at < byte;) {
    const char c = text[at];
    const std::size_t end = token_end(text, at), next = skip_space(text, end);
    if (c == '{' || c == '[') open.push_back({c == '{'});
    if (c == '}' || c == ']') open.pop_back();
    if (c == ',') ++open.back().index;
    if (c == '"' && next < text.size() && text[next] == ':') open.back().key = string_at(text, at, end);
    at = next;
  }
  std::string pointer;
  for (const Open& o : open) pointer = child_pointer(pointer, o.object ? o.key : std::to_string(o.index));
  return pointer;
}

/// What may stand where the parser (nlohmann's, by its message) found something else.
std::string_view allowed_instead(std::string_view message) {
  constexpr std::pair<std::string_view, std::string_view> kAllowed[] = {
      {"while parsing object key", "a key in double quotes"},
      {"while parsing object separator", "':'"},
      {"while parsing object", "',' or '}'"},
      {"while parsing array", "',' or ']'"},
      {"; expected end of input", "nothing more"},
      {"while parsing value", "a number, a string in double quotes, true, false, null, '[' or '{'"}};
  for (const auto& [tag, allowed] : kAllowed) {
    if (message.find(tag) != message.npos) return allowed;
  }
  return "JSON";
}

/// What is wrong inside a string or a number, as nlohmann tells it. It may say what must be, of some.
std::string with_allowed(std::string what) {
  constexpr std::pair<std::string_view, std::string_view> kAllowed[] = {
      {"ill-formed UTF-8", "UTF-8"},
      {"missing closing quote", "a string that ends in '\"'"},
      {"forbidden character after backslash", "one of \" \\ / b f n r t u"}};
  for (const auto& [wrong, allowed] : kAllowed) {
    if (what.find(wrong) != what.npos) return what + "; allowed: " + std::string(allowed);
  }
  for (const std::string_view said : {" must be ", "; expected "}) {
    if (const std::size_t at = what.find(said); at != what.npos)
      return what.replace(at, said.size(), "; allowed: ");
  }
  return what;
}

/// nlohmann's message without its own tag, line and column, and without the token it read, which may be
/// endless.
std::string syntax_message(std::string_view message) {
  const std::size_t tag = message.find(" - ");
  std::string_view what = message.substr(tag == message.npos ? 0 : tag + 3);
  what = what.substr(0, what.find("; last read"));
  if (!what.starts_with("unexpected ") && what != "invalid literal")
    return "syntax error: " + with_allowed(std::string(what));
  what = what.substr(0, what.find("; expected"));
  if (what == "unexpected end of input") what = "the text ends too early";
  return "syntax error: " + std::string(what) + "; allowed: " + std::string(allowed_instead(message));
}

}  // namespace

Position Document::position_of(std::size_t byte) const {
  const std::string_view before = std::string_view(text_).substr(0, byte);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0: the first line
  const auto starts_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::string_view line_before = before.substr(line_start);
  const auto column = 1 + std::count_if(line_before.begin(), line_before.end(), starts_character);
  return {static_cast<std::size_t>(line), static_cast<std::size_t>(column)};
}

void Document::fail(std::size_t byte, const std::string& what) const {
  const Position p = position_of(byte);
  throw UserError(
      "", one_line(label_) + ":" + std::to_string(p.line) + ":" + std::to_string(p.column) + ": " + what);
}

void Document::check_nesting() const {
  std::size_t depth = 0;
  for (std::size_t at = skip_space(text_, 0); at < text_.size();
       at = skip_space(text_, token_end(text_, at))) {
    const char c = text_[at];
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && depth > 0) --depth;
    if (depth > kDocumentDepthMax) {
      fail(at, "nested too deeply; allowed: " + std::to_string(kDocumentDepthMax) + " levels");
    }
  }
}

void Document::check_duplicates() const {
  std::vector<std::map<std::string, std::size_t>> open;  // where each key stands
  for (std::size_t at = skip_space(text_, 0); at < text_.size();) {
    const char c = text_[at];
    const std::size_t end = token_end(text_, at);
    const std::size_t next = skip_space(text_, end);
    if (c == '{' || c == '[') open.emplace_back();
    if (c == '}' || c == ']') open.pop_back();
    if (c == '"' && next < text_.size() && text_[next] == ':') {
      const std::string key = string_at(text_, at, end);
      const auto [first, is_new] = open.back().emplace(key, at);
      if (!is_new) {
        fail(at, "duplicate key " + in_quotes(key) + "; the first one is in line " +
                     std::to_string(position_of(first->second).line));
      }
    }
    at = next;
  }
}

void Document::parse_text() {
  try {
    root_ = json::parse(text_);
  } catch (const json::parse_error& e) {
    // The parser reports the end of what it read. That is the byte at fault inside a string; else its token
    // is, which for a string that never ends is the last one.
    const std::string_view what = e.what();
    const bool endless = what.find("missing closing quote") != what.npos;
    const bool in_string = !endless && what.find("invalid string") != what.npos;
    const std::size_t byte = endless ? text_.size() - 1 : e.byte > 0 ? e.byte - 1 : 0;
    fail(std::min(in_string ? byte : token_start(text_, byte), text_.size()), syntax_message(e.what()));
  } catch (const json::out_of_range&) {
    std::size_t at = skip_space(text_, 0);
    const auto overflows = [&] {
      const std::string token = text_.substr(at, token_end(text_, at) - at);
      return token[0] != '"' && std::isinf(std::strtod(token.c_str(), nullptr));
    };
    while (at < text_.size() && !overflows()) at = skip_space(text_, token_end(text_, at));
    at = std::min(at, text_.size());
    const std::string pointer = pointer_at(text_, at);
    fail(at, (pointer.empty() ? "" : one_line(pointer, 200) + ": ") +
                 "out of range: " + one_line(text_.substr(at, token_end(text_, at) - at), 60) +
                 "; allowed: numbers from -1.7e308 to 1.7e308");
  }
}

Document Document::parse(std::string label, std::string text) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  Document document(std::move(label), std::move(text));
  const std::string& body = document.text_;
  if (body.size() > kDocumentBytesMax) {
    document.fail(0, "the file is too large; allowed: " + std::to_string(kDocumentBytesMax >> 20) + " MiB");
  }
  if (skip_space(body, 0) == body.size()) document.fail(0, "the file is empty; a JSON object is expected");
  // nlohmann takes NUL for the end of the text and would ignore what follows.
  if (const std::size_t nul = body.find('\0'); nul != std::string::npos)
    document.fail(nul, "syntax error: NUL byte; allowed: text in UTF-8, in a string \\u0000");
  document.check_nesting();
  document.parse_text();
  document.check_duplicates();
  return document;
}

namespace {

/// What stands beside a file that is not there, if it may have been meant.
std::string meant_file(const std::filesystem::path& missing) {
  namespace fs = std::filesystem;
  constexpr std::size_t kLookedAtMax = 1000;
  const fs::path directory = missing.has_parent_path() ? missing.parent_path() : ".";
  const std::string name = missing.filename().string();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end;
       !error && entry != end && names.size() < kLookedAtMax; entry.increment(error)) {
    if (!entry->is_regular_file(error)) continue;
    if (entry->path().filename() == name + ".json")
      return "; did you mean " + in_quotes(missing.string() + ".json") + "?";
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  const std::string found = nearest(name, names);
  return found.empty() ? "" : "; did you mean " + in_quotes((missing.parent_path() / found).string()) + "?";
}

}  // namespace

std::string read_text(const std::filesystem::path& file, std::size_t bytes_max) {
  const auto refuse = [&](const std::string& why) {
    throw UserError("", one_line(file.string()) + ": " + why);
  };
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) refuse("no such file" + meant_file(file));
  if (status.type() == std::filesystem::file_type::directory) refuse("is a directory; a file is expected");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse("cannot be read: " + std::generic_category().message(errno));
  // The size is not asked for: a pipe has none.
  std::string text;
  for (char chunk[1 << 16]; in;) {
    in.read(chunk, sizeof chunk);
    if (in.bad()) refuse("cannot be read: " + std::generic_category().message(errno));
    text.append(chunk, static_cast<std::size_t>(in.gcount()));
    if (text.size() > bytes_max)
      refuse("the file is too large; allowed: " + std::to_string(bytes_max >> 20) + " MiB");
  }
  return text;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory,
                                            const std::string& extension) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == extension) files.push_back(entry->path());
  }
  if (error) throw UserError("", one_line(directory.string()) + ": cannot be read: " + error.message());
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.stem(); });
  return files;
}

Document Document::read(const std::filesystem::path& file) {
  return parse(file.string(), read_text(file, kDocumentBytesMax + kByteOrderMark.size()));
}

Position Document::position(std::string_view pointer, Anchor anchor) const {
  const std::size_t start = skip_space(text_, 0);
  Member found{start, start};
  for (const std::string& token : reference_tokens(pointer)) {
    if (!find_member(text_, found.value, token, found)) return position_of(found.value);
  }
  return position_of(anchor == Anchor::kKey ? found.key : found.value);
}

std::string Document::place(std::string_view pointer, Anchor anchor) const {
  const Position p = position(pointer, anchor);
  return label_ + ":" + std::to_string(p.line) + ":" + std::to_string(p.column);
}

std::string child_pointer(const std::string& pointer, std::string_view key) {
  std::string out = pointer + '/';
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

std::string format_error(std::string_view place, const UserError& error) {
  std::string line = one_line(place) + ": ";
  if (!error.pointer().empty()) line += one_line(error.pointer(), 200) + ": ";
  return line + one_line(error.what(), 1000);
}

std::string format_error(const Document& document, const UserError& error, Anchor anchor) {
  if (error.pointer().empty()) return one_line(error.what(), 2000);
  return format_error(document.place(error.pointer(), anchor), error);
}

void refuse(const Document& document, const std::string& pointer, const std::string& what, Anchor anchor) {
  throw UserError("", format_error(document.place(pointer, anchor), UserError(pointer, what)));
}

}  // namespace verbtwin::scenarios
