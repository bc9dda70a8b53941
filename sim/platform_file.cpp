#include "sim/platform_file.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <simgrid/s4u.hpp>

#include "backend/user_error.hpp"

namespace verbtwin::sim {

namespace s4u = simgrid::s4u;

namespace {

// Far beyond any network, and within what picoseconds in 64 bits can count.
constexpr double kBytesPerSecondMin = 1e3, kBytesPerSecondMax = 1e15;
constexpr double kLatencyMax_s = 1;

constexpr double kTrial_s = 1e-6;  // the Clock's window, between two looks at the user's signals
constexpr rlim_t kTrialCpu_s = 2;  // for the file and that microsecond; a host loads in some 10 us

/// In memory shared with the child.
struct Probe {
  enum class Stage { kLoad, kRoutes, kRun, kPassed };
  Stage stage;
  char from[128];  // of the route that is looked up
  char to[128];
  char message[512];
};

void copy_text(char* out, std::size_t size, const std::string& text) {
  out[text.copy(out, size - 1)] = '\0';
}

/// An endless loop ends in SIGXCPU.
void limit_cpu_time(rlim_t seconds) {
  rlimit limit{};
  getrlimit(RLIMIT_CPU, &limit);
  limit.rlim_cur = std::min(seconds, limit.rlim_max);
  setrlimit(RLIMIT_CPU, &limit);
}

std::string find_nonsense(const std::vector<s4u::Host*>& nodes) {
  for (const s4u::Link* link : s4u::Engine::get_instance()->get_all_links()) {
    if (std::string wrong = what_is_wrong_with(*link); !wrong.empty()) return wrong;
  }
  for (const s4u::Host* host : nodes) {
    if (std::string wrong = what_is_wrong_with(*host); !wrong.empty()) return wrong;
  }
  return {};
}

/// Runs in the child.
void probe_platform(Probe& probe, std::size_t nodes, const std::function<PlatformTrial()>& load) try {
  const auto refuse = [&](const std::string& why) { copy_text(probe.message, sizeof probe.message, why); };
  limit_cpu_time(kTrialCpu_s);
  PlatformTrial trial = load();
  std::vector<s4u::Host*>& hosts = trial.hosts;
  if (hosts.size() < nodes)
    return refuse(fmt::format("it has {} of the {} hosts that the cluster needs", hosts.size(), nodes));
  hosts.resize(nodes);
  if (const std::string wrong = find_nonsense(hosts); !wrong.empty()) return refuse(wrong);
  probe.stage = Probe::Stage::kRun;
  trial.run_until(kTrial_s);
  limit_cpu_time(RLIM_INFINITY);  // the routes of a thousand hosts may take longer
  probe.stage = Probe::Stage::kRoutes;
  std::vector<s4u::Link*> links;
  for (const s4u::Host* from : hosts) {
    copy_text(probe.from, sizeof probe.from, from->get_cname());
    for (const s4u::Host* to : hosts) {
      if (from == to) continue;
      copy_text(probe.to, sizeof probe.to, to->get_cname());
      links.clear();
      double latency_s = 0;
      from->route_to(to, links, &latency_s);
      if (links.empty()) return;
    }
  }
  probe.stage = Probe::Stage::kPassed;
} catch (const std::exception& error) {
  copy_text(probe.message, sizeof probe.message, error.what());
}

struct Ended {
  std::string output;  // what the child and SimGrid wrote to standard error, read to its end
  bool took_too_long = false;
};

template <typename Body>
Ended run_in_child(const Body& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error(fmt::format("pipe: {}", std::strerror(errno)));
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(fmt::format("fork: {}", std::strerror(errno)));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a second signal ends the parent, and nobody would end this one
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], STDERR_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  Ended ended;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) != 0;) {
    if (got > 0) ended.output.append(buffer, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ended.took_too_long = WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU;
  return ended;
}

/// The first line, printable, without SimGrid's own preamble.
std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  for (const char* preamble : {"CRITICAL] ", "Parse error at "}) {
    const std::size_t found = text.find(preamble);
    if (found != std::string::npos) text.erase(0, found + std::strlen(preamble));
  }
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

/// SimGrid does not tell of what: a bandwidth, a latency or a speed.
std::string with_units(std::string why) {
  if (why.find("unknown unit: ") != why.npos) {
    why +=
        "; allowed: of a bandwidth Bps, kBps, MBps, GBps, bps, kbps, Mbps, Gbps; of a latency s, ms, us, ns, "
        "ps; of a speed f, kf, Mf, Gf";
  }
  return why;
}

std::string why_not(const Probe& probe, const Ended& ended) {
  if (probe.message[0] != '\0') return with_units(first_line(probe.message));
  if (probe.stage == Probe::Stage::kRoutes)
    return fmt::format("no route from host '{}' to host '{}'", probe.from, probe.to);
  if (ended.took_too_long) {
    return fmt::format(
        "SimGrid does not come to the end of {} in {} s: it may be too large, or a profile may change too "
        "often; allowed: periods of 0.1 ns and more",
        probe.stage == Probe::Stage::kLoad ? "it" : "its first microsecond", kTrialCpu_s);
  }
  return ended.output.empty() ? "SimGrid crashes on it" : first_line(ended.output);
}

/// `why` may be SimGrid's, which names the file and its line itself.
[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  const std::string named = why.starts_with(file.string() + ":") ? why : file.string() + ": " + why;
  throw UserError(kPlatformPointer, "platform " + named);
}

[[noreturn]] void refuse_at(const std::filesystem::path& file, std::ptrdiff_t line, const std::string& why) {
  throw UserError(kPlatformPointer, fmt::format("platform {}:{}: {}", file.string(), line, why));
}

/// An element's opening tag.
struct Tag {
  struct Attribute {
    std::string_view name, value;
  };
  std::string_view name;
  std::vector<Attribute> attributes;
  std::string_view content;  // up to the next closing one
  std::ptrdiff_t line;
  int depth;  // of elements, itself among them

  /// Of several with one name the last one; none: it has no such attribute.
  std::optional<std::string_view> operator[](std::string_view wanted) const {
    std::optional<std::string_view> found;
    for (const Attribute& attribute : attributes)
      if (attribute.name == wanted) found = attribute.value;
    return found;
  }
};

/// The tags of an XML. What looks like one in a comment, an instruction or a value is none, for SimGrid
/// neither. They end where the XML does, or where it is none: SimGrid gets no further.
std::vector<Tag> tags_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<Tag> tags;
  std::size_t at = 0, counted = 0;
  std::ptrdiff_t line = 1;
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
      line += std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                         text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      counted = at++;
      Tag& tag = tags.emplace_back(Tag{take_until(" \t\r\n/>"), {}, {}, line, depth + 1});
      for (skip_space(); at < text.size() && text[at] != '>' && text[at] != '/'; skip_space()) {
        const std::string_view name = take_until(" \t\r\n=");
        skip_space();
        if (at == text.size() || text[at++] != '=') return tags;
        skip_space();
        if (at == text.size() || (text[at] != '"' && text[at] != '\'')) return tags;
        const std::string_view quote = text.substr(at++, 1);
        tag.attributes.push_back({name, take_until(quote)});
        at = std::min(at + 1, text.size());
      }
      if (!text.substr(at).starts_with('/')) ++depth;
      skip(">");
      tag.content = text.substr(at, std::min(text.find("</", at), text.size()) - at);
    }
  }
  return tags;
}

