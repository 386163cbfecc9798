#include "nn/state.h"

#include <cstring>

#include "base/utf8.h"
#include "engine/engine.h"
#include "nn/layer.h"
#include "nn/optimizer.h"

namespace aster::nn {
namespace {

uint64_t hash_text(std::string_view text) {
  uint64_t hash = text.size();
  for (const char c : text) hash = hash_mix(hash, static_cast<unsigned char>(c));
  return hash;
}

void destroy_state(HandleObject* object) {
  State* state = static_cast<State*>(object);
  state->context->heap().destroy(state);
}

Status copy_text(Text* out, std::string_view text) {
  *out << text;
  return out->c_str() == nullptr ? out->status() : kOk;
}

// Names of a group of parameters that are added together, or not at all.
class Additions {
 public:
  Additions(State& state, const char* prefix)
      : state_(state), prefix_(prefix == nullptr ? "" : prefix), before_(state.entries.size()) {}
  ~Additions() { state_.truncate(before_); }
  Additions(const Additions&) = delete;
  Additions& operator=(const Additions&) = delete;

  Status add(std::string_view name, const Shared& parameter) {
    Text whole(state_.context->heap());
    whole << prefix_ << name;
    ASTER_TRY(whole.status());
    if (state_.find(whole.view()) != nullptr) {
      return ASTER_FAIL(kARGUMENT, "the state has a tensor '%.*s' already",
                        static_cast<int>(whole.view().size()), whole.view().data());
    }
    return state_.set(whole.view(), parameter);
  }
  void keep() { before_ = state_.entries.size(); }

