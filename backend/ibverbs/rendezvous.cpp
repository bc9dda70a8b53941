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
                                    std::chrono::milliseconds patience) {
    const std::uint32_t number = phase_number(phase);
    if (options_.rank != 0) {
      links_[0]->send({Frame::Kind::kData, number, packed(mine)});
      await_frames(phase, patience);
      return unpacked(take(0, phase));
    }
    await_frames(phase, patience);
    std::vector<std::vector<std::string>> from(links_.size());
    from[0] = std::move(mine);
    for (std::size_t rank = 1; rank < links_.size(); ++rank) from[rank] = unpacked(take(rank, phase));
    for (std::size_t rank = 1; rank < links_.size(); ++rank) {
      std::vector<std::string> to;
      for (auto& pieces : from) to.push_back(std::move(pieces[rank]));
      links_[rank]->send({Frame::Kind::kData, number, packed(to)});
    }
    flush(patience);
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
    flush(std::chrono::seconds(2));
  }

 private:
  struct Guest {  // connected, not yet known
    std::shared_ptr<Link> link;
    Clock::time_point deadline;
  };
  static constexpr std::size_t kGuestsMax = 64;
  /// How long rank 0 waits for the others once it has been told to stop: transactions that are under way may
  /// take 10 s to end, and then there are reports to make.
  static constexpr std::chrono::seconds kStopPatience{30};

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

  /// The same, but time in which bytes move does not count.
  template <typename Done>
  bool wait_while_moving(const Done& done, std::chrono::milliseconds patience) {
    for (Clock::time_point since = Clock::now();;) {
      const std::uint64_t before = moved_b();
      const auto moved = [&] { return done() || moved_b() != before; };
      const bool hurried = options_.rank == 0 && stopped();
      const auto limit = hurried ? std::min<std::chrono::milliseconds>(patience, kStopPatience) : patience;
      // In steps, so that a stop is seen.
      const bool ended = wait(moved, std::min(since + limit, Clock::now() + std::chrono::milliseconds(200)));
      if (done()) return true;
      if (ended) since = Clock::now();
      if (Clock::now() >= since + limit) return false;
    }
  }

  std::uint64_t moved_b() const {
    std::uint64_t sum = 0;
    for (const auto& link : links_) sum += link ? link->moved_b() : 0;
    return sum;
  }

  bool stopped() const { return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed); }

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
    const tcp::endpoint endpoint = place_to_listen();
    listening_at_ = endpoint.address().to_string();
    boost::system::error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) throw UserError("", fmt::format("{}: cannot listen: {}", place(), error.message()));
    accept_next();
    const auto all_here = [this] {
      return std::all_of(links_.begin() + 1, links_.end(), [](const auto& link) { return link != nullptr; });
    };
    const auto over = [&] {
      look_at_guests();
      return stopped() || all_here();
    };
    if (!wait(over, Clock::now() + options_.timeout) || !all_here()) refuse_late();
    acceptor_.close(error);
    guests_.clear();
    for (std::size_t rank = 1; rank < links_.size(); ++rank) {
      links_[rank]->send({Frame::Kind::kWelcome, 0, ""});
    }
    flush(options_.timeout);
  }

  /// Of the addresses that the host's name has here, one that other machines reach too, if there is one:
  /// Debian gives a machine's own name 127.0.1.1.
  tcp::endpoint place_to_listen() {
    const auto found = resolve();
    const auto reached = [](const auto& entry) { return !entry.endpoint().address().is_loopback(); };
    const auto chosen = std::find_if(found.begin(), found.end(), reached);
    return chosen == found.end() || means_this_machine() ? found.begin()->endpoint() : chosen->endpoint();
  }
  /// The host was given as a loopback address or "localhost".
  bool means_this_machine() const {
    boost::system::error_code no_number;
    const auto address = asio::ip::make_address(options_.host, no_number);
    return no_number ? options_.host == "localhost" : address.is_loopback();
  }
  std::string why_unreached() const {
    boost::system::error_code no_number;
    const auto address = asio::ip::make_address(listening_at_, no_number);
    if (no_number || !address.is_loopback() || means_this_machine()) return "";
    return fmt::format(
        "; {} is {} on rank 0's machine, which no other machine reaches: give --rendezvous "
        "with an address of its network",
        options_.host, listening_at_);
  }

  [[noreturn]] void refuse_late() {
    std::vector<int> missing;
    for (std::size_t rank = 1; rank < links_.size(); ++rank) {
      if (!links_[rank]) missing.push_back(static_cast<int>(rank));
    }
    if (stopped()) {
      const std::string why = fmt::format("stopped before rank {} had joined", fmt::join(missing, ", "));
      give_up(why);
      throw RankFailure(why);
    }
    const std::string why = fmt::format("rank {} did not join within {:.0f} s{}{}", fmt::join(missing, ", "),
                                        seconds(options_.timeout), last_refusal_, why_unreached());
    give_up(why);
    throw UserError("", fmt::format("{}: {}", place(), why));
  }

  /// Who does not fit waits in the system's queue until a guest has left.
  void accept_next() {
    accepting_ = guests_.size() < kGuestsMax;
    if (!accepting_) return;
    acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error) {
        auto link = std::make_shared<Link>(std::move(socket), sizeof(Hello));
        link->remember_address();
        link->start();
        guests_.push_back({std::move(link), Clock::now() + kHelloTimeout});
      }
      accept_next();
    });
  }

  void look_at_guests() {
    std::vector<std::shared_ptr<Link>> ready;
    for (Guest& guest : guests_) {
      if (!guest.link->inbox().empty()) {
        ready.push_back(std::move(guest.link));
      } else if (guest.link->lost() || Clock::now() >= guest.deadline) {
        guest.link->close();
        guest.link = nullptr;
      }
    }
    std::erase_if(guests_, [](const Guest& guest) { return guest.link == nullptr; });
    // No longer among the guests: greeting one may end the run, and that lets others in.
    for (const auto& link : ready) greet(link);
    if (!accepting_) accept_next();
  }

  void greet(std::shared_ptr<Link> link) {
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
    const bool in_range = hello.rank >= 1 && hello.rank < options_.ranks;
    if (!in_range || is_here(hello.rank)) {
      return refuse(link, fmt::format("there is a rank {} already", hello.rank),
                    fmt::format("a second rank {}", hello.rank));
    }
    link->admit();
    links_[static_cast<std::size_t>(hello.rank)] = std::move(link);
  }

  /// Who was lost before all had met may join again.
  bool is_here(int rank) const {
    const auto& link = links_[static_cast<std::size_t>(rank)];
    return link != nullptr && !link->lost();
  }

  void refuse(const std::shared_ptr<Link>& link, const std::string& why, const std::string& what) {
    last_refusal_ = fmt::format("; {} from {} was refused", what, link->address());
    link->send({Frame::Kind::kRefused, 0, why});
    link->close_when_sent();
  }

  /// This run cannot be: whoever has joined hears why.
  [[noreturn]] void end_all(const std::shared_ptr<Link>& link, const std::string& why) {
    refuse(link, why, "");
    wait([&] { return link->lost(); }, Clock::now() + std::chrono::seconds(1));
    give_up(why);
    throw UserError("", why);
  }

  // ---- the others

  void join() {
    const auto endpoints = resolve();
    const Clock::time_point deadline = Clock::now() + options_.timeout;
    while (!ask_to_join(endpoints, deadline)) {
      // Hung up on before any answer: rank 0 has gone, or strangers keep it busy.
      if (Clock::now() >= deadline) no_answer();
      pause();
    }
    const Frame frame = std::move(links_[0]->inbox().front());
    links_[0]->inbox().pop_front();
    if (frame.kind != Frame::Kind::kWelcome) {
      throw UserError("", fmt::format("{}: {}", place(), frame.body.substr(0, 1000)));
    }
  }

  /// True: rank 0 has said something.
  bool ask_to_join(const tcp::resolver::results_type& endpoints, Clock::time_point deadline) {
    for (;;) {
      const boost::system::error_code error = connect_to_hub(endpoints, deadline);
      if (!error) break;
      if (Clock::now() >= deadline) {
        throw UserError("", fmt::format("{}: rank 0 does not answer within {:.0f} s ({})", place(),
                                        seconds(options_.timeout), error.message()));
      }
      pause();
    }
    Link& link = *links_[0];
    link.start();
    const Hello hello = my_hello();
    link.send({Frame::Kind::kHello, 0, {reinterpret_cast<const char*>(&hello), sizeof hello}});
    const auto over = [&] { return stopped() || !link.inbox().empty() || link.lost(); };
    // Rank 0 waits for all; it tells when it gives up waiting.
    if (!wait(over, deadline + kHelloTimeout)) no_answer();
    throw_if_stopped();
    return !link.inbox().empty();
  }

  boost::system::error_code connect_to_hub(const tcp::resolver::results_type& endpoints,
                                           Clock::time_point deadline) {
    struct Attempt {
      tcp::socket socket;
      bool over = false;
      boost::system::error_code error;
    };
    const auto attempt = std::make_shared<Attempt>(Attempt{tcp::socket(io_), false, {}});
    asio::async_connect(attempt->socket, endpoints,
                        [attempt](const boost::system::error_code& error, const tcp::endpoint&) {
                          attempt->over = true;
                          attempt->error = error;
                        });
    if (!wait([&] { return stopped() || attempt->over; }, deadline)) return asio::error::timed_out;
    throw_if_stopped();
    if (!attempt->error) links_[0] = std::make_shared<Link>(std::move(attempt->socket), Link::kDataMaxBytes);
    return attempt->error;
  }

  /// Between two attempts.
  void pause() {
    wait([this] { return stopped(); }, Clock::now() + std::chrono::milliseconds(100));
    throw_if_stopped();
  }

  void throw_if_stopped() const {
    if (stopped()) throw RankFailure("stopped before all ranks had joined");
  }

  [[noreturn]] void no_answer() const {
    throw UserError("", fmt::format("{}: rank 0 does not answer as a verbtwin run", place()));
  }

  // ---- all

  /// Until every link has a frame; throws where one never will.
  void await_frames(std::string_view phase, std::chrono::milliseconds patience) {
    const auto all_here = [&] {
      look_for_failure(phase);
      return std::all_of(links_.begin(), links_.end(),
                         [](const auto& link) { return link == nullptr || !link->inbox().empty(); });
    };
    if (wait_while_moving(all_here, patience)) return;
    for (std::size_t rank = 0; rank < links_.size(); ++rank) {
      if (links_[rank] && links_[rank]->inbox().empty()) {
        fail(fmt::format("rank {} was not heard of in time{} while {}", rank,
                         stopped() ? ", once stopped," : "", phase));
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

  void flush(std::chrono::milliseconds patience) {
    const auto all_sent = [this] {
      return std::all_of(links_.begin(), links_.end(),
                         [](const auto& link) { return link == nullptr || link->sent_all(); });
    };
    wait_while_moving(all_sent, patience);
  }

  std::string packed(const std::vector<std::string>& pieces) const {
    ByteWriter writer;
    for (const std::string& piece : pieces) writer.put_text(piece);
    return writer.take();
  }
  std::vector<std::string> unpacked(const std::string& body) const {
    ByteReader reader(body);
    std::vector<std::string> pieces;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      pieces.push_back(reader.get_text());
    }
    return pieces;
  }

  RendezvousOptions options_;
  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::vector<Guest> guests_;
  bool accepting_ = false;
  std::string last_refusal_;
  std::string listening_at_;
  std::vector<std::shared_ptr<Link>> links_;  // by rank; of rank 0 all others, of another rank 0 only
};

Rendezvous::Rendezvous(const RendezvousOptions& options) : hub_(std::make_unique<Hub>(options)) {}
Rendezvous::~Rendezvous() = default;

std::vector<std::string> Rendezvous::exchange(std::string_view phase, std::vector<std::string> mine,
                                              std::chrono::milliseconds patience) {
  return hub_->exchange(phase, std::move(mine), patience);
}

std::vector<std::string> Rendezvous::share(std::string_view phase, const std::string& mine,
                                           std::chrono::milliseconds patience) {
  return exchange(phase, std::vector<std::string>(hub_->ranks(), mine), patience);
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
