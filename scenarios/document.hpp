// Document: a JSON text that knows where each of its values stands.
//
// A value type; whoever parses it owns it, const calls from any thread. Lines and columns count from 1,
// columns in characters. Every error is a UserError whose message is already the whole line
// "file:line:column: what is wrong". Refused besides syntax errors: more than kDocumentBytesMax bytes,
// nesting deeper than kDocumentDepthMax, duplicate keys, bytes that are no UTF-8, NUL bytes, numbers beyond a
// double's range.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "backend/user_error.hpp"

namespace verbtwin::scenarios {

inline constexpr std::size_t kDocumentBytesMax = 16U << 20;
inline constexpr std::size_t kDocumentDepthMax = 64;
inline constexpr std::size_t kTextBytesMax =
    64U << 20;  // the table of a sweep of as many points as may be has 30

struct Position {
  std::size_t line = 1;
  std::size_t column = 1;
  auto operator<=>(const Position&) const = default;
};

/// All of a file that need not be one: a pipe, /dev/zero. Refused, as "file: why": what cannot be read, and
/// more than `bytes_max`.
std::string read_text(const std::filesystem::path& file, std::size_t bytes_max = kTextBytesMax);

/// What lies in a directory and ends in `extension` (".json"), by name without it. Refused: what is no
/// directory or cannot be read.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory,
                                            const std::string& extension);

/// Which end of a member a place names: its value, or its key (for a key that should not be there).
enum class Anchor { kValue, kKey };

class Document {
 public:
  /// `label` is what errors call the text: its path as the user gave it.
  static Document parse(std::string label, std::string text);
  static Document read(const std::filesystem::path& file);

  const std::string& label() const { return label_; }
  const nlohmann::json& root() const { return root_; }

  /// Where the value at a JSON pointer stands; where there is none, its nearest ancestor that exists. The
  /// text is scanned anew for each call: meant for error messages.
  Position position(std::string_view pointer, Anchor anchor = Anchor::kValue) const;

  /// The same as "file:line:column".
  std::string place(std::string_view pointer, Anchor anchor = Anchor::kValue) const;

 private:
  Document(std::string label, std::string text) : label_(std::move(label)), text_(std::move(text)) {}

  Position position_of(std::size_t byte) const;
  [[noreturn]] void fail(std::size_t byte, const std::string& what) const;
  void check_nesting() const;
  void check_duplicates() const;
  void parse_text();

  std::string label_;
  std::string text_;
  nlohmann::json root_;
};

/// `pointer` with one more reference token, escaped as RFC 6901 wants.
std::string child_pointer(const std::string& pointer, std::string_view key);

/// One line: "file:line:column: /pointer: message". An error without a pointer already names its place and is
/// given back as its message. The second form takes a place of its own ("--set cluster.nodes=0").
std::string format_error(const Document& document, const UserError& error, Anchor anchor = Anchor::kValue);
std::string format_error(std::string_view place, const UserError& error);

/// Throws what is wrong at a pointer as such a line.
[[noreturn]] void refuse(const Document& document, const std::string& pointer, const std::string& what,
                         Anchor anchor = Anchor::kValue);

}  // namespace verbtwin::scenarios
