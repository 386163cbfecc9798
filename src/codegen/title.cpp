#include "codegen/title.h"

#include <array>
#include <cstdio>

namespace aster::codegen {
namespace {

using dtype::DType;
using uop::Node;
using uop::Op;
using uop::Word;

constexpr size_t kMostWords = 24;   // distinct ones that are looked at
constexpr size_t kWordsBytes = 30;  // of the title
constexpr size_t kSizesBytes = 16;  // of the loops, and of the reductions
constexpr uint8_t kCheapOperation = 1;

struct TitleWord {
  const char* text;
  bool cheap;
};

// What a node says of itself: distinct words, in order.
class Words {
 public:
  void add(const char* text, bool cheap) {
    for (size_t i = 0; i < count_; ++i) {
      if (std::string_view(words_[i].text) == text) return;
    }
    if (count_ < kMostWords) words_[count_++] = {text, cheap};
  }
  bool empty() const { return count_ == 0; }
  // Cheap words go first where the room is short, from the end.
  void write(Text& out) {
    for (const bool cheap : {true, false}) {
      for (size_t i = count_; i-- > 1 && bytes() > kWordsBytes;) {
        if (words_[i].cheap == cheap) words_[i].text = "";
      }
    }
    for (size_t i = 0; i < count_; ++i) {
      if (words_[i].text[0] == 0) continue;
      for (const char* c = words_[i].text; *c != 0; ++c) {
        out << static_cast<char>(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
      }
      out << '_';
    }
  }

 private:
  size_t bytes() const {
    size_t sum = 0;
    for (size_t i = 0; i < count_; ++i) {
      const size_t length = std::string_view(words_[i].text).size();
      sum += length == 0 ? 0 : length + 1;
    }
    return sum;
  }
  TitleWord words_[kMostWords] = {};
  size_t count_ = 0;
};

Node without_casts(Node node) {
  while (node->op == Op::kCast) node = node->src(0);
  return node;
}

bool is_product(Node fold) {
  const Op term = without_casts(fold->src(0))->op;
  return static_cast<Op>(fold->arg(0)) == Op::kAdd && uop::multiplies(term);
}

// Products of two tensors that each lack a loop of the other.
const char* product_word(Node fold, Memory& memory, Status* status) {
  const Node product = without_casts(fold->src(0));
  Vec<Node> nodes(memory);
  uint64_t ranges[2] = {0, 0};
  for (size_t i = 0; i < 2; ++i) {
    nodes.clear();
    *status = uop::toposort(&nodes, std::array{product->src(i)});
    if (!status->ok()) return "";
    for (Node node : nodes) {
      if (node->op == Op::kRange) ranges[i] |= uint64_t{1} << (node->arg(0) & 63);
    }
  }
  return (ranges[0] & ~ranges[1]) != 0 && (ranges[1] & ~ranges[0]) != 0 ? "matmul" : "dot";
}

// max(x, 0), or x where 0 < x and else 0.
bool is_relu(Node node) {
  if (node->op == Op::kMax) return uop::is_const_value(node->src(1), 0);
  if (node->op != Op::kWhere || node->src(0)->op != Op::kCmpLt) return false;
  const Node positive = node->src(0);
  return uop::is_const_value(positive->src(0), 0) && positive->src(1) == node->src(1) &&
         uop::is_const_value(node->src(2), 0);
}

const char* fold_word(Op op) {
  return op == Op::kAdd ? "sum" : op == Op::kMul ? "prod" : uop::info(op).name;
}

const char* carry_word(Op op) {
  constexpr struct {
    Op op;
    const char* word;
  } kWords[] = {{Op::kAdd, "cumsum"}, {Op::kMul, "cumprod"}, {Op::kMax, "cummax"},
                {Op::kMin, "cummin"}, {Op::kAnd, "cumand"},  {Op::kOr, "cumor"}};
  for (const auto& row : kWords) {
    if (row.op == op) return row.word;
  }
  return "recurrence";
}

bool is_index(Node node) {
  if (node->dtype == DType::kWeakInt) return true;
  for (Node source : node->src()) {
    if (source->dtype == DType::kWeakInt) return true;
  }
  return false;
}

struct Reader {
  explicit Reader(Memory& memory) : nodes(memory), flags(memory), sizes(memory), folded(memory) {}
  Vec<Node> nodes;
  Map<Node, uint8_t> flags;  // of nodes in which something is loaded, or products that a word says
  Words words;
  Vec<Word> sizes, folded;
  bool loads = false;
  size_t stores = 0;

