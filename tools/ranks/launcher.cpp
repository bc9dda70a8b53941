#include "tools/ranks/launcher.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include "backend/user_error.hpp"
#include "scenarios/document.hpp"
#include "scenarios/text.hpp"
#include "tools/console/exit_code.hpp"
#include "tools/console/print.hpp"
#include "tools/console/shell_word.hpp"
#include "tools/ranks/rank_options.hpp"

namespace verbtwin::tools {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// After the first rank has failed, the others hear of it; one that does not end is ended.
constexpr auto kGrace = 15s;
constexpr auto kTermGrace = 3s;
/// Between two looks at signals and clock: each wake-up takes time from the ranks on this machine.
constexpr auto kLook = 100ms;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

template <typename T>
T random_value() {
  T value{};
  if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) fail("no random bytes");
  return value;
}

class Rank {
 public:
  Rank(int number, const RankCommand& command, const std::string& token)
      : number_(number), host_(command.host) {
    std::array<int, 2> input{-1, -1};
    // A socket and no pipe: to write to a process that has ended is an error there and no signal.
    if (!command.token_on_input.empty() &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input.data()) != 0) {
      fail("cannot make a pair of sockets");
    }
    std::array<int, 2> life{-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life.data()) != 0)
      fail("cannot make a pair of sockets");
    // Over ssh that of rank 0 too: what ssh says of a host has neither its rank nor its name.
    errors_ = number == 0 && host_.empty() ? -1 : memfd_create("rank-stderr", MFD_CLOEXEC);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) fail("cannot start a rank");
    if (pid_ == 0) become(command, token, input[0], life[0], parent);
    setpgid(pid_, pid_);
    close(life[0]);
    life_ = life[1];
    ended_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    if (input[0] < 0) return;
    close(input[0]);
    input_ = input[1];
    const std::string line = command.token_on_input + "\n";
    // Fails where it has ended already: its exit code says why.
    static_cast<void>(send(input_, line.data(), line.size(), MSG_NOSIGNAL));
  }
  ~Rank() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    end_input();
    for (const int fd : {errors_, ended_, life_}) {
      if (fd >= 0) close(fd);
    }
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  bool running() {
    if (pid_ <= 0) return false;
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
    pid_ = -1;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailure;
    // The other end of the ssh stops a rank by SIGTERM, whatever was asked for here.
    if (exit_code_ == kExitSignal + SIGTERM && stopped_by_ != 0) exit_code_ = kExitSignal + stopped_by_;
    killed_by_ = WIFSIGNALED(status) ? WTERMSIG(status) : killed_over_there();
    if (killed_by_ != 0) exit_code_ = kExitFailure;
    // Who reads the result has gone (`| head`): no failure of the run, and `run` alone ends so too.
    if (number_ == 0 && killed_by_ == SIGPIPE) exit_code_ = kExitSignal + std::exchange(killed_by_, 0);
    never_ran_ = exit_code_ == kExitOfSsh || exit_code_ == kExitNotFound || exit_code_ == kExitNotRunnable;
    if (never_ran_) exit_code_ = kExitFailure;
    return false;
  }
  /// Can be read (poll(2)) once the process has ended; -1 after running() has said so.
  int ended_fd() const { return pid_ > 0 ? ended_ : -1; }
  /// The user's signal.
  void stop(int number) {
    stopped_by_ = number;
    ask_to_end(number);
  }
  /// Over ssh by a line on its input, because ssh itself would go without the result. Who is asked once more
  /// is ended there as well as here.
  void ask_to_end(int number) {
    if (input_ < 0) return signal(number);
    if (!std::exchange(asked_, true) && send(input_, "end\n", 4, MSG_NOSIGNAL) > 0) return;
    end_input();
    signal(number);
  }
  void signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }
  int exit_code() const { return exit_code_; }
  bool killed() const { return killed_by_ != 0; }
  /// By the user's signal, before it listened for it.
  void was_stopped_by(int number) {
    stopped_early_ = killed_by_ == number;
    if (stopped_early_) exit_code_ = kExitSignal + number;
  }
  /// The run was over and this rank did not end.
  void outlives_rank_0() { outlived_ = true; }
  /// The user's signal was to end it, and did not.
  void outlives_the_stop() { did_not_stop_ = true; }
  /// Another failed, and this rank did not end by itself: what it then says of why tells nothing.
  void outlives_a_failed_one() { ended_for_another_ = true; }
  bool ended_for_another() const { return ended_for_another_; }
  /// What ended was ssh or a shell, not a rank.
  bool never_ran() const { return never_ran_; }
  const std::string& host() const { return host_; }

  /// Says on standard error what this rank said, or what killed it.
  void tell() const {
    if (did_not_stop_) {
      print_error(fmt::format("verbtwin: {} did not stop, and was ended\n", name()));
    } else if (stopped_early_) {
      print_error(fmt::format("verbtwin: rank {} was stopped before it had begun\n", number_));
    } else if (outlived_) {
      print_error(fmt::format(
          "verbtwin: rank {} did not end after the run, and was ended; the result is whole\n", number_));
    } else if (killed()) {
      print_error(fmt::format("verbtwin: {} was killed by signal {}\n", name(), killed_by_));
    } else if (never_ran() && !host_.empty()) {
      tell_by_name();
    } else {
      print_error(said());
    }
  }
  /// Where rank 0 knows nothing of it, and so has not named it.
  void tell_as_unheard_of() const { killed() ? tell() : tell_by_name(); }

 private:
  /// The end of it.
  std::string said() const {
    std::string text(kToldMax, '\0');
    struct stat file {};
    if (errors_ >= 0) fstat(errors_, &file);
    const off_t from = std::max<off_t>(0, file.st_size - static_cast<off_t>(kToldMax));
    const ssize_t length = errors_ < 0 ? 0 : pread(errors_, text.data(), text.size(), from);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    return text;
  }

  std::string name() const {
    return fmt::format("rank {}{}", number_, host_.empty() ? "" : " on " + scenarios::one_line(host_));
  }

  void tell_by_name() const { print_error(fmt::format("verbtwin: {}: {}\n", name(), last_line())); }

  /// Over ssh a shell tells of the signal that killed the rank, by the exit code. A rank itself ends with the
  /// codes of those that stop it. 0: it was not killed.
  int killed_over_there() const {
    const int number = exit_code_ - kExitSignal;
    const bool stops = number == SIGINT || number == SIGTERM || number == SIGHUP;
    return host_.empty() || stops || number < 1 || number > SIGRTMAX ? 0 : number;
  }

  /// ssh's banners and warnings come before it; its lines end in "\r\n".
  std::string last_line() const {
    std::string line = said();
    line.erase(line.find_last_not_of("\r\n ") + 1);  // npos + 1 is 0
    line.erase(0, line.find_last_of("\r\n") + 1);
    if (!line.empty()) return scenarios::one_line(line);
    return never_ran() ? "ssh failed" : fmt::format("ended with exit code {}", exit_code_);
  }

  /// For a rank and what runs it: a signal when the launcher's end of `life` is closed, for whatever reason
  /// (fcntl(2), F_SETSIG). The kernel sends one when a parent dies, but not to programs with capabilities.
  static void die_with_launcher(int life) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int kept = fcntl(life, F_DUPFD, STDERR_FILENO + 1);  // not closed by exec
    fcntl(kept, F_SETOWN, getpid());
    fcntl(kept, F_SETSIG, SIGKILL);
    fcntl(kept, F_SETFL, O_ASYNC);
  }

  [[noreturn]] void become(const RankCommand& command, const std::string& token, int input, int life,
                           pid_t parent) const {
    setpgid(0, 0);
    die_with_launcher(life);
    if (getppid() != parent) _exit(127);
    // This process listens whatever it was told to ignore, as shells tell what runs in the background: a
    // rank that does not listen yet must not ignore what it is sent.
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
    // A process group of its own is in the terminal's background, where writing may stop it (`stty tostop`):
    // ignored, the signal lets it write.
    std::signal(SIGTTOU, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(input >= 0 ? input : open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    if (command.output >= 0) dup2(command.output, STDOUT_FILENO);
    const int errors = errors_ >= 0 ? errors_ : command.errors;
    if (errors >= 0) dup2(errors, STDERR_FILENO);
    setenv(kTokenVariable, token.c_str(), 1);
    std::vector<char*> argv;
    for (const std::string& argument : command.arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    print_error(fmt::format("verbtwin: cannot start {}: {}\n", argv[0], std::strerror(errno)));
    _exit(kExitNotFound);
  }

  void end_input() {
    if (input_ >= 0) close(std::exchange(input_, -1));
  }

  // What is no exit code of a rank: ssh's own, and a shell's that cannot start its command.
  static constexpr int kExitOfSsh = 255, kExitNotFound = 127, kExitNotRunnable = 126;

  static constexpr std::size_t kToldMax = 1 << 16;  // of what a rank said

  int number_;
  std::string host_;
  pid_t pid_ = -1;
  int input_ = -1, errors_ = -1, ended_ = -1, life_ = -1;
  int exit_code_ = 0, killed_by_ = 0, stopped_by_ = 0;
  bool never_ran_ = false, stopped_early_ = false, did_not_stop_ = false;
  bool outlived_ = false, ended_for_another_ = false;
  bool asked_ = false;  // to end, over ssh
};

/// What ssh may be given as "host" or "user@host": no option, one word of printable UTF-8, and a host in it.
bool is_host(const std::string& text) {
  const bool no_name = text.starts_with("-") || text.starts_with("@") || text.ends_with("@");
  return !no_name && text.find_first_of(" \t") == std::string::npos &&
         text.find(scenarios::kByteOrderMark) ==
             std::string::npos &&  // of a file that was put behind another
         scenarios::one_line(text, std::string::npos) == text;
}

using Ranks = std::vector<std::unique_ptr<Rank>>;

/// Until a rank ends, for a while.
void wait_for_any(const Ranks& ranks) {
  std::vector<pollfd> ended;
  for (const auto& rank : ranks)
    ended.push_back({rank->ended_fd(), POLLIN, 0});  // poll() skips those below 0
  poll(ended.data(), ended.size(), static_cast<int>(std::chrono::milliseconds(kLook).count()));
}

/// Waits for all; returns the first that failed, or one that was killed, or null. Ends the others if they do
/// not end by themselves.
Rank* wait_for_all(Ranks& ranks, const StopSignals& signals, std::chrono::milliseconds teardown,
                   std::chrono::milliseconds stopping) {
  Rank* failed = nullptr;
  Clock::time_point end_at = Clock::time_point::max();
  int ended_with = 0;
  bool forwarded = false, whole = false;
  for (;;) {
    bool any = false;
    for (const auto& rank : ranks) {
      if (rank->running()) {
        any = true;
      } else if (rank->exit_code() != 0) {
        if (failed == nullptr) end_at = std::min(end_at, Clock::now() + kGrace);
        // Without rank 0 the others meet nobody: who has joined knows, who has not would ask on.
        if (rank == ranks.front()) end_at = std::min(end_at, Clock::now() + kTermGrace);
        const bool is_the_cause =
            failed == nullptr || (ended_with == 0 && rank->killed() && !failed->killed());
        if (is_the_cause) failed = rank.get();
      } else if (rank == ranks.front()) {
        whole = true;  // it has all that the others had to tell
        end_at = std::min(end_at, Clock::now() + teardown);
      }
    }
    if (!any) return failed;
    if (signals.stop().load() && !forwarded) {
      forwarded = true;
      end_at = std::min(end_at, Clock::now() + stopping);
      for (const auto& rank : ranks) rank->stop(signals.signal_number());
    }
    if (Clock::now() >= end_at) {
      ended_with = ended_with == 0 ? SIGTERM : SIGKILL;
      end_at = Clock::now() + kTermGrace;
      for (const auto& rank : ranks) {
        if (rank->running()) {
          if (failed != nullptr) {
            rank->outlives_a_failed_one();
          } else {
            whole ? rank->outlives_rank_0() : rank->outlives_the_stop();
          }
        }
        if (ended_with == SIGTERM) {
          rank->ask_to_end(SIGTERM);
        } else {
          rank->signal(SIGKILL);
        }
      }
    }
    wait_for_any(ranks);
  }
}

}  // namespace

std::vector<std::string> read_hosts(const std::string& file) {
  constexpr std::size_t kBytesMax = 1 << 20;
  std::string text;
  try {
    text = scenarios::read_text(file, kBytesMax);
  } catch (const UserError& error) {
    throw UserError("", fmt::format("--hosts {}", error.what()));
  }
  if (text.starts_with(scenarios::kByteOrderMark)) text.erase(0, scenarios::kByteOrderMark.size());
  std::istringstream in(text);
  std::vector<std::string> hosts;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.erase(std::min(line.find('#'), line.size()));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    const std::string host = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    if (!is_host(host)) {
      throw UserError("", fmt::format("--hosts {}:{}: \"{}\" is no host; allowed: one host a line", file,
                                      number, scenarios::one_line(host)));
    }
    hosts.push_back(host);
  }
  if (hosts.empty()) throw UserError("", fmt::format("--hosts {}: no hosts; allowed: one host a line", file));
  return hosts;
}

