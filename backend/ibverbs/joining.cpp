#include "backend/ibverbs/joining.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/system_error.hpp>
#include <cstring>
#include <future>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "backend/ibverbs/links.hpp"
#include "backend/ibverbs/proof.hpp"
#include "backend/ibverbs/reason.hpp"
#include "backend/ibverbs/rendezvous.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = Links::Clock;

/// What a rank says first. Fixed in size: nothing in it decides what memory is taken.
struct Hello {
  Nonce nonce{};
  std::array<char, 96> version{};
  std::uint64_t digest = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
};

// README.md tells how much a stranger can make a rank read: a header and a body twice, or once.
static_assert(sizeof(Hello) >= sizeof(Digest));
static_assert(2 * (Link::kHeaderBytes + sizeof(Hello)) == 336);
static_assert(Link::kHeaderBytes + sizeof(Challenge) == 88);

template <typename T>
Frame frame_of(Frame::Kind kind, const T& value) {
  return {kind, 0, std::string(bytes_of(value))};
}

/// False: it is none of them.
template <typename T>
bool read_frame(const Frame& frame, Frame::Kind kind, T& value) {
  if (frame.kind != kind || frame.body.size() != sizeof value) return false;
  std::memcpy(&value, frame.body.data(), sizeof value);
  return true;
}

double seconds(std::chrono::milliseconds span) {
  return std::chrono::duration<double>(span).count();
}

std::string place(const RendezvousOptions& options) {
  return fmt::format("--rendezvous {}:{}", options.host, options.port);
}

[[noreturn]] void stopped_early() {
  throw RankFailure("stopped before all ranks had joined");
}

using Endpoints = std::vector<tcp::endpoint>;

/// By a thread that a stop leaves behind: name servers may take long, and nothing ends getaddrinfo(3), so
/// that Asio's own thread, which is waited for, would hold the stop up.
Endpoints ask_for_addresses(const RendezvousOptions& options, const Links& links,
                            boost::system::error_code& error) {
  using Answer = std::pair<Endpoints, boost::system::error_code>;
  std::packaged_task<Answer()> ask([host = options.host, port = std::to_string(options.port)] {
    asio::io_context io;
    Answer answer;
    for (const auto& entry : tcp::resolver(io).resolve(host, port, answer.second))
      answer.first.push_back(entry.endpoint());
    return answer;
  });
  auto found = ask.get_future();
  std::thread(std::move(ask)).detach();
  while (found.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (links.stopped()) stopped_early();
  }
  Answer answer = found.get();
  error = answer.second;
  return std::move(answer.first);
}

/// A name server that many ranks ask at once may have to be asked again.
Endpoints resolve(const RendezvousOptions& options, const Links& links, Clock::time_point deadline) {
  constexpr std::chrono::milliseconds kPause{500};
  for (;;) {
    boost::system::error_code error;
    Endpoints found = ask_for_addresses(options, links, error);
    if (!error) return found;
    if (error != asio::error::host_not_found_try_again || Clock::now() + kPause >= deadline)
      throw UserError("", fmt::format("{}: {}", place(options), error.message()));
    std::this_thread::sleep_for(kPause);
  }
}

