// Rendezvous: where the ranks of a run meet, exchange what they must know of each other, and hear when one of
// them fails. Rank 0 listens, the others connect to it over TCP (Boost.Asio) and stay connected to the end.
//
// Owned by the run; one thread. Every rank calls the same exchanges in the same order; each blocks until all
// ranks are there or a time-out passes in which nothing has come or gone. Times in seconds.
//
// A run that is told to stop (`stop`) does not meet any more: who waits for others to join says so at once.
// Later, rank 0 waits for the others for 30 s more, and they follow rank 0. Whichever rank is told may tell
// the others (`tell_to_stop`), so that all measure the same time.
//
// Who may join: whoever knows the run's token, which travels by environment (VERBTWIN_TOKEN). Both sides show
// that they know it, without sending it (proof.hpp), before either takes anything else of the other; what
// follows is not encrypted: the network between the ranks is trusted as with MPI. Who joins must be the same
// program version on the same scenario. Before that, a peer can make this process read a few hundred bytes of
// fixed size, within kHelloTimeout; afterwards, a message is read as it comes, so that a length that lies
// takes no memory.
//
// Errors: what the user can mend (address, token, versions, numbers) throws UserError; a rank that is lost or
// gives up throws RankFailure, on every rank within seconds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbtwin::ibverbs {

class Links;

struct RendezvousOptions {
  int rank = 0;
  int ranks = 1;
  std::string host = "127.0.0.1";  // rank 0 listens there and nowhere else
  std::uint16_t port = 0;
  std::string token;
  std::string version;       // of the program
  std::uint64_t digest = 0;  // of the resolved scenario
  std::chrono::milliseconds timeout{60'000};
  const std::atomic<bool>* stop = nullptr;
};

/// A rank is gone or gave up: the run cannot go on.
class RankFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Rendezvous {
 public:
  static constexpr std::chrono::seconds kHelloTimeout{5};

  /// Returns when every rank has joined.
  explicit Rendezvous(const RendezvousOptions& options);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Piece i of `mine` goes to rank i; returns the pieces that the ranks had for this one, by rank. `phase`
  /// is what the run is doing, for messages, and must be the same everywhere.
  std::vector<std::string> exchange(std::string_view phase, std::vector<std::string> mine,
                                    std::chrono::milliseconds patience);

  /// The same piece for all: what every rank gave.
  std::vector<std::string> share(std::string_view phase, const std::string& mine,
                                 std::chrono::milliseconds patience);

  /// Throws RankFailure if a rank was lost or gave up; does not wait.
  void check(std::string_view phase);
  /// The same, and where the run is told to stop: for what else belongs to the meeting.
  void check_meeting(std::string_view phase);

  /// Called again and again by exchanges that wait, with their phase: what it throws ends them.
  void while_waiting(std::function<void(std::string_view phase)> look) { look_ = std::move(look); }

  /// This rank stops early; from rank 0 the others hear of it. Does not wait.
  void tell_to_stop();
  /// Another rank does, as check() or an exchange has heard.
  bool told_to_stop() const { return told_to_stop_; }

  const RendezvousOptions& options() const { return options_; }
  /// This machine's address towards the other ranks, in numbers.
  std::string local_address() const;

  /// Tells everybody that this rank gives up, and why, in one line; then only destruction is allowed.
  void give_up(const std::string& why) noexcept;

 private:
  void await_frames(std::string_view phase, std::chrono::milliseconds patience);
  void take_news(std::string_view phase);
  [[noreturn]] void fail(std::string why);
  std::string take(std::size_t rank, std::string_view phase);

  RendezvousOptions options_;
  std::unique_ptr<Links> links_;
  std::string reached_at_;  // rank 0
  bool told_to_stop_ = false;
  std::function<void(std::string_view)> look_;
};

}  // namespace verbtwin::ibverbs
