#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/config/options.h"

/// The frame that every sub-command stands in. A sub-command says what it takes; program.cpp alone knows CLI11, which
/// splits the command line, so that a sub-command's own file compiles in a moment.
///
/// A new sub-command is one file with one function, named in commands.h and called in run_program.cpp:
///
///   void register_simulate(Command& program) {
///     auto options = std::make_shared<SimulateOptions>();
///     Command& command = program.add({.name = "simulate",
///                                     .summary = "write a data set in the nuScenes v1.0 schema",
///                                     .example = "camber simulate --out world --scenes 10 --seed 7"});
///     command.option("--out", options->out, "folder to write", Presence::kRequired);
///     command.option("--scenes", options->scenes, "how many scenes");
///     command.run([options](const CommonOptions& common) { ...; return kSuccess; });
///   }
namespace camber::app {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;   ///< something failed: a check, or the world
inline constexpr int kUsage = 2;     ///< the command line or the configuration is wrong
inline constexpr int kSignal = 128;  ///< plus the signal that ended the work in order: 130 after Ctrl-C

inline constexpr std::int64_t kMostThreads = 1024;  ///< that --threads may ask for

enum class Format { kText, kJson, kCsv };

/// What every sub-command takes.
struct CommonOptions {
  std::int64_t threads = 0;       ///< 0: as many as the machine has
  std::uint64_t seed = 0;         ///< of the named random streams
  bool seed_given = false;        ///< whether it stands on the command line, and so above a configuration's own
  bool quiet = false;             ///< no progress line, no notes
  std::set<std::string> given{};  ///< the options that stand on the command line
  Format format = Format::kText;
};

/// Refuses options that stand on the command line without the one that they belong to, such as --score without --image.
void refuse_without(const CommonOptions& common, const std::string& command, const std::string& main,
                    const std::vector<std::string>& options);

/// Refuses a file name that does not end in one of these.
void check_ending(const std::string& command, const std::string& option, const std::string& file,
                  const std::vector<std::string>& endings);

struct CommandText {
  std::string name{};
  std::string summary{};  ///< one line, lower case, no full stop
  std::string example{};  ///< a command line that runs as it is
};

enum class Presence { kOptional, kRequired };

/// A sub-command, or a group of them such as `analyze`. What its options write to must outlive the parsing: keep it in
/// a shared_ptr that the function given to run() holds.
class Command {
 public:
  using Run = std::function<int(const CommonOptions&)>;

  explicit Command(CommandText text, std::string path = {});
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Adds a sub-command or a group below this one; the reference stays valid.
  Command& add(const CommandText& text);

  /// Declares `--name VALUE`, or, when the name has no dashes, a positional argument. The value that the variable holds
  /// now is its default. A bool is a flag without a value, a std::vector a comma-separated list, a std::optional takes
  /// `none` too.
  void option(const std::string& name, bool& value, const std::string& meaning);
  void option(const std::string& name, std::int64_t& value, const std::string& meaning, Presence presence = {});
  void option(const std::string& name, std::uint64_t& value, const std::string& meaning, Presence presence = {});
  void option(const std::string& name, double& value, const std::string& meaning, Presence presence = {});
  void option(const std::string& name, std::optional<double>& value, const std::string& meaning);
  void option(const std::string& name, std::string& value, const std::string& meaning, Presence presence = {});
  void option(const std::string& name, std::vector<double>& value, const std::string& meaning, Presence presence = {});
  void option(const std::string& name, std::vector<std::string>& value, const std::string& meaning,
              Presence presence = {});
  /// `--name WORD` with a closed list of words; `choose` gets the index of the one given.
  void choice(const std::string& name, const std::vector<std::string>& words, std::size_t standard,
              std::function<void(std::size_t)> choose, const std::string& meaning);

  /// Lets the user set every field of an option struct, by the TOML file of `--config` and by `--a.b=value`, and adds
  /// `--print-config` and `--print-options`. The struct is filled, checked and validated before the function of run()
  /// is called; `defaults`, when given, is asked for what lies below file and command line once the other arguments are
  /// known.
  template <config::OptionStruct Options>
  void configuration(Options& options, std::function<Options()> defaults = {}) {
    configuration_.describe = [&options] { return config::describe(options); };
    configuration_.load = [&options, defaults = std::move(defaults)](const config::Origin& origin) {
      options = config::load(origin, defaults ? defaults() : options);
    };
    option("--config", configuration_.file, "TOML file with any of the options below");
    option("--print-config", configuration_.print, "print the complete configuration as TOML, and do nothing else");
    option("--print-options", configuration_.print_table,
           "print every option below as a Markdown table, with its value, and do nothing else");
  }

  /// Options of earlier versions that sub-commands have replaced, each with the command line that does it now. The
  /// first of them that begins a word of the command line answers for it.
  void moved(std::vector<std::pair<std::string, std::string>> options) { moved_ = std::move(options); }

  /// Makes this a sub-command that can be run: adds the shared options and says what to do after parsing. The number
  /// that the function returns is the exit code.
  void run(Run function, const std::vector<Format>& formats = {Format::kText, Format::kJson});

  /// What `--help` shows.
  std::string help() const;

 private:
  friend class Program;

  // One argument as help shows it and as the text given on the command line is taken.
  struct Argument {
    std::string name{};
    std::string placeholder{};  // empty: a flag
    std::string standard{};     // the default as text; empty: nothing to show
    std::string meaning{};
    Presence presence{};
    bool list = false;    // of numbers
    bool shared = false;  // common to all sub-commands
    std::function<void(std::string_view)> take{};
  };

  struct Configuration {
    std::function<config::Description()> describe{};
    std::function<void(const config::Origin&)> load{};
    std::string file{};
    bool print = false;
    bool print_table = false;
  };

  std::string title() const { return path_.empty() ? "" : "[" + path_ + "] "; }  // how its sentences begin
  [[noreturn]] void refuse(std::string_view name, std::string_view allowed, std::string_view given) const;
  [[noreturn]] void refuse_unknown(const std::string& given) const;
  void refuse_moved(const std::vector<std::string>& words) const;

  CommandText text_;
  std::string path_;  // as typed after the program's name: "analyze softmax"
  std::vector<Argument> arguments_;
  std::vector<std::pair<std::string, std::string>> moved_;
  std::vector<std::unique_ptr<Command>> commands_;
  CommonOptions common_;
  Configuration configuration_;
  Run run_;
};

/// The program: the root of all sub-commands.
class Program {
 public:
  Program(std::string description, std::string version);
  Command& root() { return root_; }

  /// Parses the command line and runs what it names. Throws std::invalid_argument with one sentence (what was given,
  /// what is allowed, the nearest known name) for a command line that cannot be understood.
  int run(int argument_count, const char* const* arguments);

 private:
  class Parser;
  static int run(const Parser& parser, Command& command);
  static void refuse_idle(const Command& command);
  static void say_what_stands_twice(const Command& command, const std::vector<std::string>& words);

  std::string version_;
  Command root_;
};

/// Writes an answer to standard output; throws std::runtime_error when it cannot be written whole.
void print_answer(std::string_view text);

/// While it lives, print_answer() of this thread adds to text() instead.
class AnswerCapture {
 public:
  AnswerCapture();
  ~AnswerCapture();
  AnswerCapture(const AnswerCapture&) = delete;
  AnswerCapture& operator=(const AnswerCapture&) = delete;
  const std::string& text() const { return text_; }

 private:
  std::string text_{};
};

}  // namespace camber::app