std::string make_token() {
  std::string token;
  for (const unsigned char byte : random_value<std::array<unsigned char, 16>>())
    token += fmt::format("{:02x}", byte);
  return token;
}

std::uint16_t random_port() {
  constexpr unsigned kFirst = 20000, kCount = 10000;
  return static_cast<std::uint16_t>(kFirst + random_value<unsigned>() % kCount);
}

std::uint16_t free_port() {
  const int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool found = socket_fd >= 0 && bind(socket_fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     getsockname(socket_fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  if (socket_fd >= 0) close(socket_fd);
  if (!found) fail("no free TCP port");
  return ntohs(address.sin_port);
}

std::vector<std::string> over_ssh(const std::string& host, const std::filesystem::path& directory,
                                  const std::vector<std::string>& arguments) {
  std::string run;
  for (const std::string& argument : arguments) run += shell_word(argument) + ' ';
  // The token is read before anything starts; then whoever waits for more input sees the launcher's end. A
  // line before it asks the rank to end, and its end is then that of a rank that has not.
  const std::string script = fmt::format(
      "IFS= read -r {0} && export {0} && cd {1} || exit 1; exec 3<&0; {2}</dev/null 3<&- & rank=$!; "
      "{{ if read -r end <&3; then kill \"$rank\"; read -r end <&3; kill -9 \"$rank\"; "
      "else kill \"$rank\"; fi; }} >/dev/null 2>&1 & watch=$!; wait \"$rank\"; code=$?; "
      "kill \"$watch\" 2>/dev/null; exit \"$code\"",
      kTokenVariable, shell_word(directory.string()), run);
  std::vector<std::string> command = {"ssh"};
  // A machine that does not answer, or no longer, is not waited for as long as TCP would.
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=30", "ServerAliveInterval=15"})
    command.insert(command.end(), {"-o", option});
  // A user's shell over there may be one that does not read this.
  command.insert(command.end(), {host, "exec /bin/sh -c " + shell_word(script)});
  return command;
}

int launch_ranks(const std::vector<RankCommand>& commands, const std::string& token,
                 const StopSignals& signals, std::chrono::milliseconds teardown,
                 std::chrono::milliseconds stopping) {
  Ranks ranks;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    ranks.push_back(std::make_unique<Rank>(static_cast<int>(i), commands[i], token));
  }
  const Rank* failed = wait_for_all(ranks, signals, teardown, stopping);
  if (signals.stop().load()) {
    for (const auto& rank : ranks) rank->was_stopped_by(signals.signal_number());
  }
  if (failed == nullptr) {
    if (!ranks.front()->host().empty()) ranks.front()->tell();  // warnings
    return 0;
  }
  const Rank& first = *ranks.front();
  const auto absent = std::ranges::find_if(
      ranks, [](const auto& rank) { return rank->never_ran() && !rank->host().empty(); });
  if (absent != ranks.end()) {
    (*absent)->tell();
    return kExitFailure;
  }
  if (first.ended_for_another() && !signals.stop().load()) {
    failed->tell_as_unheard_of();
    return failed->exit_code();
  }
  const bool rank_0_said_it = first.exit_code() != 0 && !first.killed();
  if (!first.host().empty() && rank_0_said_it) first.tell();
  if (!rank_0_said_it) failed->tell();
  return first.exit_code() != 0 ? first.exit_code() : failed->exit_code();
}

}  // namespace verbtwin::tools
