#include "calibration/forked.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>

#include "backend/user_error.hpp"

namespace verbtwin::calibration {

namespace {

/// What an answer begins with.
constexpr char kText = '+', kError = '-', kUserError = '?';

struct Child {
  pid_t pid = -1;
  int pipe = -1;
  std::size_t item = 0;
  std::string text;
};

void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
}

/// No child, and errno: it cannot be begun.
std::optional<Child> begin(std::size_t item, const std::function<std::string(std::size_t)>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t pid = fork();
  if (pid < 0) {
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return std::nullopt;
  }
  if (pid == 0) {
    std::string answer;
    try {
      const std::string text = work(item);
      answer.append(1, kText).append(text);
    } catch (const UserError& error) {
      answer.append(1, kUserError).append(error.what());
    } catch (const std::exception& error) {
      answer.append(1, kError).append(error.what());
    } catch (...) {  // whatever it is, this process must not go on as its parent
      answer.append(1, kError).append("an exception of no known kind");
    }
    write_all(ends[1], answer);
    _exit(0);
  }
  close(ends[1]);
  return Child{pid, ends[0], item, {}};
}

/// Reads what is there; false at the end, when the child is gone.
bool read_some(Child& child) {
  char buffer[4096];
  const ssize_t count = read(child.pipe, buffer, sizeof buffer);
  if (count > 0) child.text.append(buffer, static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

ForkedResult end(Child& child) {
  close(child.pipe);
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return {"", "killed by signal " + std::to_string(WTERMSIG(status))};
  if (child.text.empty()) return {"", "ended without a result"};
  const char kind = child.text[0];
  child.text.erase(0, 1);
  if (kind == kText) return {std::move(child.text), ""};
  return {"", std::move(child.text), kind == kUserError};
}

/// The children that run; none outlives it.
class Running {
 public:
  Running() = default;
  ~Running() { end_all(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void begin_one(std::size_t item, const std::function<std::string(std::size_t)>& work) {
    std::optional<Child> child = begin(item, work);
    if (!child) {
      const int error = errno;
      end_all();  // before the exception: it may be files that are short, and a sanitizer needs some to look
                  // at it
      throw std::system_error(error, std::generic_category(), "cannot begin a process");
    }
    children.push_back(std::move(*child));
  }

  std::vector<Child> children;

 private:
  void end_all() {
    for (Child& child : children) {
      kill(child.pid, SIGKILL);
      end(child);
    }
    children.clear();
  }
};

}  // namespace

std::vector<ForkedResult> in_processes(
    std::size_t items, int jobs, const std::function<std::string(std::size_t)>& work,
    const std::function<bool()>& going_on,
    const std::function<void(std::size_t, const ForkedResult&)>& finished) {
  std::vector<ForkedResult> results(items);
  Running all;
  std::vector<Child>& running = all.children;
  std::size_t next = 0;
  while (next < items || !running.empty()) {
    if (!going_on()) return {};
    while (next < items && running.size() < static_cast<std::size_t>(jobs)) all.begin_one(next++, work);
    std::vector<pollfd> waiting;
    for (const Child& child : running) waiting.push_back({child.pipe, POLLIN, 0});
    constexpr int kLookForStopMs = 100;
    poll(waiting.data(), waiting.size(), kLookForStopMs);
    for (std::size_t i = running.size(); i-- > 0;) {
      if (waiting[i].revents == 0 || read_some(running[i])) continue;
      const std::size_t item = running[i].item;
      results[item] = end(running[i]);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      if (finished) finished(item, results[item]);
    }
  }
  return results;
}

}  // namespace verbtwin::calibration
