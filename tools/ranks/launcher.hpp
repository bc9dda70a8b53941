// launch_ranks(): starts the processes of a real run, watches over them and ends them together.
//
// Blocks; one thread. Every child is in a process group of its own and dies with this process. When this
// process gets SIGINT, SIGTERM or SIGHUP, a rank here gets the same, and the input of one over ssh ends,
// which has its run stopped there while ssh brings the result. What ranks above 0 write to standard error is
// shown only where rank 0 has nothing to say: rank 0 hears of every failure through the rendezvous. Where ssh
// reached no rank or found nothing to run there, that is the one line that is shown, with rank and host.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/console/stop_signals.hpp"

namespace verbtwin::tools {

struct RankCommand {
  std::vector<std::string> arguments;  // the program first, looked up in PATH
  std::string token_on_input;          // written to its standard input, which then stays open; or empty
  int output = -1, errors = -1;        // descriptors for what it writes; -1: this process's
  std::string host{};                  // where ssh is to run it; or empty
};

/// One host a line; what follows a # is a comment. Throws UserError for what cannot be read, or names no
/// host.
std::vector<std::string> read_hosts(const std::string& file);

/// 16 random bytes in hexadecimal. Throws std::system_error where the system has none.
std::string make_token();

/// Between the ports that systems give away and those of known services; another one for each run.
std::uint16_t random_port();

/// A TCP port of the loopback interface that nobody listens on now.
std::uint16_t free_port();

/// The command that runs `arguments` in `directory` on `host` over ssh: the token comes on its standard
/// input; a line behind it, or the end of that input, asks the run there to end, and that end behind that line
/// kills it.
std::vector<std::string> over_ssh(const std::string& host, const std::filesystem::path& directory,
                                  const std::vector<std::string>& arguments);

/// How long ranks may take to end once the user's signal was passed on: up to 10 s for transactions under way
/// and 30 s for each other, then reports are made and sent.
inline constexpr std::chrono::seconds kStopping{300};

/// One process for each rank, VERBTWIN_TOKEN in the environment of all. Returns rank 0's exit code, or the
/// first other one that is not 0; a rank that a signal killed or that never began counts as 1, unless it was
/// the user's signal, which kills a rank that does not listen for it yet: 128 and its number. SIGPIPE of rank
/// 0 is 128 and its number too: who reads its output has gone. Who has not ended `teardown` after rank 0 is
/// ended, and counts as 1: giving back the memory of a large run takes long. So are all where none has ended
/// `stopping` after the user's signal.
int launch_ranks(const std::vector<RankCommand>& ranks, const std::string& token, const StopSignals& signals,
                 std::chrono::milliseconds teardown = std::chrono::seconds(60),
                 std::chrono::milliseconds stopping = kStopping);

}  // namespace verbtwin::tools
