#include "camber/study/queue.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace camber::study {
namespace {

std::vector<std::string> own_words;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("[study] {}: {}", what, std::strerror(errno)));
}

struct Child {
  const QueueTask* task = nullptr;
  pid_t process = 0;
  int output = -1;
  std::string rest{};  // of its standard output, after the last whole line
};

// After fork, before exec: nothing that takes memory or a lock.
[[noreturn]] void become(const std::vector<char*>& words, pid_t parent, int output, int log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above
  dup2(output, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(words[0], words.data());
  _exit(127);
}

Child start(const QueueTask& task) {
  std::filesystem::create_directories(task.log.parent_path());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("a pipe cannot be made");
  const int log = open(task.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (log < 0) fail(task.log.string() + " cannot be written");
  std::vector<char*> words;
  words.reserve(task.command.size() + 1);
  for (const std::string& word : task.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) fail("a process cannot be started");
  if (process == 0) become(words, parent, ends[1], log);
  close(ends[1]);
  close(log);
  return {.task = &task, .process = process, .output = ends[0]};
}

std::string last_line(const std::filesystem::path& file) {
  std::ifstream lines(file);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) last = line;
  return last;
}

std::string failure_of(const Child& child, int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFSIGNALED(status)) return fmt::format("it was ended by signal {}", WTERMSIG(status));
  const std::string said = last_line(child.task->log);
  return said.empty() ? fmt::format("it ended with code {}", WEXITSTATUS(status)) : said;
}

class Queue {
 public:
  Queue(const std::vector<QueueTask>& tasks, std::int64_t processes, const QueueListener& listener)
      : processes_(static_cast<std::size_t>(processes)), listener_(listener) {
    for (const QueueTask& task : tasks) waiting_.push_back(&task);
    for (const QueueTask& task : tasks) open_[task.key] = true;
  }

  ~Queue() {
    for (const Child& child : children_) kill(child.process, SIGKILL);
    for (const Child& child : children_) waitpid(child.process, nullptr, 0);
  }

  std::int64_t run() {
    while (!waiting_.empty() || !children_.empty()) {
      start_ready();
      if (children_.empty() && !waiting_.empty())
        throw std::invalid_argument(
            fmt::format("[study] tasks must not need each other in a circle, got {}", waiting_.front()->key));
      listen();
    }
    return failed_;
  }

 private:
  void start_ready() {
    for (std::size_t i = 0; i < waiting_.size() && children_.size() < processes_;) {
      const QueueTask& task = *waiting_[i];
      const auto among = [&task](const auto& keys) {
        return std::find_if(task.needs.begin(), task.needs.end(),
                            [&keys](const std::string& key) { return keys.contains(key); });
      };
      if (const auto failed = among(failures_); failed != task.needs.end()) {
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        end(task, fmt::format("{}, which it needs, failed", *failed));
        i = 0;
      } else if (among(open_) != task.needs.end()) {
        ++i;
      } else {
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        if (listener_.begins) listener_.begins(task);
        children_.push_back(start(task));
      }
    }
  }

  void listen() {
    std::vector<pollfd> positions;
    positions.reserve(children_.size());
    for (const Child& child : children_) positions.push_back({.fd = child.output, .events = POLLIN, .revents = 0});
    if (positions.empty() || (poll(positions.data(), positions.size(), -1) < 0 && errno == EINTR)) return;
    for (std::size_t i = children_.size(); i-- > 0;)
      if (positions[i].revents != 0 && !on_output(children_[i])) reap(i);
  }

  // Takes what was written; false at the end.
  bool on_output(Child& child) {
    char bytes[4096];
    const ssize_t count = read(child.output, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    child.rest.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t end = child.rest.find('\n'); end != std::string::npos; end = child.rest.find('\n')) {
      if (listener_.says) listener_.says(*child.task, child.rest.substr(0, end));
      child.rest.erase(0, end + 1);
    }
    return true;
  }

  void reap(std::size_t position) {
    const Child child = children_[position];
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(position));
    close(child.output);
    int status = 0;
    while (waitpid(child.process, &status, 0) < 0 && errno == EINTR) continue;
    end(*child.task, failure_of(child, status));
  }

  void end(const QueueTask& task, const std::string& failure) {
    open_.erase(task.key);
    if (!failure.empty()) {
      failures_[task.key] = failure;
      ++failed_;
    }
    if (listener_.ends) listener_.ends(task, failure);
  }

  std::size_t processes_;
  const QueueListener& listener_;
  std::vector<const QueueTask*> waiting_;
  std::vector<Child> children_;
  std::map<std::string, bool> open_;  // tasks that have not ended
  std::map<std::string, std::string> failures_;
  std::int64_t failed_ = 0;
};

}  // namespace

std::int64_t run_queue(const std::vector<QueueTask>& tasks, std::int64_t processes, const QueueListener& listener) {
  if (processes < 1)
    throw std::invalid_argument(fmt::format("[study] processes must be at least 1, got {}", processes));
  return Queue(tasks, processes, listener).run();
}

std::vector<std::string> own_program() {
  if (!own_words.empty()) return own_words;
  return {std::filesystem::read_symlink("/proc/self/exe").string()};
}

void set_own_program(std::vector<std::string> words) {
  own_words = std::move(words);
}

}  // namespace camber::study