/// Rank 0's side. Shared with the handlers of its acceptors, which may be called when it is over.
class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  Gathering(const RendezvousOptions& options, Links& links) : options_(options), links_(links) {}

  void run() {
    const Closing closing{*this};
    listen();
    for (std::size_t i = 0; i < acceptors_.size(); ++i) accept_next(i);
    const auto over = [&] {
      look_at_guests();
      return links_.stopped() || missing().empty();
    };
    if (!links_.wait(over, Clock::now() + options_.timeout) || !missing().empty()) refuse_late();
  }

 private:
  struct Guest {  // connected, not yet known
    std::shared_ptr<Link> link;
    Clock::time_point deadline;
    bool challenged = false;  // it has said who it is
    Hello hello{};
    Nonce nonce{};  // what its proof is to be of
  };
  struct Closing {
    Gathering& gathering;
    ~Closing() {
      boost::system::error_code error;
      for (tcp::acceptor& acceptor : gathering.acceptors_) acceptor.close(error);
      for (const Guest& guest : gathering.guests_) guest.link->close();
    }
  };
  static constexpr std::size_t kStrangersMax = 128;

  /// Where others look for rank 0: at any address that the host's name has. Rank 0's own machine may know
  /// more or fewer of them than a name server tells the others.
  void listen() {
    std::string why_not;
    bool taken = false;  // by another one, whom others would meet there
    for (const tcp::endpoint& endpoint : places_to_listen()) {
      tcp::acceptor acceptor(links_.io());
      boost::system::error_code error;
      acceptor.open(endpoint.protocol(), error);
      if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
      if (!error) acceptor.bind(endpoint, error);
      if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
      if (!error) {
        acceptors_.push_back(std::move(acceptor));
        listening_at_.push_back(endpoint.address().to_string());
      } else if (!taken) {
        taken = error == asio::error::address_in_use;
        why_not = fmt::format("{} at {}", error.message(), endpoint.address().to_string());
      }
    }
    if (acceptors_.empty() || taken)
      throw UserError("", fmt::format("{}: cannot listen: {}", place(options_), why_not));
  }

  /// Debian gives a machine's own name 127.0.1.1, which no other machine reaches.
  Endpoints places_to_listen() const {
    Endpoints found = resolve(options_, links_, Clock::now() + options_.timeout);
    Endpoints reached;
    std::ranges::copy_if(found, std::back_inserter(reached),
                         [](const tcp::endpoint& e) { return !e.address().is_loopback(); });
    if (!reached.empty() && !means_this_machine()) return reached;
    found.resize(1);
    return found;
  }
  /// The host was given as a loopback address or "localhost".
  bool means_this_machine() const {
    boost::system::error_code no_number;
    const auto address = asio::ip::make_address(options_.host, no_number);
    return no_number ? options_.host == "localhost" : address.is_loopback();
  }
  std::string why_unreached() const {
    if (means_this_machine()) return "";
    boost::system::error_code no_number;
    const auto address = asio::ip::make_address(listening_at_.front(), no_number);
    if (!no_number && address.is_loopback()) {
      return fmt::format(
          "; {} is {} on rank 0's machine, which no other machine reaches: give --rendezvous "
          "with an address of its network",
          options_.host, listening_at_.front());
    }
    if (options_.host == listening_at_.front()) return "";
    return fmt::format("; {} is {} on rank 0's machine", options_.host, fmt::join(listening_at_, ", "));
  }

  std::vector<std::size_t> missing() const {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 1; rank < links_.ranks(); ++rank) {
      if (!links_[rank]) ranks.push_back(rank);
    }
    return ranks;
  }

  [[noreturn]] void refuse_late() {
    if (links_.stopped()) {
      const std::string why = fmt::format("stopped before rank {} had joined", fmt::join(missing(), ", "));
      links_.give_up(why);
      throw RankFailure(why);
    }
    const std::string why =
        fmt::format("rank {} did not join within {:.0f} s{}{}", fmt::join(missing(), ", "),
                    seconds(options_.timeout), last_refusal_, why_unreached());
    links_.give_up(why);
    throw UserError("", fmt::format("{}: {}", place(options_), why));
  }

  /// What the next attempt would fail for at once, too.
  static bool is_lack(const boost::system::error_code& error) {
    return error == asio::error::no_descriptors || error == asio::error::no_buffer_space ||
           error == asio::error::no_memory || error == boost::system::errc::too_many_files_open_in_system;
  }

  void accept_next(std::size_t i) {
    const auto accepted = [self = shared_from_this(), i](const boost::system::error_code& error,
                                                         tcp::socket socket) {
      if (!self->acceptors_[i].is_open()) return;
      if (is_lack(error)) throw UserError("", "no more TCP connections" + reason(error.value()));
      if (!error) self->welcome(std::move(socket));
      self->accept_next(i);
    };
    acceptors_[i].async_accept(accepted);
  }

  void welcome(tcp::socket socket) {
    if (guests_.size() >= links_.ranks() + kStrangersMax) make_room();
    auto link = std::make_shared<Link>(std::move(socket), sizeof(Hello));
    link->remember_address();
    link->start();
    guests_.push_back({std::move(link), Clock::now() + Rendezvous::kHelloTimeout});
  }

  /// The oldest goes of those that have said nothing: a rank speaks at once.
  void make_room() {
    auto gone = std::find_if(guests_.begin(), guests_.end(), [](const Guest& g) { return !g.challenged; });
    if (gone == guests_.end()) gone = guests_.begin();
    turn_away(*gone);
    guests_.erase(gone);
  }

  void look_at_guests() {
    std::vector<Guest> known;
    for (Guest& guest : guests_) {
      if (guest.link->inbox().empty()) {
        if (guest.link->lost() || Clock::now() >= guest.deadline) turn_away(guest);
      } else if (const Frame frame = guest.link->take_frame(); !guest.challenged) {
        if (!challenge(guest, frame)) turn_away(guest);
      } else if (is_proof_of(guest, frame)) {
        known.push_back(std::move(guest));
      } else {
        turn_away(guest);
      }
    }
    std::erase_if(guests_, [](const Guest& guest) { return guest.link == nullptr; });
    // No longer among the guests: seating one may end the run, and that lets others in.
    for (Guest& guest : known) seat(guest.link, guest.hello);
  }

  void turn_away(Guest& guest) {
    // One that left when it was challenged has another token; of others the first is told.
    if (guest.challenged || last_refusal_.empty()) {
      last_refusal_ = fmt::format("; {} from {} was refused",
                                  guest.challenged ? "a wrong token" : "a stranger", guest.link->address());
    }
    guest.link->close();
    guest.link = nullptr;
  }

  bool challenge(Guest& guest, const Frame& frame) {
    if (!read_frame(frame, Frame::Kind::kHello, guest.hello)) return false;
    const Challenge challenge = challenge_for(Side::kRankZero, options_.token, bytes_of(guest.hello));
    guest.challenged = true;
    guest.nonce = challenge.nonce;
    guest.link->send(frame_of(Frame::Kind::kChallenge, challenge));
    return true;
  }

  bool is_proof_of(const Guest& guest, const Frame& frame) const {
    Digest shown{};
    return read_frame(frame, Frame::Kind::kProof, shown) &&
           same_digest(shown, proof(Side::kJoining, options_.token, bytes_of(guest.hello), guest.nonce));
  }

  void seat(std::shared_ptr<Link> link, Hello hello) {
    hello.version.back() = '\0';
    if (std::string_view(hello.version.data()) != options_.version) {
      end_all(link,
              fmt::format("rank {} runs verbtwin {}, rank 0 runs {}; allowed: one program on all machines",
                          hello.rank, hello.version.data(), options_.version));
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
    if (!in_range || is_here(static_cast<std::size_t>(hello.rank))) {
      return refuse(link, fmt::format("there is a rank {} already", hello.rank),
                    fmt::format("a second rank {}", hello.rank));
    }
    link->admit();
    links_[static_cast<std::size_t>(hello.rank)] = std::move(link);
  }

  /// Who was lost before all had met may join again.
  bool is_here(std::size_t rank) const { return links_[rank] != nullptr && !links_[rank]->lost(); }

  void refuse(const std::shared_ptr<Link>& link, const std::string& why, const std::string& what) {
    last_refusal_ = fmt::format("; {} from {} was refused", what, link->address());
    link->send({Frame::Kind::kRefused, 0, why});
    link->close_when_sent();
  }

  /// This run cannot be: whoever has joined hears why.
  [[noreturn]] void end_all(const std::shared_ptr<Link>& link, const std::string& why) {
    refuse(link, why, "");
    links_.wait([&] { return link->lost(); }, Clock::now() + std::chrono::seconds(1));
    links_.give_up(why);
    throw UserError("", why);
  }

  const RendezvousOptions& options_;
  Links& links_;
  std::vector<tcp::acceptor> acceptors_;
  std::vector<std::string> listening_at_;  // their addresses
  std::vector<Guest> guests_;
  std::string last_refusal_;
};

