// aster: what the library finds on a machine, its cache, and a demonstration.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <new>

#include "cli.h"
#include "json.h"

namespace cli {
namespace {

struct Option {
  const char* name;
  const char* value;  // what it takes
  const char* meaning;
};
struct Command {
  std::vector<std::string> words;
  const char* meaning;
  int (*run)(const Arguments& arguments);
  std::vector<Option> options;
  const char* takes = nullptr;  // what it is given besides options
};

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {{"info"},
       "version, CPU, devices, compiler, BLAS and cache",
       info,
       {{"model", "DEVICE", "instead: the numbers by which plans for a device are chosen"}}},
      {{"cache", "info"}, "where compiled kernels are kept, how many, how large", cache_info, {}},
      {{"cache", "clear"}, "removes them", cache_clear, {}},
      {{"demo", "digits"},
       "trains a network on handwritten digits, tests it, saves it and reads it back",
       demo_digits,
       {{"data", "FILE", "the digits (share/aster_ml/data/digits.bin beside the command)"},
        {"epochs", "N", "passes over the digits (20)"},
        {"seed", "N", "of the network and of the order of digits (42)"},
        {"threads", "N", "that kernels may use (as many as there are)"},
        {"save", "FILE", "keeps the trained network as safetensors"},
        {"html", "FILE", "writes a page: curves, confusion matrix, misread digits"}}},
      {{"graph"},
       "shows what a program computes, as Graphviz text",
       graph,
       {{"of", "NAME", "softmax, attention, mlp, or digits, the step of the demo (softmax)"},
        {"file", "FILE", "instead: the text of a graph, as aster_ml_uop_print writes it"},
        {"level", "LEVEL", "tensor, prepared, schedule, kernel, source, plan or program (tensor)"},
        {"html", "FILE", "writes a page of all levels instead"}}},
      {{"profile"},
       "runs a portable program and tells where the time goes, a line a kernel",
       profile,
       {{"runs", "N", "runs that are measured, on inputs of its own (10)"},
        {"threads", "N", "that kernels may use (as many as there are)"},
        {"html", "FILE", "writes a page: timeline, kernels, memory"},
        {"trace", "FILE", "writes a trace for Perfetto and chrome://tracing"}},
       "FILE.aster"},
      {{"tune"},
       "searches for faster plans of a program's kernels and keeps them for ASTER_ML_BEAM",
       tune,
       {{"beam", "N", "plans that each round of the search goes on from (4)"},
        {"runs", "N", "runs that are measured, on inputs of its own (20)"},
        {"threads", "N", "that kernels may use (as many as there are)"}},
       "FILE.aster"},
      {{"run"},
       "runs an ONNX model, or a portable program",
       run_model,
       {{"inputs", "DIR", "input_I.pb (or .npy), or NAME.npy, for each input; or a file .npz"},
        {"outputs", "DIR", "made; output_I.pb is written there; or a file .npz"},
        {"format", "FORMAT", "of outputs: pb, or npy (pb)"},
        {"batch", "LIST", "instead: a file of lines MODEL, INPUTS and OUTPUTS with tabs between"}},
       "MODEL"},
      {{"convert"},
       "makes an ONNX model into a portable program, for many sizes where it leaves them open",
       convert,
       {{"output", "FILE", "(-o) the program"},
        {"size", "NAME=SIZES",
         "of axes that a model leaves open, with commas: N, or LEAST..MOST (1..128); or "
         "INPUT.AXIS=SIZES"},
        {"constants", "WHERE", "inside, or in a file that is mapped, FILE.data (inside)"},
        {"form", "FORM", "binary, or text (binary)"}},
       "MODEL.onnx"},
      {{"freeze"},
       "makes a model into C, a library or an executable that need nothing else",
       freeze,
       {{"output", "FILE", "(-o) ending in .c, .o, .a, .so; else an executable"},
        {"name", "NAME", "before all names in C (that of the file)"},
        {"target", "CPUS",
         "of native, x86-64, x86-64-v3, x86-64-v4, with commas; or aarch64 (native)"},
        {"threads", "N", "that a run uses at most (1)"},
        {"constants", "WHERE", "inside, or in a file that is mapped (inside)"},
        {"kernel", "WHETHER", "yes: with NAME_kernel, a kernel of the Blaze interface (no)"},
        {"size", "NAME=N", "of axes that a model leaves open, with commas; or INPUT.AXIS=N"},
        {"compiler", "CC", "path or name (as for kernels)"}},
       "MODEL"},
  };
  return table;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

void print_help() {
  std::printf("usage: aster COMMAND [--json]\n\n");
  for (const Command& command : commands()) {
    const std::string words =
        joined(command.words) + (command.takes == nullptr ? "" : std::string(" ") + command.takes);
    std::printf("  %-14s %s\n", words.c_str(), command.meaning);
    for (const Option& option : command.options) {
      const std::string name = std::string("--") + option.name + " " + option.value;
      std::printf("    %-14s %s\n", name.c_str(), option.meaning);
    }
  }
  std::printf("\n  --json         prints one JSON object\n  --help         prints this\n");
  std::printf("  --version      prints the library's version\n\n");
  std::printf("Exit status: 0 done, 1 failed, 2 not understood.\n");
}

void print_help_json() {
  std::string list;
  for (const Command& command : commands()) {
    Json options;
    for (const Option& option : command.options) options.set(option.name, option.meaning);
    list += (list.empty() ? "" : ", ") + Json()
                                             .set("command", joined(command.words))
                                             .set("meaning", command.meaning)
                                             .raw("options", options.text())
                                             .text();
  }
  std::printf("%s\n", Json().raw("commands", "[" + list + "]").text().c_str());
}

// The command that the first words name; the words are taken off.
const Command& find_command(std::vector<std::string>& words) {
  for (const Command& command : commands()) {
    const size_t count = command.words.size();
    if (words.size() < count ||
        !std::equal(command.words.begin(), command.words.end(), words.begin())) {
      continue;
    }
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count));
    return command;
  }
  const std::string shown = words.size() > 1 ? words[0] + " " + words[1] : words[0];
  throw Failure{2, "no command '" + shown + "'; aster --help lists them"};
}