 private:
  State& state_;
  std::string_view prefix_;
  size_t before_;
};

// Where the elements of a realised entry are.
struct Place {
  buffer::Place at;
  buffer::Storage* storage;
};
Place place_of(Node node) {
  buffer::Storage* storage = engine::storage_of(node);
  return {{storage->data, static_cast<size_t>(node->arg(2)), storage->device}, storage};
}

Status check_load(const State::Entry& to, const State::Entry* from) {
  const char* name = to.name.view().data();
  if (from == nullptr) return ASTER_FAIL(kNOT_FOUND, "no tensor '%s' to load", name);
  const Node target = to.parameter.node(), source = from->parameter.node();
  if (target->dtype != source->dtype) {
    return ASTER_FAIL(kDTYPE, "'%s': %s from %s", name, uop::brief(target).text,
                      uop::brief(source).text);
  }
  const Words a = target->shape(), b = source->shape();
  if (a.size() != b.size() || std::memcmp(a.data(), b.data(), a.size_bytes()) != 0) {
    return ASTER_FAIL(kSHAPE, "'%s': %s from %s", name, uop::brief(target).text,
                      uop::brief(source).text);
  }
  if (place_of(target).storage->read_only) {
    return ASTER_FAIL(kARGUMENT, "'%s' is in read-only memory", name);
  }
  return kOk;
}

Status load(State& to, const State& from) {
  engine::Engine* engine;
  ASTER_TRY(engine::engine_of(&engine, *to.context));
  if (engine->recording != nullptr) return ASTER_FAIL(kSTATE, "loading a state inside a capture");
  ASTER_TRY(realize_state(to));
  ASTER_TRY(realize_state(from));
  engine::forget_kept(*engine);
  for (const State::Entry& entry : to.entries) {
    ASTER_TRY(check_load(entry, from.find(entry.name.view())));
  }
  for (const State::Entry& entry : to.entries) {
    const Node source = from.find(entry.name.view())->parameter.node();
    const size_t bytes = static_cast<size_t>(source->count()) * dtype::size(source->dtype);
    ASTER_TRY(buffer::copy(place_of(entry.parameter.node()).at, place_of(source).at, bytes));
  }
  return kOk;
}

}  // namespace

State::Entry* State::find(std::string_view name) {
  const uint32_t* last = index.find(hash_text(name));
  for (uint32_t at = last == nullptr ? 0 : *last; at != 0; at = entries[at - 1].next) {
    if (entries[at - 1].name.view() == name) return &entries[at - 1];
  }
  return nullptr;
}

Status State::set(std::string_view name, const Shared& parameter) {
  if (name.empty() || !is_utf8(name)) {
    return ASTER_FAIL(kARGUMENT, "a tensor's name is empty, or not UTF-8");
  }
  if (Entry* present = find(name)) {
    present->parameter = parameter;
    return kOk;
  }
  const uint64_t hash = hash_text(name);
  Entry entry{Text(context->heap()), parameter, index.get(hash, 0)};
  ASTER_TRY(copy_text(&entry.name, name));
  ASTER_TRY(entries.push(std::move(entry)));
  const Status status = index.set(hash, static_cast<uint32_t>(entries.size()));
  if (!status.ok()) entries.pop();
  return status;
}

void State::truncate(size_t count) {
  while (entries.size() > count) {
    const uint64_t hash = hash_text(entries.back().name.view());
    (void)index.set(hash, entries.back().next);  // it is there: never fails
    entries.pop();
  }
}

const State::Note* State::note(std::string_view key) const {
  for (const Note& note : metadata) {
    if (note.key.view() == key) return &note;
  }
  return nullptr;
}

Status State::set_note(std::string_view key, const char* text, size_t size) {
  const std::string_view value(text == nullptr ? "" : text, size);
  if (!is_utf8(key) || !is_utf8(value)) return ASTER_FAIL(kARGUMENT, "metadata is not UTF-8");
  Note made{Text(context->heap()), Text(context->heap())};
  ASTER_TRY(copy_text(&made.key, key));
  ASTER_TRY(copy_text(&made.text, value));
  for (size_t i = 0; i < metadata.size(); ++i) {
    if (metadata[i].key.view() != key) continue;
    if (text != nullptr) {
      metadata[i] = std::move(made);
      return kOk;
    }
    for (; i + 1 < metadata.size(); ++i) metadata[i] = std::move(metadata[i + 1]);
    metadata.pop();
    return kOk;
  }
  return text == nullptr ? kOk : metadata.push(std::move(made));
}

Status create_state(State** out, Context& context) {
  State* state = context.heap().create<State>(context.heap());
  if (state == nullptr) return out_of_memory(sizeof(State));
  const Status status = handle_init(state, context, destroy_state);
  if (!status.ok()) {
    context.heap().destroy(state);
    return status;
  }
  scope_remove(state);
  *out = state;
  return kOk;
}

Status realize_state(const State& state) {
  Vec<engine::Lazy*> cells(state.context->heap());
  for (const State::Entry& entry : state.entries) {
    ASTER_TRY(cells.push(&entry.parameter.cell()));
  }
  return realize(state.context->heap(), {cells.data(), cells.size()});
}

}  // namespace aster::nn

using namespace aster::nn;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

#define ASTER_ENTER_STATE(state)                                                    \
  ASTER_API();                                                                      \
  State* const impl = state_of(state);                                              \
  if (impl == nullptr)                                                              \
    return ASTER_FAIL(kARGUMENT, "an empty state is given, or one that was freed"); \
  const aster::ContextLock lock(impl->context);                                     \
  ASTER_TRY(lock.status())

int32_t aster_ml_state_init(aster_ml_state* out, const aster_ml_context* context) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENTER(aster::tensor::context_of(context));
  if (out == nullptr) return ASTER_FAIL(kARGUMENT, "out is a null pointer");
  State* state;
  ASTER_TRY(create_state(&state, *aster::tensor::context_of(context)));
  out->impl = state->handle;
  return kOk;
}

int32_t aster_ml_state_free(aster_ml_state* state) {
  ASTER_API();
  if (state != nullptr) aster::give_up(&state->impl);
  return kOk;
}

