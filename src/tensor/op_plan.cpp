// Planning: an operation is built of operands without memory, in a context that is dropped.
#include "aster_ml/plan.h"

#include <algorithm>

#include "aster_ml/engine.h"
#include "aster_ml/functions.h"
#include "aster_ml/indexing.h"
#include "aster_ml/linalg.h"
#include "aster_ml/movement.h"
#include "aster_ml/random.h"
#include "aster_ml/spatial.h"
#include "engine/engine.h"
#include "tensor/op_arguments.h"

namespace aster::tensor {

std::string_view ArgumentReader::name() {
  const size_t end = std::min(names.find(' '), names.size());
  const std::string_view own(names.data(), end);
  names.remove_prefix(std::min(end + 1, names.size()));
  return own;
}

const aster_ml_op_attribute* ArgumentReader::find(std::string_view name_of) {
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (name_of != attributes[i].name) continue;
    used[i] = true;
    return &attributes[i];
  }
  return nullptr;
}

int64_t ArgumentReader::integer(std::string_view name_of, int64_t least, int64_t most) {
  const aster_ml_op_attribute* given = find(name_of);
  if (given == nullptr) return 0;
  if (given->kind != ASTER_ML_ATTRIBUTE_INTEGER) {
    return keep(ASTER_FAIL(kARGUMENT, "%s: %s is an integer", operation, given->name)), 0;
  }
  if (given->integer < least || given->integer > most) {
    keep(ASTER_FAIL(kRANGE, "%s: %s is %lld", operation, given->name,
                    static_cast<long long>(given->integer)));
    return 0;
  }
  return given->integer;
}

double ArgumentReader::real(std::string_view name_of) {
  const aster_ml_op_attribute* given = find(name_of);
  if (given == nullptr) return 0;
  if (given->kind == ASTER_ML_ATTRIBUTE_INTEGER) return static_cast<double>(given->integer);
  if (given->kind != ASTER_ML_ATTRIBUTE_REAL)
    keep(ASTER_FAIL(kARGUMENT, "%s: %s is a number", operation, given->name));
  return given->real;
}

const int64_t* ArgumentReader::list(std::string_view name_of, size_t* count) {
  *count = 0;
  const aster_ml_op_attribute* given = find(name_of);
  if (given == nullptr) return nullptr;
  const bool one = given->kind == ASTER_ML_ATTRIBUTE_INTEGER;
  if (!one && given->kind != ASTER_ML_ATTRIBUTE_LIST) {
    return keep(ASTER_FAIL(kARGUMENT, "%s: %s is a list", operation, given->name)), nullptr;
  }
  *count = one ? 1 : given->count;
  if (*count > uop::Dims::kMost || lists_used == kMostLists) {
    return keep(ASTER_FAIL(kRANGE, "%s: %s has %zu elements", operation, given->name, *count)),
           nullptr;
  }
  if (!one && given->list == nullptr && *count != 0) {
    return keep(ASTER_FAIL(kARGUMENT, "%s: %s is a null pointer", operation, given->name)), nullptr;
  }
  uop::Dims& kept = lists[lists_used++];
  kept = uop::Dims(uop::Dims::kMost, 0);
  for (size_t i = 0; i < *count; ++i) kept[i] = one ? given->integer : given->list[i];
  return kept.at;
}

void ArgumentReader::pair(std::string_view name_of, int32_t* to, size_t count) {
  size_t found = 0;
  const int64_t* from = list(name_of, &found);
  if (from == nullptr) return;
  if (found != count) {
    keep(ASTER_FAIL(kARGUMENT, "%s: %.*s has %zu elements, not %zu", operation,
                    static_cast<int>(name_of.size()), name_of.data(), count, found));
  }
  for (size_t i = 0; i < count && i < found; ++i) {
    if (from[i] < INT32_MIN || from[i] > INT32_MAX) {
      keep(ASTER_FAIL(kRANGE, "%s: %.*s is %lld", operation, static_cast<int>(name_of.size()),
                      name_of.data(), static_cast<long long>(from[i])));
    }
    to[i] = static_cast<int32_t>(from[i]);
  }
}