Arguments parse(const Command& command, const std::vector<std::string>& words) {
  Arguments out;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i] == "-o" ? "--output" : words[i];
    if (command.takes != nullptr && name.rfind("--", 0) != 0) {
      out.words.push_back(name);
      continue;
    }
    if (name == "--json") {
      out.json = true;
      continue;
    }
    const size_t equals = name.find('=');
    std::string value = equals == std::string::npos ? "" : name.substr(equals + 1);
    if (equals != std::string::npos) name.resize(equals);
    const auto known =
        std::find_if(command.options.begin(), command.options.end(),
                     [&](const Option& option) { return name == std::string("--") + option.name; });
    if (known == command.options.end()) {
      throw Failure{2, "'" + words[i] + "' is no option of " + joined(command.words)};
    }
    if (equals == std::string::npos) {
      if (i + 1 == words.size()) throw Failure{2, name + " needs a " + known->value};
      value = words[++i];
    }
    if (value.empty()) throw Failure{2, name + " needs a " + known->value};
    out.values[known->name] = value;
  }
  return out;
}

int run(std::vector<std::string> words) {
  const auto has = [&](const char* flag) {
    return std::find(words.begin(), words.end(), flag) != words.end();
  };
  if (words.empty()) throw Failure{2, "no command; aster --help lists them"};
  if (has("--help") || has("-h")) {
    has("--json") ? print_help_json() : print_help();
    return 0;
  }
  if (words[0] == "--version") {
    if (words.size() > 1 && words[1] != "--json") throw Failure{2, "'" + words[1] + "' is unknown"};
    const std::string text =
        words.size() > 1 ? Json().set("version", aster_ml_version()).text() : aster_ml_version();
    std::printf("%s\n", text.c_str());
    return 0;
  }
  const auto json = std::find(words.begin(), words.end(), "--json");
  // `aster --json info` too.
  if (json == words.begin()) std::rotate(words.begin(), words.begin() + 1, words.end());
  const Command& command = find_command(words);
  return command.run(parse(command, words));
}

}  // namespace

int64_t Arguments::number(const std::string& name, int64_t fallback, int64_t least,
                          int64_t most) const {
  if (!has(name)) return fallback;
  const std::string& text = values.at(name);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw Failure{2, "--" + name + " " + text + ": a number from " + std::to_string(least) +
                         " to " + std::to_string(most) + " is needed"};
  }
  return value;
}

void check(int32_t status) {
  if (status == ASTER_ML_OK) return;
  aster_ml_error error{};
  aster_ml_error_last(&error);
  throw Failure{1, std::string(aster_ml_status_name(status)) + " in " + error.function + ": " +
                       error.message};
}

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace cli

int main(int argc, char** argv) {
  try {
    const int status = cli::run(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
    // A full disk or a closed pipe must not look like success.
    if (std::fflush(stdout) != 0) throw cli::Failure{1, "standard output cannot be written"};
    return status;
  } catch (const cli::Failure& failure) {
    std::fprintf(stderr, "aster: %s\n", failure.message.c_str());
    return failure.status;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "aster: out of memory\n");
    return 1;
  }
}
