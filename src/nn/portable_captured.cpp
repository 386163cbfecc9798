// Captured programs as graphs. A capture keeps no graph: what its realize calls computed is read
// from the keys of the schedules that it runs, which say everything but where memory is, and that
// the capture noted.
#include <algorithm>
#include <span>

#include "engine/indexing.h"
#include "nn/portable.h"

namespace aster::nn::portable {

using buffer::Storage;
using engine::Array;
using engine::Entry;
using engine::need;
using engine::Program;
using engine::Recording;
using uop::Op;
using uop::Words;

namespace {

constexpr uint32_t kNone = UINT32_MAX;

// A piece of memory, and the node of what is there as far as the steps have come.
struct Base {
  const Storage* storage;
  int64_t offset, bytes;
  Node now;
  uint32_t next;  // of the same storage
  bool memory;    // now is memory, not a value that a step computes
};

class Decoder {
 public:
  Decoder(Boundary& out, engine::Engine& engine, const Program& program)
      : out_(out),
        e_(engine),
        g_(engine.graph),
        p_(program),
        bases_(engine.context.heap()),
        first_(engine.context.heap()),
        writes_(engine.context.heap()),
        all_writes_(engine.context.heap()) {}

  Status run() {
    for (size_t i = 0; i < p_.inputs.size(); ++i) {
      Node buffer = nullptr;
      ASTER_TRY(buffer_of(&buffer, p_.inputs[i]));
      ASTER_TRY(add(p_.inputs[i].storage, p_.inputs[i].offset, buffer, true));
      if (i + p_.hidden < p_.inputs.size()) ASTER_TRY(out_.inputs.push(buffer));
    }
    ASTER_TRY(draw());
    for (const Entry& entry : p_.entries) ASTER_TRY(decode(entry));
    for (const engine::Result& result : p_.results) ASTER_TRY(take_result(result));
    // Whoever looks at outputs alone finds what is assigned, too.
    if (!out_.outputs.empty() && !all_writes_.empty()) {
      Node& first = out_.outputs[0];
      first = g_.after(first, {all_writes_.data(), all_writes_.size()});
      ASTER_TRY(need(first));
    }
    return take_names();
  }

 private:
  Words shape_of(const Array& array) const { return p_.shape(array); }
  Status buffer_of(Node* out, const Array& array, Storage* storage = nullptr) {
    *out =
        engine::buffer_node_on(e_, storage == nullptr ? array.storage : storage,
                               array.storage->device, array.offset, array.dtype, shape_of(array));
    return need(*out);
  }
  Status add(const Storage* storage, int64_t offset, Node now, bool memory) {
    const auto bytes = static_cast<int64_t>(dtype::size(now->dtype)) * now->count();
    const auto at = static_cast<uint32_t>(bases_.size());
    ASTER_TRY(bases_.push(Base{storage, offset, bytes, now, first_.get(storage, kNone), memory}));
    return first_.set(storage, at);
  }
  uint32_t find(const Storage* storage, int64_t offset, int64_t bytes) const {
    uint32_t at = first_.get(storage, kNone);
    while (at != kNone &&
           (bases_[at].offset > offset || bases_[at].offset + bases_[at].bytes < offset + bytes))
      at = bases_[at].next;
    return at;
  }

