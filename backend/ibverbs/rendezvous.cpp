#include "backend/ibverbs/rendezvous.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <thread>

#include "backend/ibverbs/bytes.hpp"
#include "backend/ibverbs/hello.hpp"
#include "backend/ibverbs/link.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

/// What a rank says first. Fixed in size: nothing in it decides what memory is taken.
struct Hello {
  TokenText token{};
  std::array<char, 32> version{};
  std::uint64_t digest = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
};

std::uint32_t phase_number(std::string_view phase) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : phase) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

double seconds(std::chrono::milliseconds span) {
  return std::chrono::duration<double>(span).count();
}

}  // namespace

class Rendezvous::Hub {
 public:
  explicit Hub(const RendezvousOptions& options) : options_(options), acceptor_(io_) {
    links_.resize(static_cast<std::size_t>(options.ranks));
    if (options.rank == 0) {
      gather();
    } else {
      join();
    }
  }

  std::size_t ranks() const { return links_.size(); }
  const RendezvousOptions& options() const { return options_; }
  std::string local_address() const { return links_[0] ? links_[0]->local_address() : listening_at_; }

  ~Hub() {
    for (const auto& link : links_) {
      if (link) link->close();
    }
    io_.restart();
    io_.poll();
  }

  std::vector<std::string> exchange(std::string_view phase, std::vector<std::string> mine,
                                    Clock::time_point deadline) {
    const std::uint32_t number = phase_number(phase);
    if (options_.rank != 0) {
      links_[0]->send({Frame::Kind::kData, number, packed(mine)});
      await_frames(phase, deadline);
      return unpacked(take(0, phase));
    }
    await_frames(phase, deadline);
    std::vector<std::vector<std::string>> from(links_.size());
    from[0] = std::move(mine);
    for (std::size_t rank = 1; rank < links_.size(); ++rank) from[rank] = unpacked(take(rank, phase));
    for (std::size_t rank = 1; rank < links_.size(); ++rank) {
      std::vector<std::string> to;
      for (auto& pieces : from) to.push_back(std::move(pieces[rank]));
      links_[rank]->send({Frame::Kind::kData, number, packed(to)});
    }
    flush(deadline);
    std::vector<std::string> to;
    for (auto& pieces : from) to.push_back(std::move(pieces[0]));
    return to;
  }

  void check(std::string_view phase) {
    io_.restart();
    io_.poll();
    look_for_failure(phase);
  }

  void give_up(const std::string& why) {
    for (const auto& link : links_) {
      if (link && !link->lost()) link->send({Frame::Kind::kGiveUp, 0, why.substr(0, 1000)});
    }
    flush(Clock::now() + std::chrono::seconds(2));
  }

 private:
  struct Guest {  // connected, not yet known
    std::shared_ptr<Link> link;
    Clock::time_point deadline;
  };
  static constexpr std::size_t kGuestsMax = 64;

  std::string place() const { return fmt::format("--rendezvous {}:{}", options_.host, options_.port); }