std::string text_of(const std::filesystem::path& file) {
  constexpr std::uintmax_t kBytesMax = 64 << 20;
  std::error_code error;
  if (std::filesystem::file_size(file, error) > kBytesMax && !error)
    refuse(file, fmt::format("the file is too large; allowed: {} MiB", kBytesMax >> 20));
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// SimGrid passes over events with these values, at time 0 at least. `text` begins at a line of the file.
void refuse_values(const std::filesystem::path& file, std::string_view text, std::ptrdiff_t line_number = 1) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line); ++line_number) {
    char *after_date = nullptr, *after_value = nullptr;
    std::strtod(line.c_str(), &after_date);
    const double value = std::strtod(after_date, &after_value);
    if (after_date == line.c_str() || after_value == after_date || value >= 0) continue;
    refuse_at(file, line_number, fmt::format("a profile's value of {:g}; allowed: 0 and more", value));
  }
}

/// SimGrid looks where the program runs, and beside the XML: what stands in the one place may change.
void check_profile(const std::filesystem::path& xml, std::ptrdiff_t line, std::string_view name,
                   std::set<std::filesystem::path>& profiles) {
  if (name.find('&') != name.npos)
    refuse_at(xml, line, fmt::format("'{}': allowed: a file's name without &", name));
  for (const std::filesystem::path& file : {xml.parent_path() / name, std::filesystem::path(name)}) {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) continue;  // SimGrid's to refuse, where neither does
    if (!std::filesystem::is_regular_file(file, ignored))
      refuse_at(xml, line, fmt::format("{}: not a file", name));
    refuse_values(file, text_of(file));
    profiles.insert(file);
  }
}

