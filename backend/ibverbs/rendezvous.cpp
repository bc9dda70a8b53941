#include "backend/ibverbs/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend/ibverbs/bytes.hpp"
#include "backend/ibverbs/joining.hpp"
#include "backend/ibverbs/links.hpp"

namespace verbtwin::ibverbs {

namespace {

std::uint32_t phase_number(std::string_view phase) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : phase) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

std::string packed(const std::vector<std::string>& pieces) {
  ByteWriter writer;
  for (const std::string& piece : pieces) writer.put_text(piece);
  return writer.take();
}

std::vector<std::string> unpacked(const std::string& body, std::size_t ranks) {
  ByteReader reader(body);
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < ranks; ++i) pieces.push_back(reader.get_text());
  return pieces;
}

}  // namespace

Rendezvous::Rendezvous(const RendezvousOptions& options)
    : options_(options), links_(std::make_unique<Links>(options.rank, options.ranks, options.stop)) {
  if (options_.rank == 0) {
    reached_at_ = gather(options_, *links_);
  } else {
    join(options_, *links_);
  }
}

Rendezvous::~Rendezvous() = default;

std::string Rendezvous::local_address() const {
  const auto& link = (*links_)[0];
  return link ? link->local_address() : reached_at_;
}

std::vector<std::string> Rendezvous::exchange(std::string_view phase, std::vector<std::string> mine,
                                              std::chrono::milliseconds patience) {
  Links& links = *links_;
  const std::size_t ranks = links.ranks();
  const std::uint32_t number = phase_number(phase);
  if (options_.rank != 0) {
    links[0]->send({Frame::Kind::kData, number, packed(mine)});
    await_frames(phase, patience);
    return unpacked(take(0, phase), ranks);
  }
  await_frames(phase, patience);
  std::vector<std::vector<std::string>> from(ranks);
  from[0] = std::move(mine);
  for (std::size_t rank = 1; rank < ranks; ++rank) from[rank] = unpacked(take(rank, phase), ranks);
  const auto pieces_for = [&](std::size_t rank) {
    std::vector<std::string> to;
    for (auto& pieces : from) to.push_back(std::move(pieces[rank]));
    return to;
  };
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    links[rank]->send({Frame::Kind::kData, number, packed(pieces_for(rank))});
  }
  links.flush(patience);
  return pieces_for(0);
}

std::vector<std::string> Rendezvous::share(std::string_view phase, const std::string& mine,
                                           std::chrono::milliseconds patience) {
  return exchange(phase, std::vector<std::string>(links_->ranks(), mine), patience);
}

void Rendezvous::check(std::string_view phase) {
  links_->poll();
  take_news(phase);
}

void Rendezvous::check_meeting(std::string_view phase) {
  if (links_->stopped()) throw RankFailure("stopped while " + std::string(phase));
  check(phase);
}

void Rendezvous::tell_to_stop() {
  links_->send_to_all({Frame::Kind::kStop, 0, ""});
}

void Rendezvous::give_up(const std::string& why) noexcept {
  try {
    links_->give_up(why);
  } catch (const std::exception&) {
    // Nobody is left to be told.
  }
}

/// Until every link has a frame; throws where one never will.
void Rendezvous::await_frames(std::string_view phase, std::chrono::milliseconds patience) {
  Links& links = *links_;
  const auto all_here = [&] {
    take_news(phase);
    if (look_) look_(phase);
    return links.all([](const Link& link) { return !link.inbox().empty(); });
  };
  if (links.wait_while_moving(all_here, patience)) return;
  for (std::size_t rank = 0; rank < links.ranks(); ++rank) {
    if (links[rank] && links[rank]->inbox().empty()) {
      fail(fmt::format("rank {} was not heard of in time{} while {}", rank,
                       links.stopped() ? ", once stopped," : "", phase));
    }
  }
}

/// What is no answer to an exchange; throws for a failure.
void Rendezvous::take_news(std::string_view phase) {
  Links& links = *links_;
  for (std::size_t rank = 0; rank < links.ranks(); ++rank) {
    if (!links[rank]) continue;
    const std::deque<Frame>& inbox = links[rank]->inbox();
    while (!inbox.empty() && inbox.front().kind == Frame::Kind::kStop) {
      links[rank]->take_frame();
      told_to_stop_ = true;
    }
    const auto given_up =
        std::ranges::find_if(inbox, [](const Frame& frame) { return frame.kind == Frame::Kind::kGiveUp; });
    if (given_up != inbox.end()) fail(given_up->body);
    // Rank 0 may close behind its last answer; the others close when they have that.
    const bool may_have_ended = options_.rank != 0 && !inbox.empty();
    if (links[rank]->lost() && !may_have_ended) fail(fmt::format("rank {} was lost while {}", rank, phase));
  }
}

/// A copy: `why` may be in an inbox.
void Rendezvous::fail(std::string why) {
  if (options_.rank == 0) links_->give_up(why);
  throw RankFailure(why);
}

std::string Rendezvous::take(std::size_t rank, std::string_view phase) {
  Frame frame = (*links_)[rank]->take_frame();
  if (frame.kind != Frame::Kind::kData || frame.phase != phase_number(phase)) {
    fail(fmt::format("rank {} is not where rank {} is: {}", rank, options_.rank, phase));
  }
  return std::move(frame.body);
}

}  // namespace verbtwin::ibverbs
