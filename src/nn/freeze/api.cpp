// aster_ml_freeze: programs without an engine.
#include <algorithm>
#include <cstring>

#include "base/options.h"
#include "nn/fold.h"
#include "nn/freeze/freeze.h"

namespace aster::nn::freeze {
namespace {

// What no array, and no program, is called in C or C++.
constexpr std::string_view kWords[] = {
    "alignas",  "alignof",  "and",      "asm",      "auto",    "bitand",    "bitor",   "bool",
    "break",    "case",     "catch",    "char",     "class",   "compl",     "const",   "constexpr",
    "continue", "decltype", "default",  "delete",   "do",      "double",    "else",    "enum",
    "explicit", "export",   "extern",   "false",    "float",   "for",       "friend",  "goto",
    "if",       "inline",   "int",      "long",     "mutable", "namespace", "new",     "noexcept",
    "not",      "nullptr",  "operator", "or",       "private", "protected", "public",  "register",
    "requires", "restrict", "return",   "short",    "signed",  "sizeof",    "static",  "struct",
    "switch",   "template", "this",     "throw",    "true",    "try",       "typedef", "typeid",
    "typename", "typeof",   "union",    "unsigned", "using",   "virtual",   "void",    "volatile",
    "while",    "xor",      "linux",    "unix",     "memory",  "concept",   "import",  "module"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Any text as a name in C: what is none there becomes _.
void write_identifier(Text& out, std::string_view text) {
  if (text.empty() || !is_letter(text[0]) || text[0] == '_') out << 'x';
  for (const char c : text) out << (is_letter(c) || is_digit(c) ? c : '_');
  if (std::ranges::find(kWords, out.view()) != std::end(kWords)) out << '_';
}

Status name_arrays(Vec<Array>& list, const Vec<Array>& others) {
  for (size_t i = 0; i < list.size(); ++i) {
    Text& name = list[i].identifier;
    write_identifier(name, list[i].name.view());
    const auto taken = [&](const Array& other) {
      return &other != &list[i] && other.identifier.view() == name.view();
    };
    while (std::any_of(list.begin(), list.begin() + i, taken) ||
           std::any_of(others.begin(), others.end(), taken))
      name << '_';
    ASTER_TRY(name.status());
  }
  return kOk;
}

struct Wanted {
  explicit Wanted(Memory& memory) : cpus(memory) {}
  const char* path = nullptr;
  aster_ml_freeze_options options = {};
  aster_ml_freeze_form form = 0;
  const char* compiler = nullptr;
  Vec<const Cpu*> cpus;
};

aster_ml_freeze_form form_of(std::string_view path) {
  constexpr struct {
    std::string_view ending;
    aster_ml_freeze_form form;
  } kEndings[] = {{".c", ASTER_ML_FREEZE_C},
                  {".o", ASTER_ML_FREEZE_OBJECT},
                  {".a", ASTER_ML_FREEZE_STATIC},
                  {".so", ASTER_ML_FREEZE_SHARED}};
  for (const auto& row : kEndings) {
    if (path.ends_with(row.ending)) return row.form;
  }
  return ASTER_ML_FREEZE_EXECUTABLE;
}

Status take_cpus(Wanted* out) {
  const aster_ml_freeze_options& o = out->options;
  if (o.targets == nullptr && o.target_count != 0)
    return ASTER_FAIL(kARGUMENT, "targets is a null pointer");
  for (size_t i = 0; i < std::max<size_t>(o.target_count, 1); ++i) {
    const Cpu* cpu = nullptr;
    ASTER_TRY(find_cpu(&cpu, o.target_count == 0 ? "native" : o.targets[i]));
    if (std::ranges::find(out->cpus, cpu) != out->cpus.end())
      return ASTER_FAIL(kARGUMENT, "target %s is named twice", cpu->name);
    if (!out->cpus.empty() && cpu->x86 != out->cpus[0]->x86) {
      return ASTER_FAIL(kARGUMENT, "targets %s and %s do not go into one file", out->cpus[0]->name,
                        cpu->name);
    }
    if (out->cpus.size() == 1 && !cpu->x86)
      return ASTER_FAIL(kARGUMENT, "target %s goes with no other", cpu->name);
    ASTER_TRY(out->cpus.push(cpu));
  }
  return kOk;
}

Status take_options(Wanted* out, const char* path, Context& context,
                    const aster_ml_freeze_options* options) {
  if (path == nullptr || path[0] == '\0') return ASTER_FAIL(kARGUMENT, "path is null or empty");
  out->path = path;
  if (options != nullptr) ASTER_TRY(read_struct(&out->options, options, "the options"));
  const aster_ml_freeze_options& o = out->options;
  if (o.form < 0 || o.form > ASTER_ML_FREEZE_EXECUTABLE)
    return ASTER_FAIL(kRANGE, "form %d of a frozen program", o.form);
  if ((o.flags & ~uint32_t{ASTER_ML_FREEZE_SIDE_FILE | ASTER_ML_FREEZE_KERNEL}) != 0)
    return ASTER_FAIL(kRANGE, "flags %#x of a frozen program", o.flags);
  if (o.threads < 0 || o.threads > 1024)
    return ASTER_FAIL(kRANGE, "%d threads: from 1 to 1024", o.threads);
  out->form = o.form != 0 ? o.form : form_of(path);
  if ((o.flags & ASTER_ML_FREEZE_KERNEL) != 0 && out->form == ASTER_ML_FREEZE_EXECUTABLE)
    return ASTER_FAIL(kARGUMENT, "an executable gives nobody a kernel: C, an object or a library");
  ASTER_TRY(take_cpus(out));
  out->compiler = o.compiler != nullptr               ? o.compiler
                  : out->cpus[0]->compiler != nullptr ? out->cpus[0]->compiler
                                                      : context.options().compiler;
  // libLLVM compiles kernels and no files.
  if (out->compiler != nullptr && std::strcmp(out->compiler, "llvm") == 0) out->compiler = nullptr;
  return kOk;
}

Status take_name(Model* model, const Wanted& wanted) {
  std::string_view text = wanted.path;
  if (wanted.options.name != nullptr) {
    text = wanted.options.name;
    write_identifier(model->name, text);
    if (model->name.view() != text)
      return ASTER_FAIL(kARGUMENT, "'%.64s' is no name in C", wanted.options.name);
  } else {
    if (const size_t slash = text.rfind('/'); slash != std::string_view::npos)
      text.remove_prefix(slash + 1);
    const bool library =
        wanted.form == ASTER_ML_FREEZE_STATIC || wanted.form == ASTER_ML_FREEZE_SHARED;
    if (library && text.starts_with("lib")) text.remove_prefix(3);
    write_identifier(model->name, text_slice(text, 0, text.find('.')));
  }
  for (const char c : model->name.view())
    model->capital << (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  return model->capital.status();
}

// A program for each kind of CPU, none of which ran.
class Programs {
 public:
  explicit Programs(Heap& heap) : heap_(heap), collectors_(heap), handles_(heap), all_(heap) {}
  ~Programs() {
    for (aster_ml_program& handle : handles_) aster_ml_program_free(&handle);
    for (Collector* collector : collectors_) heap_.destroy(collector);
  }
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;
  Status add(const Cpu& cpu, engine::Engine& engine, portable::ReadGraph& graph) {
    ASTER_TRY(collectors_.reserve(collectors_.size() + 1));
    ASTER_TRY(handles_.reserve(handles_.size() + 1));
    auto* collector = heap_.create<Collector>(engine.context, cpu);
    if (collector == nullptr) return out_of_memory(sizeof(Collector));
    ASTER_TRY(collectors_.push(collector));
    aster_ml_program made{};
    engine.made_for = collector;
    const Status status = portable::capture_graph(&made, engine, graph, !graph.state);
    engine.made_for = nullptr;
    ASTER_TRY(status);
    ASTER_TRY(handles_.push(made));
    return all_.push(object_of<engine::Program>(made.impl));
  }
  const Collector* kernels(size_t i) const { return collectors_[i]; }
  std::span<engine::Program* const> all() const { return {all_.data(), all_.size()}; }

 private:
  Heap& heap_;
  Vec<Collector*> collectors_;
  Vec<aster_ml_program> handles_;
  Vec<engine::Program*> all_;
};

// In a context of its own: nothing of it is to be found later.
Status freeze(const Wanted& wanted, engine::Engine& engine, const portable::Parts& parts) {
  Heap& heap = engine.context.heap();
  const uop::Graph::Hold hold(engine.graph);
  portable::ReadGraph graph(heap);
  ASTER_TRY(portable::read_graph(&graph, engine, parts));
  if (graph.variables)
    return ASTER_FAIL(kUNSUPPORTED, "a program whose sizes are variables: give it numbers");
  if (graph.outputs.empty())
    return ASTER_FAIL(kUNSUPPORTED, "a program without outputs: nothing tells what it assigns");
  const bool quads =
      std::ranges::all_of(wanted.cpus, [](const Cpu* cpu) { return target_of(*cpu).vnni; });
  ASTER_TRY(
      fold_constants(&graph.outputs, {graph.inputs.data(), graph.inputs.size()}, engine, quads));
  Programs programs(heap);
  Model model(heap);
  ASTER_TRY(take_name(&model, wanted));
  model.threads = engine.threads;
  model.side_file = (wanted.options.flags & ASTER_ML_FREEZE_SIDE_FILE) != 0;
  model.kernel = (wanted.options.flags & ASTER_ML_FREEZE_KERNEL) != 0;
  model.head_bytes = model.threads == 1 ? 64 : 1024 + 64 * ((model.threads + 7) / 8);
  for (const Cpu* cpu : wanted.cpus) {
    ASTER_TRY(programs.add(*cpu, engine, graph));
    ASTER_TRY(model.codes.push(Code(heap)));
    model.codes.back().cpu = cpu;
    model.codes.back().kernels = programs.kernels(model.codes.size() - 1);
  }
  ASTER_TRY(flatten(model, programs.all()));
  const bool assigns = std::ranges::any_of(model.inputs, &Array::written) || model.state_bytes != 0;
  if (model.kernel && assigns)
    return ASTER_FAIL(kUNSUPPORTED, "a program that assigns to its inputs or state is no kernel");
  ASTER_TRY(name_arrays(model.inputs, model.outputs));
  ASTER_TRY(name_arrays(model.outputs, model.inputs));
  return build(wanted.path, engine.context, model, wanted.form, wanted.compiler);
}

// A context like the caller's.
class Inside {
 public:
  ~Inside() { aster_ml_context_free(&handle_); }
  Status begin(engine::Engine** out, Context& outer, int32_t threads) {
    aster_ml_context_options options = outer.options();
    options.threads = std::max(1, threads);
    options.no_schedule_cache = 1;
    options.no_sizes = 1;
    options.no_fallback = 1;
    ASTER_TRY(Status{aster_ml_context_init(&handle_, &options)});
    return engine::engine_of(out, *context_of(&handle_));
  }

 private:
  aster_ml_context handle_ = {};
};

Status freeze_file(const char* path, Context& context, const char* program,
                   const aster_ml_freeze_options* options) {
  Wanted wanted(context.heap());
  ASTER_TRY(take_options(&wanted, path, context, options));
  Inside inside;
  engine::Engine* engine = nullptr;
  ASTER_TRY(inside.begin(&engine, context, wanted.options.threads));
  const ContextLock lock(&engine->context);
  ASTER_TRY(lock.status());
  portable::OpenedFile file(engine->context.heap());
  ASTER_TRY(portable::open_file(&file, *engine, program));
  return freeze(wanted, *engine, file.parts);
}

Status freeze_step(const char* path, const aster_ml_context* context,
                   const aster_ml_boundary* boundary, const aster_ml_freeze_options* options) {
  Context& outer = *context_of(context);
  Wanted wanted(outer.heap());
  ASTER_TRY(take_options(&wanted, path, outer, options));
  size_t size = 0;
  ASTER_TRY(Status{aster_ml_program_to_bytes(nullptr, &size, 0, context, boundary, 0)});
  Inside inside;
  engine::Engine* engine = nullptr;
  ASTER_TRY(inside.begin(&engine, outer, wanted.options.threads));
  const ContextLock lock(&engine->context);
  ASTER_TRY(lock.status());
  Source bytes;
  ASTER_TRY(create_source(&bytes, engine->context, size));
  ASTER_TRY(
      Status{aster_ml_program_to_bytes(bytes.storage()->data, &size, size, context, boundary, 0)});
  bytes.storage()->read_only = true;
  portable::Parts parts(engine->context.heap());
  ASTER_TRY(portable::split(&parts, bytes, nullptr));
  return freeze(wanted, *engine, parts);
}

}  // namespace
}  // namespace aster::nn::freeze

int32_t aster_ml_freeze(const char* path, const aster_ml_context* context, const char* program,
                        const aster_ml_freeze_options* options) {
  ASTER_ENTER(aster::context_of(context));
  return aster::nn::freeze::freeze_file(path, *aster::context_of(context), program, options);
}

int32_t aster_ml_freeze_step(const char* path, const aster_ml_context* context,
                             const aster_ml_boundary* boundary,
                             const aster_ml_freeze_options* options) {
  ASTER_ENTER(aster::context_of(context));
  return aster::nn::freeze::freeze_step(path, context, boundary, options);
}
