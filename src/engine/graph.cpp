// Graphs for people at every level: what realising some tensors would do, written and not done.
#include <algorithm>
#include <cstring>

#include "codegen/lowering.h"
#include "engine/dry_run.h"
#include "engine/graph_text.h"
#include "runtime/state.h"
#include "uop/print.h"

namespace aster::engine {
namespace {

using uop::Node;
using uop::Nodes;
using uop::Op;

constexpr const char* kLevels[] = {"tensor", "prepared", "schedule", "kernel",
                                   "source", "plan",     "program"};

struct View {
  Engine& engine;
  int32_t level, format;
};

// What is shown as something else than its family.
constexpr struct {
  Op op;
  Shown as;
} kShownOps[] = {
    {Op::kBuffer, Shown::kInput},        {Op::kParam, Shown::kInput},
    {Op::kLoad, Shown::kInput},          {Op::kStore, Shown::kOutput},
    {Op::kAssign, Shown::kOutput},       {Op::kConst, Shown::kConstant},
    {Op::kIota, Shown::kConstant},       {Op::kRange, Shown::kLoop},
    {Op::kReduce, Shown::kReduction},    {Op::kFold, Shown::kReduction},
    {Op::kScan, Shown::kReduction},      {Op::kScanPlace, Shown::kReduction},
    {Op::kLogScan, Shown::kReduction},   {Op::kCarry, Shown::kReduction},
    {Op::kArgsort, Shown::kReduction},   {Op::kSort, Shown::kReduction},
    {Op::kScatter, Shown::kReduction},   {Op::kGather, Shown::kMovement},
    {Op::kCast, Shown::kElementwise},    {Op::kBitcast, Shown::kElementwise},
    {Op::kForeign, Shown::kElementwise}, {Op::kWide, Shown::kElementwise},
};

Shown shown_as(Node node) {
  for (const auto& row : kShownOps) {
    if (row.op == node->op) return row.as;
  }
  if (uop::is_movement(node->op)) return Shown::kMovement;
  return uop::is_alu(node->op) ? Shown::kElementwise : Shown::kStructure;
}

// What a Const holds, the slot of a Param, the loop of a Range; "" for others.
void write_value(Text& out, Node node) {
  if (node->op == Op::kConst) {
    if (dtype::is_float(node->dtype)) {
      out.format(" %.9g", uop::const_double(node));
    } else if (node->dtype == DType::kUInt64) {
      out << ' ' << static_cast<uint64_t>(node->arg(0));
    } else {
      out << ' ' << node->arg(0);
    }
  } else if (node->op == Op::kParam) {
    out << ' ' << node->arg(0);
  } else if (node->op == Op::kRange) {
    out.format(" %lld: 0 to %lld", static_cast<long long>(node->arg(0)),
               static_cast<long long>(node->arg(1) - 1));
  }
}

Status write_node(GraphText& graph, Memory& memory, Node node) {
  Text title(memory), text(memory);
  title << uop::full_name(node);
  write_value(title, node);
  ASTER_TRY(title.status());
  const bool value = node->dtype != DType::kNone;
  graph.node(title.view(), value ? uop::brief(node).text : "", shown_as(node));
  graph.detail("meaning", uop::info(node->op).meaning);
  if (value) {
    text.format("%lld", static_cast<long long>(node->count()));
    graph.detail("elements", text.view());
    text.clear();
    text.format("%lld", static_cast<long long>(node->count()) *
                            static_cast<long long>(dtype::size(node->dtype)));
    graph.detail("bytes", text.view());
  }
  const uop::Words words = uop::plain_arguments(node);
  if (!words.empty() && node->op != Op::kConst) {
    text.clear();
    for (size_t i = 0; i < words.size(); ++i) text << (i == 0 ? "" : ", ") << words[i];
    graph.detail("arguments", text.view());
  }
  if (node->vmin != INT64_MIN && node->vmax != INT64_MAX) {
    text.clear();
    text << node->vmin << " to " << node->vmax;
    graph.detail("values", text.view());
  }
  graph.node_end();
  return text.status();
}

// Edges among nodes that stand in numbers.
void write_edges(GraphText& graph, Nodes nodes, const Map<Node, uint32_t>& numbers) {
  for (Node node : nodes) {
    const uint32_t* to = numbers.find(node);
    if (to == nullptr) continue;
    for (size_t i = 0; i < node->nsrc; ++i) {
      const uint32_t* from = numbers.find(node->src(i));
      char label[16] = "";
      if (node->nsrc > 1) std::snprintf(label, sizeof(label), "%zu", i);
      if (from != nullptr) graph.edge(*from, *to, label);
    }
  }
}

Status write_nodes(Text& out, const View& view, Nodes roots) {
  Memory& memory = out.memory();
  Vec<Node> nodes(memory);
  Map<Node, uint32_t> numbers(memory);
  // Bodies of calls are their business: the page of a transformer shows the calls.
  ASTER_TRY(walk(&nodes, roots));
  GraphText graph(out, view.format, kLevels[view.level]);
  for (Node node : nodes) {
    if (node->op == Op::kSink) continue;
    ASTER_TRY(numbers.set(node, graph.nodes()));
    ASTER_TRY(write_node(graph, memory, node));
  }
  write_edges(graph, {nodes.data(), nodes.size()}, numbers);
  graph.finish();
  return out.status();
}

// ---- Schedules ----

struct Edge {
  uint32_t from, to;
};

class ScheduleText {
 public:
  ScheduleText(Text& out, const View& view, uop::Graph& scratch, const Schedule& schedule)
      : view_(view),
        scratch_(scratch),
        schedule_(schedule),
        memory_(scratch.memory()),
        graph_(out, view.format, kLevels[view.level]),
        current_(memory_),
        edges_(memory_) {}

