#include "tools/run/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "tools/tests/command_line_for_test.hpp"
#include "tools/tests/ramp_runs_for_test.hpp"
#include "tools/tests/runs_for_test.hpp"

namespace verbtwin::tools {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kBusy = R"({
  "name": "busy",
  "cluster": {"nodes": 3, "threads": 2, "coroutines": 4},
  "protocol": {"name": "drtmh"},
  "workload": {"name": "smallbank", "accounts_per_thread": 20},
  "run": {"warmup_us": 30, "measure_us": 100}
})";

/// A begin and its end.
struct Span {
  std::string name, category, inside;  // inside: the path of names above it
  int pid = 0, tid = 0;
  double begin_us = 0, end_us = 0;
  json arguments;
};

/// What a core does at one go, in picoseconds.
struct Slice {
  std::string name;
  std::int64_t begin_ps = 0, end_ps = 0;
  json arguments;
};

/// One end of an arrow.
struct End {
  std::string name, category;
  std::pair<int, int> track;
  std::int64_t at_ps = 0;
};

struct Arrow {
  std::vector<End> starts, ends;
};

struct Events {
  json file;
  std::vector<Span> spans;                                   // as they end
  std::map<std::pair<int, int>, std::vector<Slice>> slices;  // by track
  std::map<std::string, Arrow> arrows;                       // by id
  std::vector<json> instants;
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;

  double window_us(const char* end) const { return file.at("otherData").at(end).get<double>(); }
  /// As many as the file says it has.
  std::size_t count() const {
    std::size_t sum = 2 * spans.size() + instants.size() + 2 * arrows.size() - 2;  // the window's marks
    for (const auto& [track, of_it] : slices) sum += of_it.size();
    return sum;
  }
  bool measured(const Span& span) const {
    return span.end_us >= window_us("window_begin_us") && span.end_us < window_us("window_end_us");
  }
};

std::int64_t ps(const json& us) {
  return std::llround(us.get<double>() * 1e6);
}

/// The slice of this name that is open then; null: none.
const Slice* around(const std::vector<Slice>& slices, std::int64_t at_ps, const char* name) {
  const auto is_it = [&](const Slice& slice) {
    return slice.name == name && slice.begin_ps <= at_ps && at_ps <= slice.end_ps;
  };
  const auto found = std::ranges::find_if(slices, is_it);
  return found == slices.end() ? nullptr : &*found;
}

/// A core does one thing after the other. Every arrow has both ends, in this order and on one track, each
/// inside a slice: a viewer draws no other. Each request has one, from its posting to its completion.
void check_arrows(Events& events) {
  for (auto& [track, slices] : events.slices) {
    std::ranges::sort(slices, {}, [](const Slice& slice) { return std::pair(slice.begin_ps, slice.end_ps); });
    for (std::size_t i = 1; i < slices.size(); ++i)
      EXPECT_LE(slices[i - 1].end_ps, slices[i].begin_ps) << slices[i].name << " of " << track.second;
  }
  std::map<std::pair<int, int>, std::multiset<std::pair<std::int64_t, std::int64_t>>> drawn;
  for (const auto& [id, arrow] : events.arrows) {
    ASSERT_EQ(arrow.starts.size(), 1U) << id;
    ASSERT_EQ(arrow.ends.size(), 1U) << id;
    const End &start = arrow.starts.front(), &end = arrow.ends.front();
    EXPECT_EQ(start.name, end.name) << id;
    EXPECT_EQ(start.category, end.category) << id;
    EXPECT_EQ(start.track, end.track) << id;
    EXPECT_LE(start.at_ps, end.at_ps) << id;
    const Slice* posting = around(events.slices[start.track], start.at_ps, "post");
    const Slice* taking = around(events.slices[end.track], end.at_ps, "poll");
    ASSERT_TRUE(posting != nullptr && taking != nullptr) << id;
    drawn[start.track].emplace(posting->end_ps, taking->end_ps);
  }
  std::size_t requests = 0;
  for (const Span& span : events.spans) {
    if (span.category != "verb") continue;
    ++requests;
    const std::pair both{std::llround(span.begin_us * 1e6), std::llround(span.end_us * 1e6)};
    EXPECT_TRUE(drawn[std::pair(span.pid, span.tid)].contains(both)) << span.name << " at " << span.begin_us;
  }
  EXPECT_EQ(events.arrows.size(), requests);
}

