#include "tools/run/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "scenarios/text.hpp"
#include "tools/console/text.hpp"

namespace verbtwin::tools {

namespace {

using nlohmann::json;

constexpr const char* kTransaction = "transaction";
constexpr const char* kVerb = "verb";
constexpr const char* kCore = "core";

/// As a JSON string, whatever bytes it has.
std::string as_json(std::string_view text) {
  return json(text).dump(-1, ' ', true, json::error_handler_t::replace);
}

/// In microseconds, to the picosecond.
std::string us(std::int64_t ps) {
  return fmt::format("{}.{:06}", ps / 1'000'000, ps % 1'000'000);
}

std::string peer_and_bytes(int peer, std::uint32_t bytes) {
  return (peer < 0 ? "" : fmt::format("\"peer\":{},", peer)) + fmt::format("\"bytes\":{}", bytes);
}

}  // namespace

Timeline::Timeline(std::filesystem::path file, std::string name, std::uint64_t events_max)
    : file_(std::move(file), OutputFile::Replaces::kPlain), name_(std::move(name)), events_max_(events_max) {
  text_ = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
}

WorkerPort& Timeline::wrap(WorkerPort& port) {
  const int node = port.node(), thread = port.thread();
  const auto name = [&](const char* what, const char* key, const std::string& value) {
    next();
    text_ += fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{\"{}\":{}}}}}",
                         node + 1, thread + 1, what, key, value);
  };
  if (thread == 0) {
    name("process_name", "name", fmt::format("\"node {}\"", node));
    name("process_sort_index", "sort_index", std::to_string(node));
  }
  name("thread_name", "name", fmt::format("\"worker {}\"", thread));

  Worker& worker = workers_[{node, thread}];
  worker.node = node;
  worker.thread = thread;
  Cpu& cpu = port.cpu();
  ObservedPort::Observer observer;
  observer.posted = [this, &worker, &cpu](const ObservedPort::Posted& list) {
    posted(worker, list, cpu.now_ps());
  };
  observer.taken = [this, &worker, &cpu](std::span<const WorkCompletion> completions, std::int64_t begin_ps) {
    taken(worker, completions, begin_ps, cpu.now_ps());
  };
  observer.published = [this, node](const QpAddress& address) { node_of_[address.qp_num] = node; };
  return ports_.emplace_back(port, std::move(observer));
}

void Timeline::posted(Worker& worker, const ObservedPort::Posted& posted, std::int64_t now_ps) {
  const auto is_signalled = [](const SendWr& wr) { return (wr.flags & kSignaled) != 0; };
  std::size_t unheard_of = posted.list.size();  // behind the last one that is signalled
  while (unheard_of > 0 && !is_signalled(posted.list[unheard_of - 1])) --unheard_of;
  std::shared_ptr<Slice> posting;
  if (unheard_of > 0)
    posting = std::make_shared<Slice>(Slice{"post", posted.begin_ps, now_ps, posted.list.size()});
  for (std::size_t i = 0; i < posted.list.size(); ++i) {
    const SendWr& wr = posted.list[i];
    Request request{wr.wr_id, wr.opcode, is_signalled(wr), wr.sge.length, posted.peer, posting};
    if (posted.queue_pair.type() == QpType::kUd) {
      const auto to = node_of_.find(wr.remote_qpn);
      if (to != node_of_.end()) request.peer = to->second;
    }
    if (i < unheard_of) {
      worker.requests[posted.queue_pair.address().qp_num].push_back(std::move(request));
    } else if (has_room(1, now_ps)) {
      instant(to_string(wr.opcode), worker, now_ps, peer_and_bytes(request.peer, request.bytes));
    }
  }
}

void Timeline::taken(Worker& worker, std::span<const WorkCompletion> completions, std::int64_t begin_ps,
                     std::int64_t now_ps) {
  Slice taking{"poll", begin_ps, now_ps, completions.size()};
  for (const WorkCompletion& wc : completions) {
    const bool known = wc.status == WcStatus::kSuccess;  // of others even what they completed is not
    if (known && (wc.opcode == WcOpcode::kRecv || wc.opcode == WcOpcode::kRecvRdmaWithImm)) {
      if (has_room(1, now_ps)) instant("recv", worker, now_ps, peer_and_bytes(-1, wc.byte_len));
      continue;
    }
    const auto queue = worker.requests.find(wc.qp_num);
    if (queue == worker.requests.end()) continue;
    // They complete in order. Signalled ones before this one were reset away.
    std::deque<Request>& requests = queue->second;
    const auto done = std::ranges::find_if(
        requests, [&](const Request& request) { return request.signalled && request.wr_id == wc.wr_id; });
    if (done == requests.end()) continue;
    for (auto request = requests.begin(); request != std::next(done); ++request) {
      if (request == done || !request->signalled) write_request(worker, *request, taking);
    }
    requests.erase(requests.begin(), std::next(done));
  }
}

void Timeline::write_request(const Worker& worker, const Request& request, Slice& taking) {
  if (taking.end_ps < window_begin_ps_) return;
  Slice& posting = *request.posting;
  const std::uint64_t slices = (posting.written ? 0U : 1U) + (taking.written ? 0U : 1U);
  const bool written = has_room(4 + slices, taking.end_ps);
  if (written) {
    const std::uint64_t id = ++last_id_;
    const std::string_view name = to_string(request.opcode);
    event("b", kVerb, id, name, worker, posting.end_ps,
          peer_and_bytes(request.peer, request.bytes) + fmt::format(",\"worker\":{}", worker.thread));
    event("e", kVerb, id, name, worker, taking.end_ps);
    if (!posting.written) write_slice(worker, posting);
    arrow("s", id, name, worker, posting);
    if (!taking.written) write_slice(worker, taking);
    arrow("f", id, name, worker, taking);
  }
  posting.written = taking.written = true;
}

void Timeline::write_slice(const Worker& worker, const Slice& slice) {
  begin_event("X", kCore, slice.name, worker, slice.begin_ps);
  text_ += fmt::format(",\"dur\":{}", us(slice.end_ps - slice.begin_ps));
  end_event(fmt::format("\"requests\":{}", slice.requests));
}

void Timeline::ended(const protocols::EndedAttempt& attempt) {
  const Worker& worker = workers_.at({attempt.node, attempt.thread});
  std::vector<Attempt>& attempts = workers_.at({attempt.node, attempt.thread}).attempts[attempt.coroutine];
  attempts.push_back({attempt.begin_ps,
                      attempt.end_ps,
                      {attempt.phases.begin(), attempt.phases.end()},
                      attempt.failed_in,
                      attempt.outcome});
  if (attempt.outcome != protocols::EndedAttempt::kCommitted &&
      attempt.outcome != protocols::EndedAttempt::kUserAbort)
    return;  // it is tried again
  write_transaction(worker, attempt, attempts);
  attempts.clear();
}

void Timeline::write_transaction(const Worker& worker, const protocols::EndedAttempt& last,
                                 const std::vector<Attempt>& attempts) {
  std::uint64_t events = 2;
  for (const Attempt& attempt : attempts) {
    const auto had = std::ranges::count_if(attempt.phases, [](const auto& phase) { return phase.ps > 0; });
    events += 2 + 2 * static_cast<std::uint64_t>(had) + (attempt.failed_in.empty() ? 0 : 2);
  }
  if (!has_room(events, last.end_ps)) return;

  const std::uint64_t id = ++last_id_;
  const auto both = [&](std::string_view name, std::int64_t begin_ps, std::int64_t end_ps) {
    event("b", kTransaction, id, name, worker, begin_ps);
    event("e", kTransaction, id, name, worker, end_ps);
  };
  event("b", kTransaction, id, last.transaction, worker, last.transaction_ps,
        fmt::format("\"outcome\":{},\"aborted_attempts\":{},\"worker\":{},\"coroutine\":{}",
                    as_json(last.outcome), attempts.size() - 1, worker.thread, last.coroutine));
  for (const Attempt& attempt : attempts) {
    event("b", kTransaction, id, "attempt", worker, attempt.begin_ps,
          fmt::format("\"outcome\":{}", as_json(attempt.outcome)));
    std::int64_t at_ps = attempt.begin_ps;
    for (const auto& [name, ps] : attempt.phases) {
      if (ps > 0) both(name, at_ps, at_ps + ps);
      at_ps += std::max<std::int64_t>(ps, 0);
    }
    if (!attempt.failed_in.empty()) both(attempt.failed_in, at_ps, attempt.end_ps);
    event("e", kTransaction, id, "attempt", worker, attempt.end_ps);
  }
  event("e", kTransaction, id, last.transaction, worker, last.end_ps);
}

bool Timeline::has_room(std::uint64_t events, std::int64_t now_ps) {
  if (now_ps < window_begin_ps_) return false;
  if (cut_ps_ < 0 && events_ + events > events_max_) cut_ps_ = now_ps;
  if (cut_ps_ >= 0) {
    left_out_ += events;
    return false;
  }
  events_ += events;
  return true;
}

void Timeline::next() {
  text_ += text_.ends_with('[') ? "\n" : ",\n";
}

void Timeline::event(std::string_view phase, const char* category, std::uint64_t id, std::string_view name,
                     const Worker& worker, std::int64_t at_ps, std::string_view arguments) {
  begin_event(phase, category, name, worker, at_ps);
  fmt::format_to(std::back_inserter(text_), ",\"id2\":{{\"local\":\"0x{:x}\"}}", id);
  end_event(arguments);
}

void Timeline::instant(std::string_view name, const Worker& worker, std::int64_t at_ps,
                       std::string_view arguments) {
  begin_event("i", kVerb, name, worker, at_ps);
  text_ += ",\"s\":\"t\"";
  end_event(arguments);
}

void Timeline::arrow(std::string_view phase, std::uint64_t id, std::string_view name, const Worker& worker,
                     const Slice& slice) {
  begin_event(phase, kVerb, name, worker, slice.begin_ps + (slice.end_ps - slice.begin_ps) / 2);
  fmt::format_to(std::back_inserter(text_), ",\"id\":\"0x{:x}\"", id);
  if (phase == "f") text_ += ",\"bp\":\"e\"";
  end_event();
}

void Timeline::begin_event(std::string_view phase, const char* category, std::string_view name,
                           const Worker& worker, std::int64_t at_ps) {
  next();
  fmt::format_to(std::back_inserter(text_),
                 "{{\"ph\":\"{}\",\"cat\":\"{}\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{}", phase,
                 category, as_json(name), worker.node + 1, worker.thread + 1, us(at_ps));
}

void Timeline::end_event(std::string_view arguments) {
  if (!arguments.empty()) fmt::format_to(std::back_inserter(text_), ",\"args\":{{{}}}", arguments);
  text_ += '}';
}

void Timeline::mark(std::string_view name, std::int64_t at_ps) {
  next();
  text_ +=
      fmt::format("{{\"ph\":\"i\",\"s\":\"g\",\"cat\":\"run\",\"name\":{},\"pid\":1,\"tid\":1,\"ts\":{}}}",
                  as_json(name), us(at_ps));
}

std::string Timeline::end() {
  mark("window begins", window_begin_ps_);
  mark("window ends", window_end_ps_);
  text_ +=
      fmt::format("\n], \"otherData\": {{\"scenario\": {}, \"window_begin_us\": {}, \"window_end_us\": {}",
                  as_json(name_), us(window_begin_ps_), us(window_end_ps_));
  text_ += fmt::format(", \"events\": {}, \"events_left_out\": {}", events_, left_out_);
  if (cut_ps_ >= 0) text_ += fmt::format(", \"cut_us\": {}", us(cut_ps_));
  text_ += "}}\n";
  file_.write(text_);
  file_.commit();
  if (cut_ps_ < 0) return {};
  return fmt::format("{} ends {} us into the window of {} us: it has {} events, and {} more are left out",
                     scenarios::one_line(file_.path().string()),
                     format_us(static_cast<double>(cut_ps_ - window_begin_ps_) / 1e6),
                     format_us(static_cast<double>(window_end_ps_ - window_begin_ps_) / 1e6),
                     format_count(events_), format_count(left_out_));
}

}  // namespace verbtwin::tools