  Status run() {
    ASTER_TRY(runtime::host_target(&target_, view_.engine.context));
    ASTER_TRY(current_.resize(schedule_.slots.size(), UINT32_MAX));
    for (size_t i = 0; i < schedule_.items.size(); ++i) {
      const Item& item = schedule_.items[i];
      ASTER_TRY(item.kind == ItemKind::kKernel ? kernel(item, i) : library_call(item, i));
    }
    for (const Edge& edge : edges_) graph_.edge(edge.from, edge.to);
    graph_.finish();
    return kOk;
  }

 private:
  enum Use : uint8_t { kReads = 1, kWrites = 2 };

  // Which operands an item reads and writes.
  Status uses(Vec<uint8_t>* out, const Item& item) {
    ASTER_TRY(out->resize(item.operand_count, 0));
    if (item.kind == ItemKind::kLibrary) {
      for (uint8_t& use : *out) use = kReads;
      if (!out->empty()) out->back() = kWrites;
      return kOk;
    }
    Vec<Node> nodes(memory_);
    ASTER_TRY(uop::toposort(&nodes, std::array{item.kernel}));
    for (Node node : nodes) {
      if (node->op != Op::kLoad && node->op != Op::kStore) continue;
      const auto operand = static_cast<size_t>(node->src(0)->arg(0));
      if (operand < out->size()) (*out)[operand] |= node->op == Op::kLoad ? kReads : kWrites;
    }
    return kOk;
  }

  // A node for the state that a slot is in. Written memory is another node than before, so that
  // the picture has no circles.
  Status memory(uint32_t* out, uint32_t number, bool written) {
    constexpr const char* kNames[] = {"Input", "Result", "Temporary", "Absent"};
    constexpr Shown kShown[] = {Shown::kInput, Shown::kOutput, Shown::kTemporary, Shown::kConstant};
    const Slot& slot = schedule_.slots[number];
    if (!written && current_[number] != UINT32_MAX) return *out = current_[number], kOk;
    const auto kind = static_cast<size_t>(slot.kind);
    const bool assigned = written && slot.kind == SlotKind::kParam;
    Text title(memory_), text(memory_);
    title << kNames[kind] << ' ' << slot.index << (assigned ? ", written" : "");
    text.format("%s[%lld]", dtype::name(slot.dtype), static_cast<long long>(slot.count));
    ASTER_TRY(title.status());
    ASTER_TRY(text.status());
    *out = graph_.nodes();
    graph_.node(title.view(), text.view(), assigned ? Shown::kOutput : kShown[kind]);
    text.clear();
    text << slot.bytes();
    graph_.detail("bytes", text.view());
    if (slot.kind == SlotKind::kTemporary) {
      text.clear();
      text.format("bytes from %lld of %lld", static_cast<long long>(slot.offset),
                  static_cast<long long>(schedule_.arena_bytes));
      graph_.detail("place", text.view());
      text.clear();
      text.format("launches %u to %u", slot.first, slot.last);
      graph_.detail("alive", text.view());
    }
    graph_.node_end();
    current_[number] = *out;
    return text.status();
  }