  // Random words: every run draws others, from a state that is the program's own.
  Status draw() {
    Vec<Storage*> states(e_.context.heap());
    for (const engine::Drawn& drawn : p_.drawn) {
      if (std::ranges::find(states, drawn.state) == states.end())
        ASTER_TRY(states.push(drawn.state));
    }
    for (Storage* storage : states) ASTER_TRY(draw_of(storage));
    return p_.drawn.empty() ? kOk : end_step();
  }
  Status draw_of(Storage* storage) {
    static_assert(sizeof(engine::RandomState) == 2 * sizeof(uint64_t));
    const auto u64 = dtype::DType::kUInt64;
    const Node state = engine::buffer_node(e_, storage, 0, u64, std::array<int64_t, 1>{2});
    const auto word = [&](int64_t at) {
      return g_.slice(state, std::array{at}, std::array<int64_t, 1>{1}, std::array<int64_t, 1>{1});
    };
    const Node counter = word(0), key = word(1);
    uint64_t words = 0;
    for (const engine::Drawn& drawn : p_.drawn) {
      if (drawn.state != storage) continue;
      const auto count =
          static_cast<int64_t>((drawn.words + engine::kRandomChunk - 1) / engine::kRandomChunk);
      const std::array shape{count};
      const auto number = [&](uint64_t value) {
        return g_.constant_int(u64, static_cast<int64_t>(value), shape);
      };
      const Node chunk = g_.alu(Op::kMul, g_.iota(u64, count), number(engine::kRandomChunk));
      const Node first = g_.alu(Op::kAdd, g_.expand(counter, shape), number(words));
      const Node keys =
          g_.alu(Op::kThreefry, g_.alu(Op::kAdd, first, chunk), g_.expand(key, shape));
      ASTER_TRY(need(keys));
      ASTER_TRY(add(drawn.keys, 0, keys, false));
      ASTER_TRY(out_.roots.push(keys));
      words += drawn.words;
    }
    const Node after =
        g_.alu(Op::kAdd, counter,
               g_.constant_int(u64, static_cast<int64_t>(words), std::array<int64_t, 1>{1}));
    const Node write = g_.assign(counter, after);
    ASTER_TRY(need(write));
    ASTER_TRY(all_writes_.push(write));
    return out_.roots.push(write);
  }
  Status end_step() { return out_.step_ends.push(static_cast<uint32_t>(out_.roots.size())); }

  // The memory that a leaf is a part of. Of memory that is assigned, all leaves are parts of one.
  Status base_of(uint32_t* out, const Recording::Ref& ref) {
    *out = find(ref.storage, ref.offset, static_cast<int64_t>(ref.bytes));
    if (*out != kNone) return kOk;
    const auto made = std::ranges::find(p_.renewed, ref.storage, &engine::Made::storage);
    const Recording::Ref* widest = &ref;
    if (p_.writes.touches(ref.whole)) {
      for (const Recording::Ref& other : p_.params) {
        if (other.storage == ref.storage && other.whole.contains(widest->whole)) widest = &other;
      }
    }
    Node now = nullptr;
    const bool renewed = made != p_.renewed.end();
    ASTER_TRY(buffer_of(&now, widest->buffer, renewed ? made->first : nullptr));
    ASTER_TRY(add(ref.storage, widest->buffer.offset, now, !renewed));
    *out = static_cast<uint32_t>(bases_.size() - 1);
    return kOk;
  }
  // What a step computed and a later one assigns to: memory to which it is written first.
  Status have_memory(Base& base) {
    if (base.memory) return kOk;
    const Node value = base.now;
    const Node memory = engine::buffer_node(e_, const_cast<Storage*>(base.storage), base.offset,
                                            value->dtype, value->shape());
    const Node write = g_.assign(memory, value);
    ASTER_TRY(need(write));
    base.now = g_.after(memory, {&write, 1});
    base.memory = true;
    ASTER_TRY(out_.roots.push(write));
    return need(base.now);
  }

  // Elements of a base, from a byte of its storage on.
  Status part(Node* out, const Base& base, int64_t offset, dtype::DType dtype, Words shape) {
    Node x = base.now;
    const auto size = static_cast<int64_t>(dtype::size(dtype));
    if (x->dtype != dtype) {
      if (dtype::size(x->dtype) != dtype::size(dtype)) {
        return ASTER_FAIL(kUNSUPPORTED, "memory of %s is read as %s as well", uop::brief(x).text,
                          dtype::name(dtype));
      }
      x = g_.bitcast(x, dtype);
      ASTER_TRY(need(x));
    }
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    const int64_t first = size == 0 ? 0 : (offset - base.offset) / size;
    if (count == x->count()) {
      *out = std::ranges::equal(shape, x->shape()) ? x : g_.reshape(x, shape);
    } else if (!slice(out, x, first, shape)) {
      const std::array all{x->count()}, start{first}, step{int64_t{1}}, some{count};
      *out = g_.reshape(g_.slice(g_.reshape(x, all), start, step, some), shape);
    }
    return need(*out);
  }
  // The part as rows of x, where it is some: as the step saw it.
  bool slice(Node* out, Node x, int64_t first, Words shape) {
    if (shape.size() != x->ndim) return false;
    uop::Dims start(x->ndim, 0);
    int64_t rest = first, inner = x->count();
    bool whole = true;  // every axis so far is of one element
    for (size_t i = 0; i < x->ndim; ++i) {
      if (!whole && shape[i] != x->dim(i)) return false;
      whole &= shape[i] == 1;
      inner /= std::max<int64_t>(x->dim(i), 1);
      if (inner == 0) return false;
      start[i] = rest / inner;
      rest %= inner;
      if (start[i] + shape[i] > x->dim(i)) return false;
    }
    *out = g_.slice(x, start, uop::Dims(x->ndim, 1), shape);
    return true;
  }