// The length that the next parameters share which are given as lists.
size_t ArgumentReader::count_of_lists(std::string_view rest) {
  size_t count = 0;
  bool any = false;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    const aster_ml_op_attribute* given = nullptr;
    for (const aster_ml_op_attribute& each : attributes) {
      if (std::string_view(rest.data(), end) == each.name) given = &each;
    }
    if (given != nullptr && given->kind == ASTER_ML_ATTRIBUTE_LIST) {
      if (any && given->count != count) break;  // of the next lists
      count = given->count;
      any = true;
    } else if (given != nullptr) {
      if (!any && given->kind == ASTER_ML_ATTRIBUTE_INTEGER) return 1;
      break;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return count;
}

const aster_ml_lazy* ArgumentReader::operand() {
  const size_t at = next_operand++;
  if (at >= operands.size() || absent[at]) return nullptr;
  return &operands[at];
}

Status ArgumentReader::finish() {
  ASTER_TRY(status);
  if (next_operand < operands.size())
    return ASTER_FAIL(kARGUMENT, "%s of %zu operands: it takes %zu", operation, operands.size(),
                      next_operand);
  for (size_t i = 0; i < attributes.size(); ++i) {
    if (!used[i])
      return ASTER_FAIL(kARGUMENT, "%s has no attribute \"%s\"", operation, attributes[i].name);
  }
  return kOk;
}

namespace {

struct Operation {
  const char* name;
  const char* parameters;
  Status (*call)(ArgumentReader& reader);
};
constexpr Operation kOperations[] = {
#define OPERATION(name, parameters) \
  {#name, parameters,               \
   [](ArgumentReader& reader) { return call_with(aster_ml_lazy_##name, reader); }},
#include "tensor/operations.def"
#undef OPERATION
};

// A context to build in, with the defaults of another; nothing is read in it.
class Scratch {
 public:
  Status begin(Context& like, const Graph& graph) {
    aster_ml_context_options options = like.options();
    options.struct_size = sizeof(options);
    options.threads = 1;
    options.log = nullptr;
    options.compiler = "none";
    options.no_disk_cache = 1;
    options.cache_dir = nullptr;
    options.should_cancel = nullptr;
    ASTER_TRY(Status{aster_ml_context_init(&handle_, &options)});
    ASTER_TRY(engine::engine_of(&engine_, *context_of(&handle_)));
    engine_->graph.defaults = graph.defaults;
    return Status{aster_ml_engine_capture_begin(&handle_, nullptr, 0)};
  }
  ~Scratch() {
    if (handle_.impl == nullptr) return;
    const SavedError saved;
    (void)aster_ml_engine_capture_cancel(&handle_);
    (void)aster_ml_context_free(&handle_);
    saved.restore();
  }
  engine::Engine& engine() { return *engine_; }
  const aster_ml_context* handle() const { return &handle_; }

 private:
  aster_ml_context handle_{};
  engine::Engine* engine_ = nullptr;
};

// Operands, without memory.
class Operands {
 public:
  explicit Operands(Memory& memory) : handles(memory), absent(memory) {}
  ~Operands() {
    for (aster_ml_lazy& each : handles) aster_ml_lazy_free(&each);
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  Status add(engine::Engine& engine, const aster_ml_op_operand& given) {
    ASTER_TRY(absent.push(given.dtype == 0));
    ASTER_TRY(handles.push(aster_ml_lazy{}));
    if (given.dtype == 0) return kOk;
    DType dtype;
    ASTER_TRY(dtype::from_any_code(&dtype, given.dtype));
    Words shape;
    ASTER_TRY(shape_argument(&shape, given.ndim, given.shape));
    int64_t count = 0;
    if (!uop::count_elements(shape, &count)) {
      return ASTER_FAIL(kRANGE, "operand %zu: %s%s is too large, or has a negative dimension",
                        handles.size() - 1, dtype::name(dtype), uop::brief_shape(shape).text);
    }
    bytes += static_cast<uint64_t>(count) * dtype::size(engine.graph.strong(dtype));
    Node node =
        engine.graph.param(static_cast<Word>(handles.size()), engine.graph.strong(dtype), shape);
    node = cast(engine.graph, node, dtype);
    engine::Lazy* lazy = nullptr;
    ASTER_TRY(engine::lazy_create(&lazy, engine, node));
    handles.back().impl = lazy->handle;
    return kOk;
  }

  Vec<aster_ml_lazy> handles;
  Vec<bool> absent;
  uint64_t bytes = 0;
};

uint64_t operations_of(const Vec<Node>& nodes) {
  double total = 0;
  for (Node node : nodes) {
    const auto count = static_cast<double>(node->count());
    const bool sums = node->op == uop::Op::kReduce || node->op == uop::Op::kScan;
    if (uop::is_alu(node->op)) total += count * uop::info(node->op).cost;
    if (sums) total += static_cast<double>(node->src(0)->count());
    if (node->op == uop::Op::kDot) total += 2 * static_cast<double>(node->src(0)->count());
  }
  return total < 1.8e19 ? static_cast<uint64_t>(total) : UINT64_MAX;
}

Status describe(aster_ml_op_costs* out, Scratch& scratch, ArgumentReader& reader,
                const Operands& operands) {
  Vec<Node> roots(scratch.engine().context.heap()), nodes(scratch.engine().context.heap());
  out->result_count = static_cast<uint32_t>(reader.results);
  out->bytes = operands.bytes;
  for (size_t i = 0; i < reader.results; ++i) {
    const Node root = node(&reader.out[i]);
    ASTER_TRY(roots.push(root));
    if (root->ndim > ASTER_ML_PLAN_AXES)
      return ASTER_FAIL(kUNSUPPORTED, "%s: a result of %u axes", reader.operation, root->ndim);
    out->results[i].dtype = static_cast<int32_t>(root->dtype);
    out->results[i].ndim = root->ndim;
    std::ranges::copy(root->shape(), out->results[i].shape);
    const size_t size = dtype::size(scratch.engine().graph.strong(root->dtype));
    out->bytes += static_cast<uint64_t>(root->count()) * size;
  }
  ASTER_TRY(uop::toposort(&nodes, {roots.data(), roots.size()}));
  out->operations = operations_of(nodes);
  return kOk;
}

Status plan(aster_ml_op_costs* out, Context& context, const Operation& row,
            std::span<const aster_ml_op_operand> given,
            std::span<const aster_ml_op_attribute> attributes) {
  engine::Engine* engine = nullptr;
  ASTER_TRY(engine::engine_of(&engine, context));
  Scratch scratch;
  ASTER_TRY(scratch.begin(context, engine->graph));
  Operands operands(context.heap());
  for (const aster_ml_op_operand& each : given) ASTER_TRY(operands.add(scratch.engine(), each));
  auto* reader = context.heap().create<ArgumentReader>();
  if (reader == nullptr) return out_of_memory(sizeof(ArgumentReader));
  reader->operation = row.name;
  reader->names = row.parameters;
  reader->context = scratch.handle();
  reader->operands = {operands.handles.data(), operands.handles.size()};
  reader->absent = {operands.absent.data(), operands.absent.size()};
  reader->attributes = attributes;
  Status status = row.call(*reader);
  if (status.code == ASTER_ML_STATE) {
    status = ASTER_FAIL(kUNSUPPORTED, "%s has to see values: it has no plan", row.name);
  }
  aster_ml_op_costs made{};
  if (status.ok()) status = describe(&made, scratch, *reader, operands);
  for (aster_ml_lazy& each : reader->out) aster_ml_lazy_free(&each);
  context.heap().destroy(reader);
  if (status.ok()) write_struct(out, made);
  return status;
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions

int32_t aster_ml_op_plan(aster_ml_op_costs* costs, const aster_ml_context* context,
                         const char* name, const aster_ml_op_operand* operands,
                         size_t operand_count, const aster_ml_op_attribute* attributes,
                         size_t attribute_count) {
  ASTER_ENTER(aster::context_of(context));
  if (costs == nullptr || costs->struct_size < sizeof(costs->struct_size))
    return ASTER_FAIL(kARGUMENT, "costs is null, or its struct_size is not set");
  if (name == nullptr) return ASTER_FAIL(kARGUMENT, "name is a null pointer");
  if ((operands == nullptr && operand_count != 0) ||
      (attributes == nullptr && attribute_count != 0))
    return ASTER_FAIL(kARGUMENT, "a count without its array");
  if (attribute_count > ArgumentReader::kMostAttributes || operand_count > 256)
    return ASTER_FAIL(kARGUMENT, "%zu operands and %zu attributes", operand_count, attribute_count);
  for (size_t i = 0; i < attribute_count; ++i) {
    if (attributes[i].name == nullptr) return ASTER_FAIL(kARGUMENT, "attribute %zu has no name", i);
  }
  for (const auto& row : kOperations) {
    if (std::string_view(name) != row.name) continue;
    return plan(costs, *aster::context_of(context), row, {operands, operand_count},
                {attributes, attribute_count});
  }
  return ASTER_FAIL(kNOT_FOUND, "no operation is named \"%s\"", name);
}

const char* aster_ml_op_name(size_t index) {
  return index < std::size(kOperations) ? kOperations[index].name : nullptr;
}