/// A host's number, as SimGrid reads it; `text` is without it then. None: it is no number, or too large.
std::optional<int> take_number(std::string_view& text) {
  constexpr int kMost = std::numeric_limits<int>::max() - 1;  // SimGrid counts one further
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMost) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Of "0-3,8" 5; none: it is no list of hosts.
std::optional<std::int64_t> hosts_in(std::string_view radical) {
  std::int64_t hosts = 0;
  for (;;) {
    const std::optional<int> first = take_number(radical);
    std::optional<int> last = first;
    if (radical.starts_with('-')) {
      radical.remove_prefix(1);
      last = take_number(radical);
    }
    if (!first || !last || *last < *first) return std::nullopt;
    hosts += std::int64_t{*last} - *first + 1;
    if (radical.empty()) return hosts;
    if (radical[0] != ',') return std::nullopt;
    radical.remove_prefix(1);
  }
}

/// SimGrid says only "stoi" of what it cannot read, and makes a host of each number before it looks further.
void check_radical(const std::filesystem::path& xml, std::ptrdiff_t line, std::string_view radical) {
  constexpr std::int64_t kHostsMax = 65536;  // as many ports as the scenario's own topologies may have
  const std::optional<std::int64_t> hosts = hosts_in(radical);
  if (hosts && *hosts <= kHostsMax) return;
  refuse_at(xml, line,
            fmt::format("radical=\"{:.60}\": {}; allowed: numbers and ranges of 0 to 2147483646, as in "
                        "\"0-15,20\", {} hosts in all",
                        radical, hosts ? fmt::format("{} hosts", *hosts) : "no list of numbers", kHostsMax));
}

/// SimGrid's own dragonfly goes on in chassis 0 once a message has changed its place in a chassis, and reads
/// past the cables of a chassis to find a group that has a higher number than its routers.
void check_topology(const std::filesystem::path& xml, const Tag& tag) {
  const std::string_view topology = tag["topology"].value_or("");
  const std::string_view parameters = tag["topo_parameters"].value_or("");
  int groups = 0, group_cables = 0, chassis = 0, chassis_cables = 0, routers = 0;
  const int read = std::sscanf(std::string(parameters).c_str(), "%9d , %9d ; %9d , %9d ; %9d", &groups,
                               &group_cables, &chassis, &chassis_cables, &routers);
  if (topology != "DRAGONFLY" || read != 5) return;  // what is wrong with these is SimGrid's to refuse
  if (chassis == 1 && groups <= routers) return;
  refuse_at(
      xml, tag.line,
      fmt::format(
          "SimGrid finds wrong ways through a dragonfly of {} groups, {} chassis and {} routers; "
          "allowed: 1 chassis and at least as many routers as groups, or \"topology\": \"dragonfly\" of "
          "cluster.network, without a platform",
          groups, chassis, routers));
}

/// SimGrid says only "stoi" of what it cannot read, and takes "4;4" for 4.
void check_torus(const std::filesystem::path& xml, const Tag& tag) {
  if (tag["topology"].value_or("") != "TORUS") return;
  const std::string_view parameters = tag["topo_parameters"].value_or("");
  for (std::string_view rest = parameters; take_number(rest); rest.remove_prefix(1)) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.empty()) return;  // what else is wrong with them, SimGrid says
    if (rest[0] != ',') break;
  }
  refuse_at(xml, tag.line,
            fmt::format("topo_parameters=\"{:.60}\": no dimensions of a torus; allowed: whole numbers with "
                        "commas between them, as in \"4,4\"",
                        parameters));
}

/// SimGrid's own words for both name neither the value nor what is allowed.
void check_zone(const std::filesystem::path& xml, const Tag& tag) {
  static const std::vector<std::string> kinds = {"Cluster", "Dijkstra", "DijkstraCache", "Floyd",
                                                 "Full",    "None",     "Vivaldi",       "Wifi"};
  const std::optional<std::string_view> routing = tag["routing"];
  if (!routing) return;
  const auto is_routing = [&](const std::string& kind) {
    return std::ranges::equal(kind, *routing,
                              [](char a, char b) { return std::tolower(a) == std::tolower(b); });
  };
  if (std::ranges::any_of(kinds, is_routing)) return;
  refuse_at(xml, tag.line,
            fmt::format("routing=\"{:.60}\": unknown; allowed: {}", *routing, fmt::join(kinds, ", ")));
}