  // Nodes of what an item reads, before its own.
  Status read_memory(const Item& item, const Vec<uint8_t>& use, Vec<uint32_t>* nodes) {
    for (size_t i = 0; i < use.size(); ++i) {
      if ((use[i] & kReads) == 0 || schedule_.slot(item, i).kind == SlotKind::kAbsent) continue;
      uint32_t node = 0;
      ASTER_TRY(memory(&node, schedule_.operands[item.first_operand + i], false));
      ASTER_TRY(nodes->push(node));
    }
    return kOk;
  }
  Status connect(const Item& item, const Vec<uint8_t>& use, const Vec<uint32_t>& reads,
                 uint32_t self) {
    for (uint32_t from : reads) ASTER_TRY(edges_.push(Edge{from, self}));
    for (size_t i = 0; i < use.size(); ++i) {
      if ((use[i] & kWrites) == 0) continue;
      uint32_t node = 0;
      ASTER_TRY(memory(&node, schedule_.operands[item.first_operand + i], true));
      ASTER_TRY(edges_.push(Edge{self, node}));
    }
    return kOk;
  }

  // "64 x 10", the loops of a store, and "Add 64" for every reduction.
  Status loops(Text& out, Node kernel) {
    for (size_t s = 0; s < kernel->nsrc; ++s) {
      Node store = kernel->src(s);
      if (s != 0) out << "; ";
      if (store->nsrc == 3) out << "one element";
      for (size_t i = 3; i < store->nsrc; ++i)
        out << (i == 3 ? "" : " x ") << store->src(i)->arg(1);
    }
    return out.status();
  }
  Status reductions(Text& out, Nodes nodes) {
    for (Node node : nodes) {
      if (node->op != Op::kFold) continue;
      out << (out.view().empty() ? "" : "; ") << uop::info(static_cast<Op>(node->arg(0))).name;
      for (size_t i = 1; i < node->nsrc; ++i) out << (i == 1 ? " " : " x ") << node->src(i)->arg(1);
    }
    return out.status();
  }
  Status operands(Text& out, const Item& item, const Vec<uint8_t>& use) {
    constexpr const char* kNames[] = {"input ", "result ", "temporary ", "absent "};
    for (size_t i = 0; i < use.size(); ++i) {
      const Slot& s = schedule_.slot(item, i);
      if (s.kind == SlotKind::kAbsent) continue;
      out << (out.view().empty() ? "" : "\n") << kNames[static_cast<size_t>(s.kind)] << s.index;
      out.format(": %s[%lld], %s", dtype::name(s.dtype), static_cast<long long>(s.count),
                 use[i] == kReads    ? "read"
                 : use[i] == kWrites ? "written"
                                     : "read and written");
    }
    return out.status();
  }
  Status operand_details(const Item& item, const Vec<uint8_t>& use) {
    Text text(memory_);
    ASTER_TRY(operands(text, item, use));
    graph_.detail("operands", text.view());
    text.clear();
    text << schedule_.operand_bytes(item);
    graph_.detail("bytes of operands", text.view());
    return text.status();
  }
  void estimate(const char* name, double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.0f", value);
    graph_.detail(name, text);
  }

