#include "codegen/prelude.h"

#include <algorithm>
#include <charconv>

#include "codegen/prelude_emit.h"

namespace aster::codegen {
namespace {

using namespace prelude;

bool is_identifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// ---- Names read back ----

// "f32x16" and, for types, "f32x16u".
bool parse_vector(std::string_view text, DType* element, int* lanes, bool type) {
  const size_t x = text.rfind('x');
  if (x == std::string_view::npos) return false;
  std::string_view count = text_slice(text, x + 1);
  if (type && count.ends_with('u')) count.remove_suffix(1);
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), *lanes);
  if (error != std::errc() || end != count.data() + count.size()) return false;
  const Element* e = element_named(text_slice(text, 0, x));
  if (e == nullptr) return false;
  *element = e->dtype;
  return true;
}

}  // namespace

Status PreludeRequest::push(const Use& use) {
  if (use.lanes < 1 || use.lanes > 64 || (use.lanes & (use.lanes - 1)) != 0) {
    return ASTER_FAIL(kRANGE, "%d lanes in a kernel's vector", use.lanes);
  }
  for (const Use& u : uses_) {
    if (u == use) return kOk;
  }
  return uses_.push(use);
}

Status PreludeRequest::add(MathFn fn, DType element, int lanes) {
  const Function& function = kFunctions[static_cast<size_t>(fn)];
  if (element_of(element) == nullptr || stored(element) != element ||
      !takes(function.elements, element)) {
    return ASTER_FAIL(kDTYPE, "%s of %s in a kernel", function.name.data(), dtype::name(element));
  }
  return push({Kind::kFunction, fn, element, element, lanes});
}

Status PreludeRequest::add_cast(DType from, DType to, int lanes) {
  if (element_of(from) == nullptr || element_of(to) == nullptr) {
    return ASTER_FAIL(kDTYPE, "cast of %s to %s in a kernel", dtype::name(from), dtype::name(to));
  }
  return push({Kind::kCast, MathFn::kExp, from, to, lanes});
}

Status PreludeRequest::add_type(DType element, int lanes) {
  if (element_of(element) == nullptr) {
    return ASTER_FAIL(kDTYPE, "vector of %s in a kernel", dtype::name(element));
  }
  return push({Kind::kType, MathFn::kExp, stored(element), stored(element), lanes});
}

Status PreludeRequest::add_used(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_identifier(text[i])) continue;
    size_t end = i;
    while (end < text.size() && is_identifier(text[end])) ++end;
    const std::string_view word = text_slice(text, i, end - i);
    i = end;
    DType element, from;
    int lanes;
    if (word.starts_with('v') && parse_vector(text_slice(word, 1), &element, &lanes, true)) {
      ASTER_TRY(add_type(element, lanes));
      continue;
    }
    if (!word.starts_with("am_")) continue;
    const std::string_view name = text_slice(word, 3);
    const size_t to = name.find("_to_"), last = name.rfind('_');
    const Function* found = nullptr;
    if (to != std::string_view::npos) {
      const Element* source = element_named(text_slice(name, 0, to));
      if (source != nullptr && parse_vector(text_slice(name, to + 4), &element, &lanes, false)) {
        from = source->dtype;
        ASTER_TRY(add_cast(from, element, lanes));
        continue;
      }
    } else if (last != std::string_view::npos &&
               parse_vector(text_slice(name, last + 1), &element, &lanes, false)) {
      for (const Function& f : kFunctions) {
        if (f.name == text_slice(name, 0, last)) found = &f;
      }
    }
    if (found == nullptr) {
      return ASTER_FAIL(kNOT_FOUND, "the prelude has no %.*s", static_cast<int>(word.size()),
                        word.data());
    }
    ASTER_TRY(add(static_cast<MathFn>(found - kFunctions), element, lanes));
  }
  return kOk;
}

Status emit_prelude(Text& out, const PreludeRequest& request, const Target& target) {
  Emitter emitter(out, target, request.memory());
  for (const PreludeRequest::Use& use : request.uses()) {
    int bytes = std::max(bytes_of(use.from), bytes_of(use.to));
    if (dtype::is_narrow_float(use.from) || dtype::is_narrow_float(use.to)) {
      bytes = std::max(bytes, 4);  // by way of f32
    }
    if (use.lanes > 1 && bytes * use.lanes > target.vector_bytes) {
      return ASTER_FAIL(kRANGE, "%d lanes of %s do not fit the target's %d bytes", use.lanes,
                        dtype::name(use.from), target.vector_bytes);
    }
    switch (use.kind) {
      case PreludeRequest::Kind::kFunction:
        ASTER_TRY(
            emitter.function(kFunctions[static_cast<size_t>(use.fn)].name, use.from, use.lanes));
        break;
      case PreludeRequest::Kind::kCast:
        ASTER_TRY(emitter.cast(use.from, use.to, use.lanes));
        break;
      case PreludeRequest::Kind::kType:
        ASTER_TRY(emitter.type(use.from, use.lanes));
        ASTER_TRY(emitter.type(use.from, use.lanes, true));
        break;
    }
  }
  return out.status();
}

void emit_vector_type(Text& out, DType element, int lanes) {
  write_typedef(out, stored(element), lanes, false);
  write_typedef(out, stored(element), lanes, true);
}

void write_type_name(Text& out, DType element, int lanes) {
  out << 'v' << element_of(stored(element))->name << 'x' << lanes;
}

void write_function_name(Text& out, MathFn fn, DType element, int lanes) {
  out << "am_" << kFunctions[static_cast<size_t>(fn)].name << '_' << element_of(element)->name
      << 'x' << lanes;
}

void write_cast_name(Text& out, DType from, DType to, int lanes) {
  out << "am_" << element_of(from)->name << "_to_" << element_of(to)->name << 'x' << lanes;
}

}  // namespace aster::codegen