/// Every begin has its end, later and of the same name; what is inside another ends before it; each is on a
/// thread that has a name. Events of one id are in order.
Events parsed(const std::string& text) {
  Events events;
  events.file = json::parse(text);
  std::map<std::pair<int, std::string>, std::vector<Span>> open;
  std::map<std::pair<int, std::string>, double> last_us;
  for (const json& event : events.file.at("traceEvents")) {
    const std::string phase = event.at("ph"), name = event.at("name");
    const int pid = event.at("pid"), tid = event.at("tid");
    if (phase == "M") {
      if (name == "process_name") events.processes[pid] = event.at("args").at("name");
      if (name == "thread_name") events.threads[{pid, tid}] = event.at("args").at("name");
      continue;
    }
    EXPECT_TRUE(event.value("s", "") == "g" || events.threads.contains({pid, tid})) << event;
    const double at_us = event.at("ts");
    if (phase == "i") {
      events.instants.push_back(event);
      continue;
    }
    if (phase == "X") {
      EXPECT_GE(event.at("dur"), 0) << event;
      events.slices[{pid, tid}].push_back(
          {name, ps(event.at("ts")), ps(event.at("ts")) + ps(event.at("dur")), event.at("args")});
      continue;
    }
    if (phase == "s" || phase == "f") {
      Arrow& arrow = events.arrows[event.at("id")];
      (phase == "s" ? arrow.starts : arrow.ends)
          .push_back({name, event.at("cat"), std::pair(pid, tid), ps(event.at("ts"))});
      EXPECT_EQ(event.value("bp", ""), phase == "f" ? "e" : "") << event;
      continue;
    }
    const std::pair id{pid, event.at("id2").at("local").get<std::string>()};
    EXPECT_GE(at_us, last_us[id]) << event;
    last_us[id] = at_us;
    std::vector<Span>& stack = open[id];
    if (phase == "b") {
      const std::string inside = stack.empty() ? "" : stack.back().inside + "/" + stack.back().name;
      stack.push_back(
          {name, event.at("cat"), inside, pid, tid, at_us, 0, event.value("args", json::object())});
      continue;
    }
    EXPECT_EQ(phase, "e") << event;
    if (stack.empty()) {
      ADD_FAILURE() << "ends without a begin: " << event;
      continue;
    }
    EXPECT_EQ(stack.back().name, name);
    EXPECT_EQ(stack.back().category, event.at("cat"));
    stack.back().end_us = at_us;
    events.spans.push_back(std::move(stack.back()));
    stack.pop_back();
  }
  for (const auto& [id, stack] : open) EXPECT_TRUE(stack.empty()) << id.second << " has no end";
  check_arrows(events);
  return events;
}

class TimelineTest : public CommandLine {
 protected:
  json traced(const char* scenario, const Overrides& overrides = {},
              std::uint64_t events_max = Timeline::kEventsMax) {
    Timeline timeline(file_, "a run", events_max);
    RunControl control;
    control.trace = &timeline;
    json result = run(scenario, overrides, control);
    left_out_ = timeline.end();
    return result;
  }

  fs::path file_ = directory_ / "t.json";
  std::string left_out_;
};

TEST_F(TimelineTest, HasEveryTransactionOfTheWindow) {
  const json result = traced(kBusy);
  EXPECT_EQ(without_simulator(result), without_simulator(run(kBusy))) << "looking on changes nothing";
  EXPECT_EQ(left_out_, "");
  const Events events = parsed(read_text(file_));
  EXPECT_EQ(events.processes, (std::map<int, std::string>{{1, "node 0"}, {2, "node 1"}, {3, "node 2"}}));
  EXPECT_EQ(events.threads.size(), 6U);
  EXPECT_EQ(events.threads.at({2, 1}), "worker 0");
  EXPECT_EQ(events.window_us("window_begin_us"), 30);
  EXPECT_EQ(events.window_us("window_end_us"), 130);

  std::map<std::string, std::uint64_t> committed, user_aborts, aborts, phases;
  std::uint64_t failures = 0, inside = 0;
  double committed_us = 0;
  for (const Span& span : events.spans) {
    if (span.category != "transaction" || !events.measured(span)) continue;
    if (span.inside.empty()) {
      failures += span.arguments.at("aborted_attempts").get<std::uint64_t>();
      const std::string outcome = span.arguments.at("outcome");
      if (outcome == "committed") committed_us += span.end_us - span.begin_us;
      ++(outcome == "committed" ? committed : user_aborts)[span.name];
    } else if (span.name == "attempt") {
      EXPECT_EQ(std::count(span.inside.begin(), span.inside.end(), '/'), 1) << span.inside;
      ++aborts[span.arguments.at("outcome")];
    } else {
      EXPECT_TRUE(span.inside.ends_with("/attempt")) << span.inside;
      ++phases[span.name];
      ++inside;
    }
  }
  std::uint64_t all = 0;
  for (const auto& [type, of] : result.at("transactions").items()) {
    EXPECT_EQ(committed[type], of.at("committed")) << type;
    EXPECT_EQ(user_aborts[type], of.at("user_aborts")) << type;
    all += of.at("committed").get<std::uint64_t>();
  }
  EXPECT_EQ(all, result.at("committed"));
  EXPECT_GT(all, 40U);
  EXPECT_NEAR(committed_us / static_cast<double>(all), result.at("latency_us").at("mean"), 1e-3);
  for (const auto& [reason, count] : result.at("aborts").items()) EXPECT_EQ(aborts[reason], count) << reason;
  EXPECT_EQ(aborts["committed"], all);
  EXPECT_GT(failures, 10U);
  for (const char* phase : {"execution", "validation", "logging", "commit"}) EXPECT_GT(phases[phase], 10U);
  EXPECT_EQ(phases.size(), 4U);
  EXPECT_GT(inside, all);
}