  template <typename Done>
  bool wait(const Done& done, Clock::time_point deadline) {
    while (!done()) {
      if (Clock::now() >= deadline) return false;
      io_.restart();
      if (io_.run_one_until(std::min(deadline, Clock::now() + std::chrono::milliseconds(200))) == 0 &&
          io_.stopped()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    return true;
  }

  tcp::resolver::results_type resolve() {
    boost::system::error_code error;
    tcp::resolver resolver(io_);
    auto found = resolver.resolve(options_.host, std::to_string(options_.port), error);
    if (error) throw UserError("", fmt::format("{}: {}", place(), error.message()));
    return found;
  }

  Hello my_hello() const {
    return {token_text(options_.token), fixed_text<32>(options_.version), options_.digest, options_.rank,
            options_.ranks};
  }

  // ---- rank 0

  void gather() {
    if (options_.ranks == 1) return;
    const tcp::endpoint endpoint = *resolve().begin();
    listening_at_ = endpoint.address().to_string();
    boost::system::error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) throw UserError("", fmt::format("{}: cannot listen: {}", place(), error.message()));
    accept_next();
    const auto all_here = [this] {
      look_at_guests();
      return std::all_of(links_.begin() + 1, links_.end(), [](const auto& link) { return link != nullptr; });
    };
    if (!wait(all_here, Clock::now() + options_.timeout)) refuse_late();
    acceptor_.close(error);
    guests_.clear();
    for (std::size_t rank = 1; rank < links_.size(); ++rank) {
      links_[rank]->send({Frame::Kind::kWelcome, 0, ""});
    }
    flush(Clock::now() + options_.timeout);
  }

  [[noreturn]] void refuse_late() {
    std::vector<int> missing;
    for (std::size_t rank = 1; rank < links_.size(); ++rank) {
      if (!links_[rank]) missing.push_back(static_cast<int>(rank));
    }
    const std::string why = fmt::format("rank {} did not join within {:.0f} s{}", fmt::join(missing, ", "),
                                        seconds(options_.timeout), last_refusal_);
    give_up(why);
    throw UserError("", fmt::format("{}: {}", place(), why));
  }

  void accept_next() {
    acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error && guests_.size() < kGuestsMax) {
        socket.set_option(tcp::no_delay(true));
        auto link = std::make_shared<Link>(std::move(socket), sizeof(Hello));
        link->remember_address();
        link->start();
        guests_.push_back({std::move(link), Clock::now() + kHelloTimeout});
      }
      accept_next();
    });
  }

  void look_at_guests() {
    for (Guest& guest : guests_) {
      if (!guest.link->inbox().empty()) {
        greet(guest.link);
        guest.link = nullptr;
      } else if (guest.link->lost() || Clock::now() >= guest.deadline) {
        guest.link->close();
        guest.link = nullptr;
      }
    }
    std::erase_if(guests_, [](const Guest& guest) { return guest.link == nullptr; });
  }

  void greet(const std::shared_ptr<Link>& link) {
    const Frame frame = std::move(link->inbox().front());
    link->inbox().pop_front();
    Hello hello;
    const bool is_hello = frame.kind == Frame::Kind::kHello && frame.body.size() == sizeof hello;
    if (!is_hello) return link->close();
    std::memcpy(&hello, frame.body.data(), sizeof hello);
    hello.version.back() = '\0';
    if (!same_token(hello.token, token_text(options_.token))) {
      return refuse(link, "the token (VERBTWIN_TOKEN) is not this run's", "a wrong token");
    }
    if (std::string_view(hello.version.data()) != options_.version) {
      end_all(link, fmt::format("rank {} runs verbtwin {}, rank 0 runs {}", hello.rank, hello.version.data(),
                                options_.version));
    }
    if (hello.ranks != options_.ranks) {
      end_all(link, fmt::format("rank {} was told of {} ranks, rank 0 of {}", hello.rank, hello.ranks,
                                options_.ranks));
    }
    if (hello.digest != options_.digest) {
      end_all(link, fmt::format("rank {} runs another scenario than rank 0 ({:016x}, {:016x})", hello.rank,
                                hello.digest, options_.digest));
    }
    if (hello.rank < 1 || hello.rank >= options_.ranks || links_[static_cast<std::size_t>(hello.rank)]) {
      return refuse(link, fmt::format("there is a rank {} already", hello.rank),
                    fmt::format("a second rank {}", hello.rank));
    }
    link->admit();
    links_[static_cast<std::size_t>(hello.rank)] = link;
  }

  void refuse(const std::shared_ptr<Link>& link, const std::string& why, const std::string& what) {
    last_refusal_ = fmt::format("; {} from {} was refused", what, link->address());
    link->send({Frame::Kind::kRefused, 0, why});
    wait([&] { return link->sent_all(); }, Clock::now() + std::chrono::seconds(1));
    link->close();
  }

  /// This run cannot be: whoever has joined hears why.
  [[noreturn]] void end_all(const std::shared_ptr<Link>& link, const std::string& why) {
    refuse(link, why, "");
    give_up(why);
    throw UserError("", why);
  }

  // ---- the others

  void join() {
    const auto endpoints = resolve();
    const Clock::time_point deadline = Clock::now() + options_.timeout;
    boost::system::error_code error;
    for (;;) {
      tcp::socket socket(io_);
      asio::connect(socket, endpoints, error);
      if (!error) {
        socket.set_option(tcp::no_delay(true));
        links_[0] = std::make_shared<Link>(std::move(socket), Link::kDataMaxBytes);
        break;
      }
      if (Clock::now() >= deadline) {
        throw UserError("", fmt::format("{}: rank 0 does not answer within {:.0f} s ({})", place(),
                                        seconds(options_.timeout), error.message()));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    Link& link = *links_[0];
    link.start();
    const Hello hello = my_hello();
    link.send({Frame::Kind::kHello, 0, {reinterpret_cast<const char*>(&hello), sizeof hello}});
    const auto answered = [&] { return !link.inbox().empty() || link.lost(); };
    // Rank 0 waits for all; it tells when it gives up waiting.
    if (!wait(answered, deadline + kHelloTimeout) || link.inbox().empty()) {
      throw UserError("", fmt::format("{}: rank 0 does not answer as a verbtwin run", place()));
    }
    const Frame frame = std::move(link.inbox().front());
    link.inbox().pop_front();
    if (frame.kind != Frame::Kind::kWelcome) {
      throw UserError("", fmt::format("{}: {}", place(), frame.body.substr(0, 1000)));
    }
  }

  // ---- all

  /// Until every link has a frame; throws where one never will.
  void await_frames(std::string_view phase, Clock::time_point deadline) {
    const auto all_here = [&] {
      look_for_failure(phase);
      return std::all_of(links_.begin(), links_.end(),
                         [](const auto& link) { return link == nullptr || !link->inbox().empty(); });
    };
    if (wait(all_here, deadline)) return;
    for (std::size_t rank = 0; rank < links_.size(); ++rank) {
      if (links_[rank] && links_[rank]->inbox().empty()) {
        fail(fmt::format("rank {} was not heard of in time while {}", rank, phase));
      }
    }
  }

  void look_for_failure(std::string_view phase) {
    for (std::size_t rank = 0; rank < links_.size(); ++rank) {
      if (!links_[rank]) continue;
      const std::deque<Frame>& inbox = links_[rank]->inbox();
      if (!inbox.empty() && inbox.front().kind == Frame::Kind::kGiveUp) fail(inbox.front().body);
      if (inbox.empty() && links_[rank]->lost()) fail(fmt::format("rank {} was lost while {}", rank, phase));
    }
  }

  [[noreturn]] void fail(const std::string& why) {
    const std::string said = why;  // may be in an inbox
    if (options_.rank == 0) give_up(said);
    throw RankFailure(said);
  }

  std::string take(std::size_t rank, std::string_view phase) {
    Frame frame = std::move(links_[rank]->inbox().front());
    links_[rank]->inbox().pop_front();
    if (frame.kind != Frame::Kind::kData || frame.phase != phase_number(phase)) {
      fail(fmt::format("rank {} is not where rank {} is: {}", rank, options_.rank, phase));
    }
    return std::move(frame.body);
  }

  void flush(Clock::time_point deadline) {
    const auto all_sent = [this] {
      return std::all_of(links_.begin(), links_.end(),
                         [](const auto& link) { return link == nullptr || link->sent_all(); });
    };
    wait(all_sent, deadline);
  }

  std::string packed(const std::vector<std::string>& pieces) const {
    ByteWriter writer;
    for (const std::string& piece : pieces) writer.put_all(std::span<const char>(piece));
    return writer.take();
  }
  std::vector<std::string> unpacked(const std::string& body) const {
    ByteReader reader(body);
    std::vector<std::string> pieces;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const std::vector<char> piece = reader.get_all<char>();
      pieces.emplace_back(piece.begin(), piece.end());
    }
    return pieces;
  }

  RendezvousOptions options_;
  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::vector<Guest> guests_;
  std::string last_refusal_;
  std::string listening_at_;
  std::vector<std::shared_ptr<Link>> links_;  // by rank; of rank 0 all others, of another rank 0 only
};

Rendezvous::Rendezvous(const RendezvousOptions& options) : hub_(std::make_unique<Hub>(options)) {}
Rendezvous::~Rendezvous() = default;

std::vector<std::string> Rendezvous::exchange(std::string_view phase, std::vector<std::string> mine,
                                              std::chrono::milliseconds timeout) {
  return hub_->exchange(phase, std::move(mine), Clock::now() + timeout);
}

std::vector<std::string> Rendezvous::share(std::string_view phase, const std::string& mine,
                                           std::chrono::milliseconds timeout) {
  return exchange(phase, std::vector<std::string>(hub_->ranks(), mine), timeout);
}

void Rendezvous::check(std::string_view phase) {
  hub_->check(phase);
}

const RendezvousOptions& Rendezvous::options() const {
  return hub_->options();
}

std::string Rendezvous::local_address() const {
  return hub_->local_address();
}

void Rendezvous::give_up(const std::string& why) noexcept {
  try {
    hub_->give_up(why);
  } catch (const std::exception&) {
    // Nobody is left to be told.
  }
}

}  // namespace verbtwin::ibverbs