int32_t aster_ml_state_set(aster_ml_state* state, const char* name, aster_ml_lazy* x,
                           int32_t trained) {
  ASTER_ENTER_STATE(state);
  ASTER_TRY(aster::tensor::check_handle(x));
  if (name == nullptr) return ASTER_FAIL(kARGUMENT, "name is a null pointer");
  if (aster::tensor::cell(x)->context != impl->context) {
    return ASTER_FAIL(kARGUMENT, "a state and a tensor of two contexts");
  }
  if (trained != 0 && !aster::dtype::is_float(aster::tensor::node(x)->dtype)) {
    return ASTER_FAIL(kDTYPE, "%s cannot be trained: it is not float",
                      aster::uop::brief(aster::tensor::node(x)).text);
  }
  ASTER_TRY(aster::tensor::realize_stored(std::array{aster::tensor::cell(x)}));
  aster::engine::Engine* engine;
  ASTER_TRY(aster::engine::engine_of(&engine, *impl->context));
  Shared parameter;
  ASTER_TRY(Shared::make(&parameter, *engine, aster::tensor::node(x), trained != 0));
  return impl->set(name, parameter);
}

int32_t aster_ml_state_set_layer(aster_ml_state* state, const char* prefix,
                                 const aster_ml_layer* layer) {
  ASTER_ENTER_STATE(state);
  const Layer* from = layer_of(layer);
  if (from == nullptr || from->context != impl->context) {
    return ASTER_FAIL(kARGUMENT, "an empty layer, or one of another context");
  }
  Additions additions(*impl, prefix);
  for (const NamedParameter& named : from->parameters) {
    ASTER_TRY(additions.add(named.name, named.parameter));
  }
  additions.keep();
  return kOk;
}

int32_t aster_ml_state_set_optimizer(aster_ml_state* state, const char* prefix,
                                     const aster_ml_optimizer* optimizer) {
  ASTER_ENTER_STATE(state);
  const Optimizer* from = optimizer_of(optimizer);
  if (from == nullptr || from->context != impl->context) {
    return ASTER_FAIL(kARGUMENT, "an empty optimiser, or one of another context");
  }
  Additions additions(*impl, prefix);
  ASTER_TRY(
      from->each([](void* self, std::string_view name,
                    const Shared& kept) { return static_cast<Additions*>(self)->add(name, kept); },
                 &additions));
  additions.keep();
  return kOk;
}

size_t aster_ml_state_count(const aster_ml_state* state) {
  const State* impl = state_of(state);
  return impl == nullptr ? 0 : impl->entries.size();
}

const char* aster_ml_state_name(const aster_ml_state* state, size_t index) {
  const State* impl = state_of(state);
  if (impl == nullptr || index >= impl->entries.size()) return nullptr;
  return impl->entries[index].name.view().data();
}

int32_t aster_ml_state_get(aster_ml_lazy* out, const aster_ml_state* state, const char* name) {
  if (out != nullptr) out->impl = nullptr;
  ASTER_ENTER_STATE(state);
  if (out == nullptr || name == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer is given");
  const State::Entry* entry = impl->find(name);
  if (entry == nullptr) return ASTER_FAIL(kNOT_FOUND, "the state has no tensor '%.200s'", name);
  return copy_handle(out, entry->parameter);
}

int32_t aster_ml_state_set_metadata(aster_ml_state* state, const char* key, const char* text) {
  ASTER_ENTER_STATE(state);
  if (key == nullptr) return ASTER_FAIL(kARGUMENT, "key is a null pointer");
  return impl->set_note(key, text, text == nullptr ? 0 : std::strlen(text));
}

int32_t aster_ml_state_get_metadata(const char** out, const aster_ml_state* state,
                                    const char* key) {
  if (out != nullptr) *out = nullptr;
  ASTER_ENTER_STATE(state);
  if (out == nullptr || key == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer is given");
  const State::Note* note = impl->note(key);
  if (note == nullptr) return ASTER_FAIL(kNOT_FOUND, "the state has no metadata '%.200s'", key);
  *out = note->text.view().data();
  return kOk;
}

int32_t aster_ml_state_realize(const aster_ml_state* state) {
  ASTER_ENTER_STATE(state);
  return realize_state(*impl);
}

int32_t aster_ml_state_load(aster_ml_state* state, const aster_ml_state* source) {
  ASTER_ENTER_STATE(state);
  const State* from = state_of(source);
  if (from == nullptr || from->context != impl->context) {
    return ASTER_FAIL(kARGUMENT, "an empty source, or one of another context");
  }
  return load(*impl, *from);
}