  Status read(Node sink, Memory& memory) {
    ASTER_TRY(uop::toposort(&nodes, std::array{sink}));
    for (Node node : nodes) {
      if (node->op == Op::kFold && is_product(node))
        ASTER_TRY(flags.set(without_casts(node->src(0)), kSaid));
      if (node->op == Op::kWhere && is_relu(node)) ASTER_TRY(flags.set(node->src(0), kSaid));
    }
    for (Node node : nodes) {
      uint8_t flag = flags.get(node, 0);
      for (Node source : node->src())
        flag = static_cast<uint8_t>(flag | (flags.get(source, 0) & kLoaded));
      if (node->op == Op::kLoad) {
        loads = true;
        if ((flags.get(node->src(1), 0) & kLoaded) != 0) words.add("gather", false);
        flag |= kLoaded;
      } else if (node->op == Op::kFold) {
        ASTER_TRY(read_fold(node, memory));
      } else if (node->op == Op::kCarry) {
        words.add(carry_word(static_cast<Op>(node->arg(0))), false);
      } else if (node->op == Op::kStore) {
        ASTER_TRY(read_store(node));
      } else if (uop::is_alu(node->op) && !is_index(node) && (flag & kSaid) == 0) {
        const bool relu = is_relu(node);
        const uop::OpInfo& info = uop::info(node->op);
        words.add(relu ? "relu" : info.name, !relu && info.cost <= kCheapOperation);
      }
      ASTER_TRY(flags.set(node, flag));
    }
    if (words.empty()) words.add(loads ? "copy" : "fill", false);
    return kOk;
  }

 private:
  static constexpr uint8_t kLoaded = 1, kSaid = 2;
  Status read_fold(Node fold, Memory& memory) {
    Status status;
    words.add(is_product(fold) ? product_word(fold, memory, &status)
                               : fold_word(static_cast<Op>(fold->arg(0))),
              false);
    ASTER_TRY(status);
    if (!folded.empty()) return kOk;
    for (Node range : fold->src().subspan(1)) ASTER_TRY(folded.push(range->arg(1)));
    return kOk;
  }
  Status read_store(Node store) {
    if (stores++ > 0) return kOk;
    for (Node range : store->src().subspan(3)) ASTER_TRY(sizes.push(range->arg(1)));
    return kOk;
  }
};

}  // namespace

void write_sizes(Text& out, uop::Words sizes) {
  const size_t before = out.view().size();
  double count = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i != 0) out << 'x';
    out << sizes[i];
    count *= static_cast<double>(sizes[i]);
  }
  if (sizes.empty()) out << '1';
  if (out.view().size() - before <= kSizesBytes) return;
  out.truncate(before);
  out.format("n%.0f", count);
  if (out.view().size() - before > kSizesBytes) out.truncate(before + kSizesBytes);
}

Status write_title(char (&out)[kTitleBytes], Node sink, Memory& memory) {
  Reader reader(memory);
  ASTER_TRY(reader.read(sink, memory));
  Text text(memory);
  reader.words.write(text);
  write_sizes(text, {reader.sizes.data(), reader.sizes.size()});
  if (!reader.folded.empty()) {
    text << "_r";
    write_sizes(text, {reader.folded.data(), reader.folded.size()});
  }
  if (reader.stores > 1) text << '_' << static_cast<uint64_t>(reader.stores) << "outs";
  ASTER_TRY(text.status());
  std::snprintf(out, sizeof(out), "%s", text.c_str());
  return kOk;
}

}  // namespace aster::codegen
