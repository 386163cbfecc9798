#include "ir_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <sstream>

namespace cli {
namespace {

struct Line {
  std::string op;
  int32_t dtype = 0;
  std::vector<int64_t> shape, arguments;
  std::vector<size_t> sources;
};

class Reader {
 public:
  Reader(const aster_ml_context* context, std::string name)
      : context_(context), name_(std::move(name)) {}

  void parse(const std::string& text) {
    std::istringstream in(text);
    for (std::string row; std::getline(in, row);) {
      ++row_;
      if (!row.empty() && row.back() == '\r') row.pop_back();
      if (!row.empty()) lines_.push_back(parse_line(row));
    }
    if (lines_.empty()) throw Failure{1, name_ + " holds no graph"};
    for (const Line& line : lines_) {
      if (line.op == "Param") next_slot_ = std::max(next_slot_, line.arguments[0] + 1);
    }
  }
  OwnedUop build() {
    std::vector<OwnedUop> none;
    return build(lines_.size() - 1, none, 0);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Failure{1, name_ + ":" + std::to_string(row_) + ": " + what};
  }
  template <typename T>
  T number(std::string_view text) const {
    T out{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size())
      fail("'" + std::string(text) + "' is no number that fits");
    return out;
  }
  std::vector<int64_t> numbers(std::string_view list) const {
    std::vector<int64_t> out;
    while (!list.empty()) {
      const size_t comma = list.find(", ");
      out.push_back(number<int64_t>(list.substr(0, comma)));
      list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 2);
    }
    return out;
  }
  size_t reference(std::string_view word) const {
    const auto at = number<size_t>(word.substr(1));
    if (at >= lines_.size()) fail("%" + std::to_string(at) + " is not above");
    return at;
  }

  int64_t constant(int32_t dtype, std::string_view text) const {
    const bool real = aster_ml_dtype_is_float(dtype) != 0;
    if (!real) {
      if (!text.empty() && text[0] == '-') return number<int64_t>(text);
      return static_cast<int64_t>(number<uint64_t>(text));
    }
    const double value = text == "nan"    ? std::nan("")
                         : text == "inf"  ? INFINITY
                         : text == "-inf" ? -INFINITY
                                          : number<double>(text);
    return std::bit_cast<int64_t>(value);
  }

  // %3 = Op dtype[2, 3] %0 %1 (4, 5)
  Line parse_line(std::string_view row) {
    Line out;
    const std::string start = "%" + std::to_string(lines_.size()) + " = ";
    if (row.substr(0, start.size()) != start) fail("the line does not begin with '" + start + "'");
    row.remove_prefix(start.size());
    const size_t open = row.find(" (");
    if (open != std::string_view::npos) {
      if (row.back() != ')') fail("no ) at the end");
      out.arguments = numbers(row.substr(open + 2, row.size() - open - 3));
      row = row.substr(0, open);
    }
    const size_t bracket = row.find('[');
    if (bracket != std::string_view::npos) {
      const size_t close = row.find(']', bracket);
      if (close == std::string_view::npos) fail("no ] after [");
      out.shape = numbers(row.substr(bracket + 1, close - bracket - 1));
    }
    std::istringstream words(
        std::string(row.substr(0, bracket)) +
        (bracket == std::string_view::npos ? "" : std::string(row.substr(row.find(']') + 1))));
    words >> out.op;
    for (std::string word; words >> word;) {
      if (word[0] == '%') {
        out.sources.push_back(reference(word));
      } else if (word[0] == '#') {
        out.arguments = {-1 - number<int64_t>(std::string_view(word).substr(1))};
      } else if (out.dtype == 0 && out.op != "Const") {
        dtype(&out, word);
      } else if (out.dtype == 0) {
        dtype(&out, word);
      } else {
        out.arguments = {constant(out.dtype, word)};
      }
    }
    if ((out.op == "Param" || out.op == "Const" || out.op == "Buffer") && out.arguments.size() != 1)
      fail(out.op + " needs one number");
    return out;
  }
  void dtype(Line* out, const std::string& word) const {
    if (aster_ml_dtype_from_name(&out->dtype, word.c_str()) != ASTER_ML_OK)
      fail("'" + word + "' is no dtype");
  }

  // The node of a line, Params replaced by arguments where it stands in the body of a call.
  OwnedUop build(size_t root, const std::vector<OwnedUop>& arguments, int depth) {
    if (depth > 64) throw Failure{1, name_ + ": calls within calls within calls"};
    std::vector<bool> needed(root + 1, false);
    needed[root] = true;
    for (size_t i = root + 1; i-- > 0;) {
      if (!needed[i]) continue;
      const Line& line = lines_[i];
      // The body of a call is built with its arguments.
      for (size_t s = line.op.rfind("Call:", 0) == 0 ? 1 : 0; s < line.sources.size(); ++s)
        needed[line.sources[s]] = true;
    }
    std::vector<OwnedUop> built;
    built.reserve(root + 1);
    for (size_t i = 0; i <= root; ++i) {
      built.push_back(needed[i] ? node(lines_[i], i, built, arguments, depth)
                                : OwnedUop(context_, nullptr));
    }
    return std::move(built.back());
  }

  OwnedUop retained(const OwnedUop& other) const {
    check(aster_ml_uop_retain(context_, other.get()));
    return {context_, other.get()};
  }

  OwnedUop node(const Line& line, size_t number, const std::vector<OwnedUop>& built,
                const std::vector<OwnedUop>& arguments, int depth) {
    if (line.op.rfind("Call:", 0) == 0) {
      std::vector<OwnedUop> given;
      for (size_t s = 1; s < line.sources.size(); ++s)
        given.push_back(retained(built[line.sources[s]]));
      if (line.sources.empty()) throw Failure{1, name_ + ": a call without a body"};
      return build(line.sources[0], given, depth + 1);
    }
    std::vector<int64_t> words = line.arguments;
    std::string op = line.op;
    if (op == "Param" && depth > 0) {
      const auto slot = static_cast<size_t>(words[0]);
      if (slot >= arguments.size())
        throw Failure{1, name_ + ": a call has no argument " + std::to_string(slot)};
      return retained(arguments[slot]);
    }
    if (op == "Buffer") {
      op = "Param";
      words = {next_slot_ - 1 - words[0]};
    }
    std::vector<const aster_ml_uop*> sources;
    for (size_t s : line.sources) sources.push_back(built[s].get());
    aster_ml_uop_options options{};
    options.struct_size = sizeof(options);
    options.op = op.c_str();
    options.dtype = line.dtype;
    options.sources = sources.data();
    options.source_count = sources.size();
    options.arguments = words.data();
    options.argument_count = words.size();
    options.shape = line.shape.data();
    options.ndim = line.shape.size();
    const aster_ml_uop* out = nullptr;
    if (aster_ml_uop_init(&out, context_, &options) != ASTER_ML_OK) {
      aster_ml_error error{};
      aster_ml_error_last(&error);
      throw Failure{1, name_ + ": %" + std::to_string(number) + ": " + error.message};
    }
    return {context_, out};
  }

  const aster_ml_context* context_;
  std::string name_;
  size_t row_ = 0;
  int64_t next_slot_ = 0;  // of the Params that stand for buffers
  std::vector<Line> lines_;
};

}  // namespace

OwnedUop read_graph(const aster_ml_context* context, const std::string& text,
                    const std::string& name) {
  Reader reader(context, name);
  reader.parse(text);
  return reader.build();
}

}  // namespace cli