  // What the level shows of a kernel beside its name.
  Status write_code(Text& out, Node kernel, const codegen::Rendered& made) {
    switch (view_.level) {
      case ASTER_ML_GRAPH_SOURCE:
        out << made.code.text.view();
        break;
      case ASTER_ML_GRAPH_PLAN: {
        codegen::Plan plan(memory_);
        ASTER_TRY(codegen::plan_kernel(&plan, kernel, target_, memory_));
        return codegen::print(out, plan);
      }
      case ASTER_ML_GRAPH_PROGRAM: {
        codegen::program::Module module(memory_);
        ASTER_TRY(codegen::lower_kernel(&module, made.name, kernel, target_, memory_));
        return codegen::program::print(out, module);
      }
      default:
        break;
    }
    return out.status();
  }

  Status kernel(const Item& item, size_t number) {
    codegen::Rendered made(memory_);
    ASTER_TRY(codegen::render(made, scratch_, item.kernel, target_));
    Vec<uint8_t> use(memory_);
    Vec<uint32_t> reads(memory_);
    Vec<Node> nodes(memory_);
    ASTER_TRY(uses(&use, item));
    ASTER_TRY(uop::toposort(&nodes, std::array{item.kernel}));
    if (view_.level == ASTER_ML_GRAPH_KERNEL) return kernel_nodes(made, nodes);
    ASTER_TRY(read_memory(item, use, &reads));
    const uint32_t self = graph_.nodes();
    Text subtitle(memory_), text(memory_);
    ASTER_TRY(loops(subtitle, item.kernel));
    ASTER_TRY(reductions(text, {nodes.data(), nodes.size()}));
    if (!text.view().empty()) subtitle << ", " << text.view();
    // Long lists stand in the details alone.
    if (subtitle.view().size() > 48) {
      subtitle.truncate(45);
      subtitle << "...";
    }
    ASTER_TRY(subtitle.status());
    Text title(memory_), code(memory_);
    title.format("Kernel %zu", number);
    ASTER_TRY(title.status());
    ASTER_TRY(write_code(code, item.kernel, made));
    graph_.node(title.view(), subtitle.view(), Shown::kKernel, code.view());
    graph_.detail("computes", made.title);
    graph_.detail("function", made.name);
    subtitle.clear();
    ASTER_TRY(loops(subtitle, item.kernel));
    graph_.detail("loops", subtitle.view());
    if (!text.view().empty()) graph_.detail("reductions", text.view());
    ASTER_TRY(operand_details(item, use));
    const auto tasks = static_cast<double>(made.tasks);
    estimate("operations, estimated", made.task_flops * tasks);
    estimate("bytes moved, estimated", made.task_bytes * tasks);
    estimate("tasks", tasks);
    estimate("nodes", static_cast<double>(nodes.size()));
    graph_.node_end();
    return connect(item, use, reads, self);
  }

  Status kernel_nodes(const codegen::Rendered& code, const Vec<Node>& nodes) {
    Map<Node, uint32_t> numbers(memory_);
    graph_.group_begin(code.name);
    for (Node node : nodes) {
      if (node->op == Op::kSink) continue;
      ASTER_TRY(numbers.set(node, graph_.nodes()));
      ASTER_TRY(write_node(graph_, memory_, node));
    }
    graph_.group_end();
    for (Node node : nodes) {
      if (node->op == Op::kSink) continue;
      for (Node source : node->src())
        ASTER_TRY(edges_.push(Edge{*numbers.find(source), *numbers.find(node)}));
    }
    return kOk;
  }

  Status library_call(const Item& item, size_t number) {
    native::Plan plan(memory_);
    ASTER_TRY(native::prepare(&plan, item.kernel,
                              {schedule_.words.data() + item.first_word, item.word_count}));
    Vec<uint8_t> use(memory_);
    Vec<uint32_t> reads(memory_);
    ASTER_TRY(uses(&use, item));
    const bool alone = view_.level == ASTER_ML_GRAPH_KERNEL;
    if (!alone) ASTER_TRY(read_memory(item, use, &reads));
    const uint32_t self = graph_.nodes();
    graph_.node(plan.name(), uop::brief(item.kernel).text, Shown::kLibrary);
    graph_.detail("operation", uop::full_name(item.kernel));
    ASTER_TRY(operand_details(item, use));
    estimate("nanoseconds, estimated", plan.nanoseconds);
    estimate("tasks", static_cast<double>(plan.tasks));
    estimate("launch", static_cast<double>(number));
    graph_.node_end();
    return alone ? kOk : connect(item, use, reads, self);
  }