void check_version(const std::filesystem::path& xml, const Tag& tag) {
  const std::optional<std::string_view> version = tag["version"];
  double number = 0;
  if (version) std::from_chars(version->data(), version->data() + version->size(), number);
  if (number >= 4 && number <= 4.1) return;
  refuse_at(xml, tag.line,
            fmt::format("<platform>: {}; allowed: version=\"4\" or \"4.1\"",
                        version ? fmt::format("version=\"{:.60}\"", *version) : "no version"));
}

/// Adds its profiles to those of `file`. SimGrid refuses the other elements that would do more than say what
/// is there: <include>, <actor>, a DOCTYPE that is not its own, or one with entities.
void check_tag(const std::filesystem::path& xml, const Tag& tag, PlatformFile& file) {
  // It could write to any file, stop the program, and change the one network model and not the other.
  if (tag.name == "config") {
    refuse_at(xml, tag.line,
              "<config>: SimGrid's configuration is not the platform's; allowed: a platform without it");
  }
  // SimGrid writes past its 1,000 places for the attributes of open elements; a zone takes two.
  constexpr int kDepthMax = 100;
  if (tag.depth > kDepthMax) {
    refuse_at(
        xml, tag.line,
        fmt::format("<{:.100}> is {} elements deep; allowed: up to {}", tag.name, tag.depth, kDepthMax));
  }
  if (tag.name == "platform") check_version(xml, tag);
  if (tag.name == "zone" || tag.name == "AS") check_zone(xml, tag);
  check_topology(xml, tag);
  check_torus(xml, tag);
  const auto is_of_latencies = [](const Tag::Attribute& attribute) {
    return attribute.name == "latency_file" || (attribute.name == "kind" && attribute.value == "LATENCY");
  };
  // SimGrid tells nobody of their events, and aborts on one that is no number.
  if (std::ranges::any_of(tag.attributes, is_of_latencies)) {
    refuse_at(xml, tag.line, "it has a profile of latencies: not simulated; allowed: profiles of bandwidths");
  }
  if (tag.name == "trace") {
    refuse_values(xml, tag.content, tag.line);
    file.has_profiles = true;
  }
  for (const auto& [name, value] : tag.attributes) {
    if (name == "radical") check_radical(xml, tag.line, value);
    if (!name.ends_with("file")) continue;  // bandwidth_file=, state_file=, a trace's file=
    check_profile(xml, tag.line, value, file.profiles);
    file.has_profiles = true;
  }
}

}  // namespace

PlatformFile read_platform_file(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) refuse(file, "no such file");
  if (!std::filesystem::is_regular_file(file, ignored)) refuse(file, "not a file");
  if (access(file.c_str(), R_OK) != 0) refuse(file, "cannot be read");
  // SimGrid would execute a .so
  if (file.extension() != ".xml") refuse(file, "not a SimGrid platform (.xml)");

  const std::string text = text_of(file);
  PlatformFile platform;
  for (const Tag& tag : tags_of(text)) check_tag(file, tag, platform);
  return platform;
}

void try_platform(const std::filesystem::path& file, std::size_t nodes,
                  const std::function<PlatformTrial()>& load) {
  void* shared = mmap(nullptr, sizeof(Probe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error(fmt::format("mmap: {}", std::strerror(errno)));
  auto* probe = new (shared) Probe{};
  const Ended ended = run_in_child([&] { probe_platform(*probe, nodes, load); });
  const std::string why = probe->stage == Probe::Stage::kPassed ? std::string() : why_not(*probe, ended);
  munmap(shared, sizeof(Probe));
  if (!why.empty()) refuse(file, why);
}

std::string what_is_wrong_with(const s4u::Link& link) {
  const double bandwidth = link.get_bandwidth(), latency_s = link.get_latency();
  // Not "below or above": neither holds for NaN.
  if (!(bandwidth >= kBytesPerSecondMin && bandwidth <= kBytesPerSecondMax)) {
    return fmt::format("link '{:.100}' has a bandwidth of {:g} B/s; allowed: 1 kB/s to 1e15 B/s",
                       link.get_name(), bandwidth);
  }
  if (!(latency_s >= 0 && latency_s <= kLatencyMax_s)) {
    return fmt::format("link '{:.100}' has a latency of {:g} s; allowed: 0 to {:g} s", link.get_name(),
                       latency_s, kLatencyMax_s);
  }
  return {};
}

std::string what_is_wrong_with(const s4u::Host& host) {
  if (host.is_on()) return {};
  return fmt::format(
      "host '{:.100}' is off: not simulated; allowed: profiles that leave every node's host on",
      host.get_name());
}

}  // namespace verbtwin::sim
