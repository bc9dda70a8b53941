#include "scenarios/document.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "backend/temporary_directory.hpp"
#include "scenarios/text.hpp"

namespace verbtwin::scenarios {
namespace {

std::string error_of(const std::string& text) {
  try {
    Document::parse("a.json", text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "accepted";
}

constexpr const char* kText = R"({
  "cluster": {"nodes": 16, "a/b~c": [10, {"x": true}]},
  "näme": "ü", "last": 1
})";

TEST(Document, FindsValuesAndKeys) {
  const Document d = Document::parse("a.json", kText);
  EXPECT_EQ(d.position(""), (Position{1, 1}));
  EXPECT_EQ(d.position("/cluster"), (Position{2, 14}));
  EXPECT_EQ(d.position("/cluster/nodes"), (Position{2, 24}));
  EXPECT_EQ(d.position("/cluster/nodes", Anchor::kKey), (Position{2, 15}));
  EXPECT_EQ(d.position("/cluster/a~1b~0c/0"), (Position{2, 38}));
  EXPECT_EQ(d.position("/cluster/a~1b~0c/1/x"), (Position{2, 48}));
  EXPECT_EQ(d.position("/last"), (Position{3, 24})) << "columns count characters, not bytes";
}

TEST(Document, AbsentValuesStandAtTheirNearestAncestor) {
  const Document d = Document::parse("a.json", kText);
  EXPECT_EQ(d.position("/cluster/threads"), d.position("/cluster"));
  EXPECT_EQ(d.position("/cluster/nodes/x/y"), d.position("/cluster/nodes"));
  EXPECT_EQ(d.position("/cluster/a~1b~0c/7"), d.position("/cluster/a~1b~0c"));
  EXPECT_EQ(d.position("/run/seed"), (Position{1, 1}));
  EXPECT_EQ(Document::parse("n", "[]").position("/0"), (Position{1, 1}));
}

TEST(Document, FindsKeysWrittenWithEscapes) {
  EXPECT_EQ(Document::parse("n", R"({"a\"]b": 1, "\u0063": 2})").position("/c"), (Position{1, 24}));
}

TEST(Document, ByteOrderMarkIsNoColumn) {
  EXPECT_EQ(Document::parse("n", "\xef\xbb\xbf{\"a\": 1}").position("/a"), (Position{1, 7}));
}

TEST(Document, SyntaxErrorsNameTheirPlaceAndWhatIsAllowed) {
  const std::string value = "a number, a string in double quotes, true, false, null, '[' or '{'";
  EXPECT_EQ(error_of("{\n  \"a\": 1\n  \"b\": 2}"),
            "a.json:3:3: syntax error: unexpected string literal; allowed: ',' or '}'");
  EXPECT_EQ(error_of("{\"a\": 1,\n"),
            "a.json:2:1: syntax error: the text ends too early; allowed: a key in double quotes");
  EXPECT_EQ(error_of("{\"a\""), "a.json:1:5: syntax error: the text ends too early; allowed: ':'");
  EXPECT_EQ(error_of("[1 2]"), "a.json:1:4: syntax error: unexpected number literal; allowed: ',' or ']'");
  EXPECT_EQ(error_of("{\"a\": \"x"),
            "a.json:1:7: syntax error: invalid string: missing closing quote; allowed: a string "
            "that ends in '\"'");
  EXPECT_EQ(error_of("[-]"), "a.json:1:3: syntax error: invalid number; allowed: digit after '-'");
  EXPECT_EQ(error_of("{\"a\": tru}"), "a.json:1:10: syntax error: invalid literal; allowed: " + value);
  EXPECT_EQ(error_of("[1,]"), "a.json:1:4: syntax error: unexpected ']'; allowed: " + value);
  EXPECT_EQ(error_of("{\"a\": 1,}"),
            "a.json:1:9: syntax error: unexpected '}'; allowed: a key in double quotes");
  EXPECT_EQ(error_of("{\"a\": 1} x"), "a.json:1:10: syntax error: invalid literal; allowed: nothing more");
  EXPECT_EQ(error_of("{} {}"), "a.json:1:4: syntax error: unexpected '{'; allowed: nothing more");
  EXPECT_EQ(error_of("{'a': 1}"),
            "a.json:1:2: syntax error: invalid literal; allowed: a key in double quotes");
  EXPECT_EQ(error_of("// no\n{}"), "a.json:1:1: syntax error: invalid literal; allowed: " + value);
  EXPECT_EQ(error_of(""), "a.json:1:1: the file is empty; a JSON object is expected");
  EXPECT_EQ(error_of(" \n\n"), "a.json:1:1: the file is empty; a JSON object is expected");
}

TEST(Document, RefusesWhatTheParserWouldLetThrough) {
  EXPECT_EQ(error_of("{\"a\": 1,\n \"b\": {\"a\": 2}, \"\\u0061\": 3}"),
            "a.json:2:17: duplicate key \"a\"; the first one is in line 1");
  EXPECT_EQ(error_of("[{\"a\": \"a\"}, {\"a\": {\"a\": [\"a\", \"a\"]}}]"), "accepted");
  EXPECT_EQ(error_of(std::string("{}\0{", 4)),
            "a.json:1:3: syntax error: NUL byte; allowed: text in UTF-8, in a string \\u0000");
  EXPECT_EQ(error_of("{\"s\": \"1e999\", \"a\": [1, -1e400]}"),
            "a.json:1:25: /a/1: out of range: -1e400; allowed: numbers from -1.7e308 to 1.7e308");
  EXPECT_EQ(error_of("{\"a\": {\"b\": [1]},\n \"cluster\": {\"x\": \"y\", \"nodes\": 1e400}}"),
            "a.json:2:33: /cluster/nodes: out of range: 1e400; allowed: numbers from -1.7e308 to 1.7e308");
  EXPECT_EQ(error_of("1e400"), "a.json:1:1: out of range: 1e400; allowed: numbers from -1.7e308 to 1.7e308");
  EXPECT_EQ(error_of("[1e-400]"), "accepted");
}

TEST(Document, WhatIsWrongInAStringOrNumberComesWithWhatIsAllowed) {
  const std::string error = "a.json:1:9: syntax error: invalid string: ";
  EXPECT_EQ(error_of("{\"a\": \"b\tc\"}"),
            error + "control character U+0009 (HT); allowed: escaped to \\u0009 or \\t");
  EXPECT_EQ(error_of("{\"a\": \"\\x\"}"),
            error + "forbidden character after backslash; allowed: one of \" \\ / b f n r t u");
  EXPECT_EQ(error_of("{\"a\": \"\\u12\"}").substr(11),
            ": syntax error: invalid string: '\\u'; allowed: followed by 4 hex digits");
  EXPECT_EQ(error_of("[1.]"), "a.json:1:4: syntax error: invalid number; allowed: digit after '.'");
}

TEST(Document, RefusesBytesThatAreNoUtf8) {
  EXPECT_EQ(error_of("{\"a\": \"b\xff\"}"),
            "a.json:1:9: syntax error: invalid string: ill-formed UTF-8 byte; allowed: UTF-8");
  EXPECT_EQ(error_of("{\"a\": \"\xc0\xaf\"}"),
            "a.json:1:8: syntax error: invalid string: ill-formed UTF-8 byte; allowed: UTF-8");
}

TEST(Document, DepthIsBounded) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(error_of(nested(kDocumentDepthMax)), "accepted");
  EXPECT_EQ(error_of(nested(kDocumentDepthMax + 1)), "a.json:1:65: nested too deeply; allowed: 64 levels");
  EXPECT_EQ(error_of(std::string(8 << 20, '[')), "a.json:1:65: nested too deeply; allowed: 64 levels");
  EXPECT_EQ(error_of("\"" + std::string(1000, '[') + "\""), "accepted") << "brackets in a string do not nest";
}

TEST(Document, SizeIsBounded) {
  const auto padded_to = [](std::size_t bytes) {
    std::string text(bytes, ' ');
    text.back() = '1';
    return text;
  };
  EXPECT_EQ(error_of(padded_to(kDocumentBytesMax + 1)), "a.json:1:1: the file is too large; allowed: 16 MiB");
  EXPECT_EQ(error_of(padded_to(kDocumentBytesMax)), "accepted");
}

TEST(Document, FilesThatAreNoFiles) {
  const auto error_of_file = [](const std::string& file) -> std::string {
    try {
      Document::read(file);
    } catch (const UserError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error_of_file("/no/such/file.json"), "/no/such/file.json: no such file");
  const TemporaryDirectory directory;
  const std::string there = directory.write("smallbank-16.json", "{}").string();
  const std::string cut = there.substr(0, there.size() - 5), wrong = cut + "s.json";
  EXPECT_EQ(error_of_file(cut), cut + ": no such file; did you mean \"" + there + "\"?");
  EXPECT_EQ(error_of_file(wrong), wrong + ": no such file; did you mean \"" + there + "\"?");
  EXPECT_EQ(error_of_file(there + "/x.json"), there + "/x.json: no such file");
  EXPECT_EQ(error_of_file("/"), "/: is a directory; a file is expected");
  EXPECT_EQ(error_of_file("/dev/null"), "/dev/null:1:1: the file is empty; a JSON object is expected");
  EXPECT_EQ(error_of_file("/dev/zero"), "/dev/zero: the file is too large; allowed: 16 MiB");
  EXPECT_THAT(error_of_file(std::string(5000, 'x')),
              testing::HasSubstr("cannot be read: File name too long"));
}

TEST(Document, ErrorsAreOneLineWhateverTheInput) {
  const Document d = Document::parse("a\nb.json", "{\"x\\ny\": {\"z\": 1}}");
  const UserError error("/x\ny/z", "bad \x1b[31m\xff value \xe2\x80\xae");
  EXPECT_EQ(format_error(d, error), "a\\nb.json:1:16: /x\\ny/z: bad \\u001b[31m\\xff value \\u202e");
  EXPECT_EQ(format_error(d, error, Anchor::kValue), format_error(d, error));
  EXPECT_EQ(format_error(d, UserError("", "says its own place")), "says its own place");
  EXPECT_EQ(format_error("--set a=1", UserError("/a", "no")), "--set a=1: /a: no");
}

TEST(Text, CutsBetweenCharacters) {
  EXPECT_EQ(one_line("üüü", 4), "üü...");
  EXPECT_EQ(one_line("üü", 4), "üü");
  EXPECT_EQ(in_quotes(std::string(1000000, 'a')).size(), 65U);
}

TEST(Text, ForXmlHoldsWhatItMay) {
  EXPECT_EQ(for_xml("a\tb\nü\xf0\x9f\x98\x80<"), "a\tb\nü\xf0\x9f\x98\x80<");
  EXPECT_EQ(for_xml("a\xef\xbf\xbe"
                    "b\xef\xbf\xbf"
                    "c\xef\xbf\xbd\x01\r\xff"),
            "a b c\xef\xbf\xbd   ");
}

TEST(Text, WhatBeginsAsItWasTypedIsNearest) {
  EXPECT_EQ(nearest("tpce", {"tpcc", "tpce_customer_position", "tpce_long"}), "tpce_long");
  EXPECT_EQ(nearest("Warehouses", {"name", "warehouses_per_node"}), "warehouses_per_node");
  EXPECT_EQ(nearest("qps", {"nodes", "qps_per_peer"}), "qps_per_peer");
  EXPECT_EQ(nearest("nodes", {"nodes_per_rack", "nodes"}), "nodes") << "itself";
  EXPECT_EQ(nearest("qp", {"nodes", "qps_per_peer"}), "") << "two letters begin too much";
}

TEST(Text, AVerbIsKnownByItsOtherName) {
  const std::vector<std::string> verbs = {"read", "write", "send", "compare_swap", "fetch_add"};
  EXPECT_EQ(nearest("cas", verbs), "compare_swap");
  EXPECT_EQ(nearest("CAS", verbs), "compare_swap");
  EXPECT_EQ(nearest("faa", verbs), "fetch_add");
  EXPECT_EQ(nearest("faa", {"read", "write"}), "");
}

TEST(Text, NearestOnlyWhenClose) {
  const std::vector<std::string> names = {"nodes",         "threads",    "nic",
                                          "nics_per_node", "connectx-4", "connectx-5"};
  EXPECT_EQ(nearest("nodse", names), "nodes");
  EXPECT_EQ(nearest("Threads", names), "threads");
  EXPECT_EQ(nearest("thread", names), "threads");
  EXPECT_EQ(nearest("nic_per_node", names), "nics_per_node");
  EXPECT_EQ(nearest("connectx4", names), "connectx-4");
  EXPECT_EQ(nearest("nci", names), "nic");
  EXPECT_EQ(nearest("--sed", {"--set", "--seed"}), "--seed");
  EXPECT_EQ(nearest("--sed", {"--seed", "--set"}), "--seed");
  EXPECT_EQ(nearest("zebra", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest(std::string(1 << 20, 'x'), names), "");
}

}  // namespace
}  // namespace verbtwin::scenarios