TEST_F(TimelineTest, HasEveryRequestOfTheWindow) {
  const json result = traced(kBusy, {"run.warmup_us=0"});
  const Events events = parsed(read_text(file_));
  std::map<std::string, std::uint64_t> verbs;
  for (const Span& span : events.spans) {
    if (span.category != "verb") continue;
    ++verbs[span.name];
    EXPECT_GE(span.end_us, span.begin_us);
    EXPECT_LT(span.end_us - span.begin_us, 50) << "that of another request";
    EXPECT_TRUE(span.arguments.at("peer") >= 0 && span.arguments.at("peer") < 3);
    EXPECT_GT(span.arguments.at("bytes"), 0);
  }
  EXPECT_GT(verbs["read"], 100U);
  EXPECT_GT(verbs["compare_swap"], 100U) << "unsignalled, with a READ behind";
  EXPECT_EQ(verbs["send"], 0U) << "whose end nobody hears of";
  for (const json& event : events.instants) {
    if (event.at("cat") == "verb") ++verbs[event.at("name")];
  }
  for (const char* verb : {"read", "write", "compare_swap", "send", "recv"}) {
    EXPECT_GE(verbs[verb], result.at("verbs").at(verb).at("count").get<std::uint64_t>()) << verb;
  }
}

TEST_F(TimelineTest, PointsFromAPostingToEachCompletionOfItsRequests) {
  traced(R"({
    "cluster": {"nodes": 2, "threads": 1},
    "workload": {"name": "primitive", "verb": "read", "doorbell_batch": 4, "outstanding": 8, "signal_interval": 2},
    "run": {"warmup_us": 0, "measure_us": 20}
  })");
  const Events events = parsed(read_text(file_));
  std::map<std::int64_t, std::size_t> from;  // by when the posting began
  for (const auto& [id, arrow] : events.arrows) {
    const End& start = arrow.starts.front();
    const Slice* posting = around(events.slices.at(start.track), start.at_ps, "post");
    EXPECT_EQ(posting->arguments.at("requests"), 4);
    EXPECT_GT(posting->end_ps, posting->begin_ps) << "what a core does takes time";
    if (start.track == std::pair(1, 1)) ++from[posting->begin_ps];
  }
  EXPECT_GT(from.size(), 10U);
  for (const auto& [begin_ps, arrows] : from) EXPECT_EQ(arrows, 4U) << begin_ps;
}

TEST_F(TimelineTest, IsTheSameForOneSeed) {
  traced(kBusy);
  const std::string text = read_text(file_);
  traced(kBusy);
  EXPECT_EQ(text, read_text(file_));
}

TEST_F(TimelineTest, EndsWhereItIsFullAndSaysSo) {
  traced(kBusy);
  const Events whole = parsed(read_text(file_));
  traced(kBusy, {}, 1000);
  const Events events = parsed(read_text(file_));
  const std::size_t kept = events.count(), all = whole.count();
  EXPECT_EQ(whole.file.at("otherData").at("events"), all);
  EXPECT_LE(kept, 1000U);
  EXPECT_GT(kept, 900U);
  const json& about = events.file.at("otherData");
  EXPECT_EQ(about.at("events"), kept);
  EXPECT_EQ(about.at("events_left_out"), all - kept);
  EXPECT_THAT(left_out_, StartsWith(file_.string() + " ends "));
  EXPECT_THAT(left_out_, HasSubstr(" us into the window of 100 us: it has "));
  for (const Span& span : events.spans) EXPECT_LE(span.end_us, about.at("cut_us").get<double>() + 1);
}