/// The side of every other rank.
class Joining {
 public:
  Joining(const RendezvousOptions& options, Links& links)
      : options_(options), links_(links), deadline_(Clock::now() + options.timeout) {}

  void run() {
    const Endpoints endpoints = resolve(options_, links_, deadline_);
    while (!ask(endpoints)) {
      // Hung up on before any answer: rank 0 has gone, or strangers keep it busy.
      if (Clock::now() >= deadline_) no_answer();
      pause();
    }
    const Frame frame = links_[0]->take_frame();
    if (frame.kind == Frame::Kind::kRefused || frame.kind == Frame::Kind::kGiveUp)
      throw UserError("", fmt::format("{}: {}", place(options_), frame.body.substr(0, 1000)));
    if (frame.kind != Frame::Kind::kWelcome) no_answer();
  }

 private:
  /// True: it is rank 0, and has said whether this rank is welcome.
  bool ask(const Endpoints& endpoints) {
    while (const boost::system::error_code error = connect(endpoints)) {
      if (Clock::now() >= deadline_) {
        throw UserError("", fmt::format("{}: rank 0 does not answer within {:.0f} s ({})", place(options_),
                                        seconds(options_.timeout), error.message()));
      }
      pause();
    }
    Link& link = *links_[0];
    link.start();
    const Hello hello = {random_value<Nonce>(), fixed_text<96>(options_.version), options_.digest,
                         options_.rank, options_.ranks};
    link.send(frame_of(Frame::Kind::kHello, hello));
    if (!hears(link)) return false;
    Challenge challenge;
    if (!read_frame(link.take_frame(), Frame::Kind::kChallenge, challenge)) no_answer();
    const auto proof_of = [&](Side side) {
      return proof(side, options_.token, bytes_of(hello), challenge.nonce);
    };
    if (!same_digest(challenge.proof, proof_of(Side::kRankZero))) {
      throw UserError("", fmt::format("{}: the token (VERBTWIN_TOKEN) is not this run's", place(options_)));
    }
    link.admit();
    link.send(frame_of(Frame::Kind::kProof, proof_of(Side::kJoining)));
    return hears(link);
  }