  // One realize call.
  struct Decoding {
    explicit Decoding(Memory& memory) : nodes(memory), base(memory), sources(memory) {}
    Vec<Node> nodes;
    Vec<uint32_t> base;  // that a node is a view of, or writes to; kNone
    Vec<Node> sources;
  };
  Status decode(const Entry& entry) {
    if (entry.exe->whole != nullptr) {
      return ASTER_FAIL(kUNSUPPORTED, "the program is %s's own: what it was loaded from is it",
                        device::name(entry.exe->device->code).text);
    }
    const Vec<int64_t>& key = entry.exe->key;
    if (key.size() < 1 + entry.outputs) return ASTER_FAIL(kINTERNAL, "a schedule without its key");
    const Words words(key.data() + 1, key.size() - 1);
    ASTER_TRY(find_written(entry, words));
    Decoding d(e_.context.heap());
    writes_.clear();
    size_t at = 0;
    while (at < words.size() - entry.outputs) ASTER_TRY(decode_node(d, entry, words, &at));
    for (uint32_t i = 0; i < entry.outputs; ++i) {
      const Node root = d.nodes[static_cast<size_t>(words[at + i])];
      const std::span<const Node> step(out_.roots.begin(), out_.roots.end());
      if (std::ranges::find(step.subspan(step_begin()), root) == step.end())
        ASTER_TRY(out_.roots.push(root));
      const Storage* storage = p_.outputs[entry.first_output + i];
      if (root->op == Op::kAssign || storage == nullptr || first_.contains(storage)) continue;
      ASTER_TRY(add(storage, 0, root, false));
    }
    for (const Write& write : writes_) {
      Base& base = bases_[write.base];
      base.now = g_.after(base.now, {&write.node, 1});
      ASTER_TRY(need(base.now));
      ASTER_TRY(all_writes_.push(write.node));
    }
    return end_step();
  }
  size_t step_begin() const { return out_.step_ends.empty() ? 0 : out_.step_ends.back(); }

  // One node in the words of a key: engine/prepare.cpp writes them.
  struct Head {
    Op op;
    dtype::DType dtype;
    size_t ndim, sources, arguments;
    Words leaf, args, shape, positions;
    size_t end;
  };
  static Head read_head(Words words, size_t at) {
    const auto head = static_cast<uint64_t>(words[at++]);
    Head h{};
    h.op = static_cast<Op>(head & 255);
    h.dtype = static_cast<dtype::DType>(head >> 8 & 255);
    h.ndim = head >> 16 & 65535;
    h.sources = head >> 32;
    if (h.op == Op::kBuffer) {
      h.leaf = words.subspan(at, 5);
      at += 5;
    } else {
      h.arguments = static_cast<size_t>(words[at++]);
      h.args = words.subspan(at, h.arguments);
      at += h.arguments;
    }
    h.shape = words.subspan(at, h.ndim);
    at += h.ndim;
    h.positions = words.subspan(at, h.sources);
    h.end = at + h.sources;
    return h;
  }
  static bool leads_to_memory(Op op) {
    return uop::is_movement(op) || uop::is_view(op) || op == Op::kAfter || op == Op::kAssign;
  }