  const View& view_;
  uop::Graph& scratch_;
  const Schedule& schedule_;
  Memory& memory_;
  codegen::Target target_;
  GraphText graph_;
  Vec<uint32_t> current_;  // node of each slot's memory as it is now
  Vec<Edge> edges_;
};

Status write_graph(Text& out, const View& view, Nodes nodes) {
  if (view.level == ASTER_ML_GRAPH_TENSOR) return write_nodes(out, view, nodes);
  DryRun run(view.engine);
  ASTER_TRY(run.prepare(nodes));
  if (view.level == ASTER_ML_GRAPH_PREPARED)
    return write_nodes(out, view, std::array{run.prepared()});
  ASTER_TRY(run.schedule());
  ScheduleText text(out, view, run.graph(), run.made());
  ASTER_TRY(text.run());
  return run.memory().failed() ? ASTER_FAIL(kMEMORY, "scheduling ran out of memory") : out.status();
}

// The text into the caller's memory.
Status hand_out(char* out, size_t* length, size_t capacity, const View& view, Nodes nodes) {
  if (length == nullptr) return ASTER_FAIL(kARGUMENT, "length is null");
  if (view.level < 0 || view.level >= static_cast<int32_t>(std::size(kLevels)))
    return ASTER_FAIL(kRANGE, "level %d: levels go from 0 to %zu", view.level,
                      std::size(kLevels) - 1);
  if (view.format != ASTER_ML_GRAPH_DOT && view.format != ASTER_ML_GRAPH_JSON)
    return ASTER_FAIL(kRANGE, "format %d is neither DOT nor JSON", view.format);
  Text text(view.engine.context.heap());
  ASTER_TRY(write_graph(text, view, nodes));
  return give_text(out, length, capacity, text.view());
}

}  // namespace

Status write_graph_text(Text& out, Engine& engine, int32_t level, int32_t format, Nodes nodes) {
  return write_graph(out, {engine, level, format}, nodes);
}

}  // namespace aster::engine

int32_t aster_ml_engine_graph(char* out, size_t* length, size_t capacity,
                              const aster_ml_context* context, const aster_ml_lazy* const* tensors,
                              size_t count, int32_t level, int32_t format) {
  using namespace aster;
  clear_text(out, length, capacity);
  ASTER_ENTER(engine::context_of(context));
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine::engine_of(&engine, *engine::context_of(context)));
  Vec<uop::Node> nodes(engine->context.heap());
  ASTER_TRY(engine::nodes_of(&nodes, *engine, tensors, count));
  return engine::hand_out(out, length, capacity, {*engine, level, format},
                          {nodes.data(), nodes.size()});
}

int32_t aster_ml_engine_graph_uop(char* out, size_t* length, size_t capacity,
                                  const aster_ml_context* context, const aster_ml_uop* root,
                                  int32_t level, int32_t format) {
  using namespace aster;
  clear_text(out, length, capacity);
  ASTER_ENTER(engine::context_of(context));
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine::engine_of(&engine, *engine::context_of(context)));
  const auto* node = reinterpret_cast<uop::Node>(root);
  if (node == nullptr) return ASTER_FAIL(kARGUMENT, "the node is null");
  if (!engine->graph.owns(node)) return ASTER_FAIL(kARGUMENT, "a node of another context");
  const uop::OpInfo& info = uop::info(node->op);
  if (level != ASTER_ML_GRAPH_TENSOR && !info.tensor)
    return ASTER_FAIL(kARGUMENT, "%s is no node of a tensor graph", info.name);
  return engine::hand_out(out, length, capacity, {*engine, level, format}, std::array{node});
}