  /// False: hung up on.
  bool hears(const Link& link) {
    const auto over = [&] { return links_.stopped() || !link.inbox().empty() || link.lost(); };
    // Rank 0 waits for all; it tells when it gives up waiting.
    if (!links_.wait(over, deadline_ + Rendezvous::kHelloTimeout)) no_answer();
    throw_if_stopped();
    return !link.inbox().empty();
  }

  /// At one address after the other: the next may be reached where one is not answered from.
  boost::system::error_code connect(const Endpoints& endpoints) {
    boost::system::error_code error = asio::error::host_unreachable;
    for (const tcp::endpoint& endpoint : endpoints) {
      error = connect(endpoint);
      if (!error || Clock::now() >= deadline_) break;
    }
    return error;
  }
  boost::system::error_code connect(const tcp::endpoint& endpoint) {
    constexpr std::chrono::seconds kAddressTimeout{3};
    struct Attempt {
      tcp::socket socket;
      bool over = false;
      boost::system::error_code error;
    };
    const auto attempt = std::make_shared<Attempt>(Attempt{tcp::socket(links_.io()), false, {}});
    attempt->socket.async_connect(endpoint, [attempt](const boost::system::error_code& error) {
      attempt->over = true;
      attempt->error = error;
    });
    const auto limit = std::min(deadline_, Clock::now() + kAddressTimeout);
    if (!links_.wait([&] { return links_.stopped() || attempt->over; }, limit)) {
      boost::system::error_code ignored;
      attempt->socket.close(ignored);
      return asio::error::timed_out;
    }
    throw_if_stopped();
    if (!attempt->error && is_to_itself(attempt->socket)) return asio::error::connection_refused;
    if (!attempt->error) links_[0] = std::make_shared<Link>(std::move(attempt->socket), sizeof(Challenge));
    return attempt->error;
  }

  /// Where nobody listens at a port that systems give away, a connection may be given that very port: TCP
  /// then connects it to itself, and it would hear its own words.
  static bool is_to_itself(const tcp::socket& socket) {
    boost::system::error_code gone;
    const tcp::endpoint here = socket.local_endpoint(gone);
    return !gone && here == socket.remote_endpoint(gone);
  }

  /// Between two attempts.
  void pause() {
    links_.wait([this] { return links_.stopped(); }, Clock::now() + std::chrono::milliseconds(100));
    throw_if_stopped();
  }

  void throw_if_stopped() const {
    if (links_.stopped()) stopped_early();
  }

  [[noreturn]] void no_answer() const {
    throw UserError("", fmt::format("{}: rank 0 does not answer as a verbtwin run", place(options_)));
  }

  const RendezvousOptions& options_;
  Links& links_;
  const Clock::time_point deadline_;
};

}  // namespace

std::string gather(const RendezvousOptions& options, Links& links) {
  if (options.ranks == 1) return "";
  std::make_shared<Gathering>(options, links)->run();
  for (std::size_t rank = 1; rank < links.ranks(); ++rank) links[rank]->send({Frame::Kind::kWelcome, 0, ""});
  links.flush(options.timeout);
  return links[1]->local_address();
}

void join(const RendezvousOptions& options, Links& links) {
  Joining(options, links).run();
}

}  // namespace verbtwin::ibverbs