  // Leaves that the call assigns to are memory from now on.
  Status find_written(const Entry& entry, Words words) {
    Vec<uint32_t> leaf(e_.context.heap());
    for (size_t at = 0; at < words.size() - entry.outputs;) {
      const Head h = read_head(words, at);
      at = h.end;
      uint32_t from = kNone;
      if (h.op == Op::kBuffer) {
        from = static_cast<uint32_t>(h.leaf[0]);
      } else if (h.sources != 0 && leads_to_memory(h.op)) {
        from = leaf[static_cast<size_t>(h.positions[0])];
      }
      ASTER_TRY(leaf.push(from));
      if (h.op != Op::kAssign || from == kNone) continue;
      uint32_t base = kNone;
      ASTER_TRY(base_of(&base, p_.params[entry.first_param + from]));
      ASTER_TRY(have_memory(bases_[base]));
    }
    return kOk;
  }

  Status decode_node(Decoding& d, const Entry& entry, Words words, size_t* at) {
    const Head h = read_head(words, *at);
    *at = h.end;
    Node node = nullptr;
    uint32_t base = kNone;
    if (h.op == Op::kForeign)
      return ASTER_FAIL(kUNSUPPORTED, "a kernel that is not the library's is in the program");
    if (h.op == Op::kBuffer) {
      const Recording::Ref& ref = p_.params[entry.first_param + static_cast<size_t>(h.leaf[0])];
      ASTER_TRY(base_of(&base, ref));
      const int64_t first = h.leaf[1] * static_cast<int64_t>(dtype::size(h.dtype));
      ASTER_TRY(part(&node, bases_[base], ref.offset + first, h.dtype, h.shape));
    } else {
      d.sources.clear();
      for (const int64_t position : h.positions)
        ASTER_TRY(d.sources.push(d.nodes[static_cast<size_t>(position)]));
      node = g_.make(h.op, h.dtype, {d.sources.data(), d.sources.size()}, h.args, h.shape);
      ASTER_TRY(need(node));
      if (h.sources != 0 && leads_to_memory(h.op))
        base = d.base[static_cast<size_t>(h.positions[0])];
    }
    if (h.op == Op::kAssign && base != kNone) ASTER_TRY(writes_.push(Write{base, node}));
    ASTER_TRY(d.base.push(base));
    return d.nodes.push(node);
  }

  Status take_result(const engine::Result& result) {
    const Array& array = result.array;
    const auto bytes = static_cast<int64_t>(engine::array_bytes(p_, array));
    const uint32_t base = find(array.storage, array.offset, bytes);
    Node node = nullptr;
    if (base == kNone) {
      ASTER_TRY(buffer_of(&node, array));
    } else {
      ASTER_TRY(part(&node, bases_[base], array.offset, array.dtype, shape_of(array)));
    }
    return out_.outputs.push(node);
  }

  Status take_names() {
    Memory& memory = e_.context.heap();
    const size_t inputs = p_.inputs.size(), results = p_.results.size();
    for (size_t i = 0; i < p_.values.size(); ++i) {
      const engine::Value& value = p_.values[i];
      Text name(memory);
      name << value.name.view();
      ASTER_TRY(name.status());
      if (i < inputs) {
        if (i + p_.hidden < inputs) ASTER_TRY(out_.input_names.push(std::move(name)));
      } else if (i < inputs + results) {
        ASTER_TRY(out_.output_names.push(std::move(name)));
      } else if (value.named) {
        Node buffer = nullptr;
        ASTER_TRY(buffer_of(&buffer, value.array));
        ASTER_TRY(out_.named.push(Named{buffer, std::move(name)}));
      }
    }
    return kOk;
  }

  struct Write {
    uint32_t base;
    Node node;
  };
  Boundary& out_;
  engine::Engine& e_;
  uop::Graph& g_;
  const Program& p_;
  Vec<Base> bases_;
  Map<const Storage*, uint32_t> first_;
  Vec<Write> writes_;     // of the call
  Vec<Node> all_writes_;  // of all
};

}  // namespace

Status take_captured(Boundary* out, engine::Engine& engine, const Program& program) {
  if (engine.recording != nullptr) return ASTER_FAIL(kSTATE, "a capture is open");
  out->captured = &program;
  return Decoder(*out, engine, program).run();
}

}  // namespace aster::nn::portable