TEST_F(TimelineTest, HasProtocolsOfEveryKind) {
  for (const char* protocol : {"farm", "drtmr", "fasst", "fasst-occ"}) {
    SCOPED_TRACE(protocol);
    const std::string name = R"({"name": ")" + std::string(protocol) + R"("})";
    const json result = traced(kBusy, {"protocol=" + name});
    const Events events = parsed(read_text(file_));
    std::uint64_t committed = 0;
    for (const Span& span : events.spans) {
      if (span.inside.empty() && span.arguments.value("outcome", "") == "committed" && events.measured(span))
        ++committed;
    }
    EXPECT_EQ(committed, result.at("committed"));
  }
}

TEST_F(TimelineTest, HasTheRampFamilyAndMicroBenchmarks) {
  const json result =
      traced(kContended, {"protocol.name=s2pl", "protocol.transport=rdma_write", "run.measure_us=600"});
  Events events = parsed(read_text(file_));
  std::uint64_t committed = 0;
  std::map<std::string, std::uint64_t> phases;
  for (const Span& span : events.spans) {
    if (span.inside.empty() && span.arguments.value("outcome", "") == "committed" && events.measured(span))
      ++committed;
    if (span.inside.ends_with("/attempt")) ++phases[span.name];
  }
  EXPECT_EQ(committed, result.at("committed"));
  EXPECT_GT(committed, 10U);
  EXPECT_GT(phases["get"], 10U);

  traced(R"({
    "cluster": {"nodes": 2, "threads": 2},
    "workload": {"name": "primitive", "verb": "read"},
    "run": {"warmup_us": 10, "measure_us": 50}
  })");
  events = parsed(read_text(file_));
  EXPECT_GT(events.spans.size(), 20U);
  EXPECT_EQ(events.spans.front().name, "read");
}

TEST_F(TimelineTest, EscapesTheNameOfTheRun) {
  Timeline timeline(file_, "a \"name\"\\\n\x01\xff</script>");
  EXPECT_EQ(timeline.end(), "");
  EXPECT_EQ(parsed(read_text(file_)).file.at("otherData").at("scenario"),
            "a \"name\"\\\n\x01\xef\xbf\xbd</script>");
}

TEST_F(TimelineTest, IsWhatAFileOfThatNameGets) {
  const std::string named = write("named.json", edited(kSmall, "{", R"({"name": "a \"b\"",)"));
  const json result = json::parse(verbtwin({"run", named, "--json", "--trace", file_.string()}).out);
  EXPECT_EQ(without_simulator(result),
            without_simulator(json::parse(verbtwin({"run", named, "--json"}).out)));
  const Events events = parsed(read_text(file_));
  EXPECT_EQ(events.file.at("otherData").at("scenario"), "a \"b\"");
  EXPECT_EQ(events.file.at("otherData").at("events_left_out"), 0);
  EXPECT_GT(events.spans.size(), 1000U);

  EXPECT_THAT(refusal({"run", scenario_, "--trace", (directory_ / "no" / "t.json").string()}),
              StartsWith("--trace DIR/no/t.json: cannot be written: "));
  fs::create_directory(directory_ / "d.json");
  EXPECT_THAT(refusal({"run", scenario_, "--trace", (directory_ / "d.json").string()}),
              StartsWith("--trace DIR/d.json: cannot be written: Is a directory"));
  EXPECT_THAT(refusal({"run", scenario_, "--trace", file_, "--backend", "ibverbs", "--rank", "0"}),
              StartsWith("--trace is of simulated runs"));
}

TEST_F(TimelineTest, IsWholeWhereARunIsInterrupted) {
  write("t.json", "former");
  const fs::path out = directory_ / "out_stopped";
  ChildProcess child =
      start({"run", scenario_, "--set", "run.measure_us=1e6", "--out", out, "--trace", file_});
  for (int i = 0; i < 2000 && !fs::exists(out); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(read_text(file_), "former") << "not before it is whole";
  child.signal(SIGINT);
  EXPECT_EQ(child.wait(), 130) << child.err();
  const Events events = parsed(read_text(file_));
  EXPECT_GT(events.spans.size(), 100U);
  EXPECT_LT(events.window_us("window_end_us"), 1e6);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 5) << "no temporary file is left";
}

}  // namespace
}  // namespace verbtwin::tools
