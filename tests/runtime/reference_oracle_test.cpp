// Every operation of the interpreter against the answers in oracle/reference.txt, which
// oracle/reference.py describes and makes with NumPy, ml_dtypes, SciPy and tinygrad.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "dtype/convert.h"
#include "runtime/reference/interpret.h"

namespace aster::runtime::reference {
namespace {

using uop::DType;
using uop::Graph;
using uop::Node;
using uop::Op;
using Words = std::vector<int64_t>;
using Bytes = std::vector<unsigned char>;

Words words_of(const std::string& text) {
  Words out;
  if (text == "-") return out;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) out.push_back(std::stoll(word));
  return out;
}

Bytes bytes_of(const std::string& text) {
  Bytes out;
  if (text == "-") return out;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<unsigned char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return out;
}

DType dtype_of(const std::string& name) {
  DType out = DType::kNone;
  const bool known = name == "-" || dtype::from_name(&out, name).ok();
  EXPECT_TRUE(known) << name;
  return out;
}

Op op_of(const std::string& name) {
  for (int i = 0; i < static_cast<int>(Op::kCount); ++i) {
    if (name == uop::info(static_cast<Op>(i)).name) return static_cast<Op>(i);
  }
  ADD_FAILURE() << "no operation " << name;
  return Op::kCount;
}

class Program {
 public:
  // One line of a case, but for the first.
  void line(std::stringstream& in) {
    std::string what;
    in >> what;
    if (what == "in") return leaf(in);
    if (what == "do") return step(in);
    return check(in);
  }

 private:
  void leaf(std::stringstream& in) {
    std::string name, shape, hex;
    in >> name >> shape >> hex;
    data_.push_back(bytes_of(hex));
    const int64_t slot = static_cast<int64_t>(data_.size());
    nodes_.push_back(
        graph_.make(Op::kBuffer, dtype_of(name), {}, std::array{slot}, words_of(shape)));
    leaves_.push_back(nodes_.back());
  }

  void step(std::stringstream& in) {
    std::string name, dtype_name, sources_text, args_text;
    in >> name >> dtype_name >> sources_text >> args_text;
    std::vector<Node> sources;
    for (int64_t at : words_of(sources_text)) sources.push_back(nodes_[static_cast<size_t>(at)]);
    const DType dtype = dtype_of(dtype_name);
    nodes_.push_back(build(name, dtype, sources, words_of(args_text)));
    ASSERT_NE(nodes_.back(), nullptr);
  }

  Node build(const std::string& name, DType dtype, const std::vector<Node>& sources,
             const Words& args) {
    if (name.rfind("Reduce:", 0) == 0) {
      return graph_.reduce(op_of(name.substr(7)), sources[0], args);
    }
    const Op op = op_of(name);
    if (op == Op::kIota) return graph_.iota(dtype, args[0]);
    const Node x = sources[0];
    const auto part = [&](size_t i) { return uop::Words(args).subspan(i * x->ndim, x->ndim); };
    if (op == Op::kCast) return graph_.cast(x, dtype);
    if (op == Op::kBitcast) return graph_.bitcast(x, dtype);
    if (op == Op::kReshape) return graph_.reshape(x, args);
    if (op == Op::kExpand) return graph_.expand(x, args);
    if (op == Op::kPermute) return graph_.permute(x, args);
    if (op == Op::kFlip) return graph_.flip(x, args);
    if (op == Op::kSlice) return graph_.slice(x, part(0), part(1), part(2));
    if (op == Op::kPad) return graph_.pad(x, part(0), part(1), part(2), args.back());
    if (op == Op::kWindow) return graph_.window(x, args[0], args[1], args[2], args[3]);
    if (op == Op::kUnwindow) return graph_.unwindow(x, args[0], args[1], args[2], args[3]);
    if (op == Op::kCat) return graph_.cat(sources, args[0]);
    if (op == Op::kContiguous) return graph_.make(op, x->dtype, sources, {}, x->shape());
    if (op == Op::kDetach) return graph_.detach(x);
    return graph_.alu(op, sources);
  }

