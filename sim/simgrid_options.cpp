#include "sim/simgrid_options.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <xbt/log.h>
#include <simgrid/s4u.hpp>
#include <xbt/config.hpp>

#include "backend/user_error.hpp"
#include "sim/platform.hpp"
#include "sim/platform_words.hpp"
#include "sim/trial_child.hpp"

XBT_LOG_EXTERNAL_CATEGORY(root);

namespace verbtwin::sim {

namespace s4u = simgrid::s4u;

namespace {

constexpr rlim_t kTrialCpu_s = 2;

struct OwnSetting {
  std::string_view key, value;
  const char* why;
};

/// CM02 without cross-traffic and TCP window: a message takes its route's latency, then its share of the
/// bandwidth.
constexpr OwnSetting kOwn[] = {
    {"network/model", "CM02", "the others correct for TCP, which RDMA does not speak"},
    {"network/crosstraffic", "0", "both directions of a cable are links of their own"},
    {"network/TCP-gamma", "0", "RDMA has no TCP window"},
    {"surf/precision", "1e-12", "simulated time counts in picoseconds"},
    {"debug/clean-atexit", "no", "every simulation ends its engine itself"},
};

struct Told {
  std::vector<std::string> cfg, log;
};
Told told;  // of this process

/// In memory shared with the child.
struct Probe {
  bool passed;
  char message[16384];  // an unknown key is told all there are
};

[[noreturn]] void refuse(const char* flag, const std::string& value, const std::string& why) {
  throw UserError("", fmt::format("--{}={:.200}: {}", flag, value, why));
}

/// One message on the smallest network there is.
void send_one() {
  const std::unique_ptr<Platform> platform = Platform::star({.nodes = 2});
  s4u::CommPtr message = s4u::Comm::sendto_init(platform->host(0), platform->host(1))->set_payload_size(1000);
  message->start();
  s4u::Engine::get_instance()->run_until(1e-3);
}

/// What SimGrid objects to: what it throws, or what it writes before it ends the process; else nothing.
std::string objection_to(const Told& options) {
  const SharedWithChild<Probe> probe;
  const TrialEnd ended = try_in_child([&] {
    limit_cpu_time(kTrialCpu_s);
    told = options;
    try {
      send_one();
      probe->passed = true;
    } catch (const std::exception& error) {
      probe->message[std::string(error.what()).copy(probe->message, sizeof probe->message - 1)] = '\0';
    }
  });
  std::string why = probe->message;
  if (why.empty())
    why = ended.output.find("CRITICAL] ") == ended.output.npos ? ended.output : first_line(ended.output);
  if (ended.took_too_long) why = fmt::format("one message takes SimGrid more than {} s", kTrialCpu_s);
  if (probe->passed)
    why.clear();
  else if (why.empty())
    why = "SimGrid ends at it";
  return why;
}

/// An unknown key is told all that there are, a line each: "  network/optim: (string)Lazy".
std::string in_one_line(const std::string& objection) {
  constexpr std::string_view kUnknown = "Bad config key: ";
  std::istringstream lines(objection);
  std::string line, text, key;
  std::vector<std::string> keys;
  while (std::getline(lines, line)) {
    if (line.starts_with(kUnknown)) key = line.substr(kUnknown.size());
    if (const std::size_t end = line.find(": ("); line.starts_with("  ") && end != line.npos)
      keys.push_back(line.substr(2, end - 2));
    text += fmt::format("{}{}", text.empty() ? "" : " ", first_line(line));
  }
  if (key.empty()) return fmt::format("{:.600}", text);
  const std::string meant = did_you_mean(key, keys);
  return fmt::format("unknown key \"{:.100}\"{}", key,
                     meant.empty() ? "; allowed: those of SimGrid 3.32" : meant);
}

std::vector<std::string> words_of(const std::string& text, const char* separators) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(separators, begin)) != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

void check_own(const std::string& value) {
  for (const std::string& word : words_of(value, " \t\n,")) {
    const std::string key = word.substr(0, word.find(':'));
    const auto own = std::ranges::find(kOwn, key, &OwnSetting::key);
    if (own != std::end(kOwn))
      refuse("cfg", value, fmt::format("{} is {} in every simulation: {}", key, own->value, own->why));
  }
}

void add_categories(xbt_log_category_t category, std::vector<std::string>& names) {
  names.emplace_back(category->name);
  for (xbt_log_category_t child = category->firstChild; child != nullptr; child = child->nextSibling)
    add_categories(child, names);
}

/// SimGrid keeps what is said of a category that it does not know, in case one of that name comes.
void check_categories(const std::string& value) {
  std::vector<std::string> names;
  add_categories(&_XBT_LOGV(root), names);
  if (value.find_first_of("'\"") != value.npos) return;  // spaces in quotes separate nothing
  for (const std::string& word : words_of(value, " \t\n")) {
    const std::size_t dot = word.find('.');
    if (dot == word.npos) continue;  // no category's
    const std::string name = word.substr(0, dot);
    if (std::ranges::find(names, name) == names.end())
      refuse("log", value, fmt::format("unknown category \"{:.100}\"{}", name, did_you_mean(name, names)));
  }
}

void check_accepted(const char* flag, const std::string& value, const Told& options) {
  if (const std::string why = objection_to(options); !why.empty()) refuse(flag, value, in_one_line(why));
}

}  // namespace

void tell_simgrid(const std::vector<std::string>& cfg, const std::vector<std::string>& log) {
  for (const std::string& value : cfg) {
    check_own(value);
    check_accepted("cfg", value, {{value}, {}});
  }
  for (const std::string& value : log) {
    check_categories(value);
    check_accepted("log", value, {{}, {value}});
  }
  if (cfg.size() > 1) check_accepted("cfg", cfg.back(), {cfg, {}});  // behind the others
  told = {cfg, log};
}

const std::vector<std::string>& simgrid_cfg() {
  return told.cfg;
}

std::vector<std::string> simgrid_arguments() {
  std::vector<std::string> arguments = {"--log=root.thresh:critical"};
  for (const OwnSetting& own : kOwn) arguments.push_back(fmt::format("--cfg={}:{}", own.key, own.value));
  for (const std::string& value : told.cfg) arguments.push_back(fmt::format("--cfg={}", value));
  for (const std::string& value : told.log) arguments.push_back(fmt::format("--log={}", value));
  return arguments;
}

}  // namespace verbtwin::sim