  void check(std::stringstream& in) {
    std::string at, dtype_name, shape, ulp, hex;
    in >> at >> dtype_name >> shape >> ulp >> hex;
    const Node node = nodes_[std::stoul(at)];
    const DType dtype = dtype_of(dtype_name);
    ASSERT_EQ(dtype::name(node->dtype), dtype_name);
    ASSERT_EQ(Words(node->shape().begin(), node->shape().end()), words_of(shape));
    const Bytes want = bytes_of(hex);
    Bytes got(want.size());
    std::vector<Binding> bindings;
    for (size_t i = 0; i < leaves_.size(); ++i) bindings.push_back({leaves_[i], data_[i].data()});
    ASSERT_TRUE(
        interpret(graph_, process_heap(), bindings, std::array{Output{node, got.data()}}).ok());
    const size_t size = dtype::size(dtype);
    for (size_t i = 0; i * size < want.size(); ++i) {
      const unsigned char *a = got.data() + i * size, *b = want.data() + i * size;
      if (std::memcmp(a, b, size) == 0) continue;
      const bool close = dtype::is_float(dtype) && near(dtype, a, b, std::stoi(ulp));
      EXPECT_TRUE(close) << "element " << i << ": " << dtype::load_double(dtype, a) << ", not "
                         << dtype::load_double(dtype, b);
      if (!close) return;
    }
  }

  // Within so many values of the dtype; NaNs are one value, zeros two.
  static bool near(DType dtype, const unsigned char* a, const unsigned char* b, int ulp) {
    const double x = dtype::load_double(dtype, a), y = dtype::load_double(dtype, b);
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
    if (ulp == 0) return false;
    const auto rank = [&](const unsigned char* at) {
      uint64_t code = 0;
      std::memcpy(&code, at, dtype::size(dtype));
      const uint64_t sign = uint64_t{1} << (dtype::bits(dtype) - 1);
      const int64_t magnitude = static_cast<int64_t>(code & (sign - 1));
      return (code & sign) != 0 ? -magnitude : magnitude;
    };
    return std::abs(rank(a) - rank(b)) <= ulp;
  }

  Graph graph_{process_heap()};
  std::vector<Node> nodes_, leaves_;
  std::vector<Bytes> data_;
};

TEST(ReferenceOracle, EveryOperation) {
  const char* folder = std::getenv("ASTER_ML_TEST_DATA");
  const std::string root = folder != nullptr ? folder : "tests";
  std::ifstream file(root + "/runtime/oracle/reference.txt");
  ASSERT_TRUE(file.is_open()) << root;
  std::set<std::string> named;
  std::unique_ptr<Program> program;
  std::string name;
  for (std::string text; std::getline(file, text);) {
    std::stringstream in(text);
    if (text.rfind("case ", 0) == 0) {
      name = text.substr(5);
      program = std::make_unique<Program>();
      continue;
    }
    if (text.rfind("do ", 0) == 0) named.insert(text.substr(3, text.find(' ', 3) - 3));
    SCOPED_TRACE(name);
    program->line(in);
  }
  // All that tensor graphs compute, but for what reference_test.cpp and indexed_test.cpp have, and
  // Dot and Wide, which programs/sticky_test.cpp and wide_test.cpp have.
  for (int i = 0; i < static_cast<int>(Op::kCount); ++i) {
    const uop::OpInfo& row = uop::info(static_cast<Op>(i));
    const std::string op = row.name;
    const bool elsewhere =
        op == "Const" || op == "Buffer" || op == "Param" || op == "Assign" || op == "After" ||
        op == "Call" || op == "Tuple" || op == "Item" || op == "Sink" || op == "Reduce" ||
        op == "Gather" || op == "Scatter" || op == "Scan" || op == "ScanPlace" || op == "LogScan" ||
        op == "Argsort" || op == "Sort" || op == "Foreign" || op == "Dot" || op == "Wide";
    EXPECT_TRUE(!row.tensor || elsewhere || named.contains(op)) << op;
  }
}

}  // namespace
}  // namespace aster::runtime::reference
