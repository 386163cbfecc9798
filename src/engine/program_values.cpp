// What a program tells of the arrays that it reads and writes.
#include <algorithm>
#include <tuple>

#include "base/options.h"
#include "base/utf8.h"
#include "engine/program.h"

namespace aster::engine {

namespace {

Status add(Program& program, const Array& array, bool assigned, const char* kind, size_t index) {
  Value value{array, assigned, Text(program.context->heap())};
  value.name << kind << uint64_t{index};
  if (value.name.c_str() == nullptr) return value.name.status();
  return program.values.push(std::move(value));
}

// Each Buffer once, in the order in which launches come to them.
void unite(Vec<Captured>& captured) {
  const auto place = [](const Captured& c) {
    return std::tuple(c.region.space, c.region.begin, c.region.end, c.first);
  };
  for (size_t i = 0; i < captured.size(); ++i) captured[i].first = static_cast<uint32_t>(i);
  std::ranges::sort(captured, {}, place);
  size_t count = 0;
  for (const Captured& each : captured) {
    if (count != 0 && captured[count - 1].region == each.region) {
      captured[count - 1].assigned |= each.assigned;
    } else {
      captured[count++] = each;
    }
  }
  captured.truncate(count);
  std::ranges::sort(captured, {}, &Captured::first);
}

}  // namespace

Status list_values(Program& program, Vec<Captured>& captured) {
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    const bool assigned = std::ranges::find(program.assigned, i) != program.assigned.end();
    ASTER_TRY(add(program, program.inputs[i], assigned, "input", i));
  }
  for (size_t i = 0; i < program.results.size(); ++i)
    ASTER_TRY(add(program, program.results[i].array, false, "output", i));
  unite(captured);
  for (size_t i = 0; i < captured.size(); ++i)
    ASTER_TRY(add(program, captured[i].buffer, captured[i].assigned, "captured", i));
  return kOk;
}

namespace {

std::span<Value> list_of(Program& program, int32_t list) {
  const size_t inputs = program.inputs.size(), results = program.results.size();
  const std::span<Value> all(program.values.data(), program.values.size());
  switch (list) {
    case ASTER_ML_PROGRAM_INPUTS:
      return all.first(inputs - program.hidden);
    case ASTER_ML_PROGRAM_OUTPUTS:
      return all.subspan(inputs, results);
    case ASTER_ML_PROGRAM_CAPTURED:
      return all.subspan(inputs + results);
    default:
      return {};
  }
}

Status find(std::span<Value>* values, Program& program, int32_t list, size_t index) {
  if (list < ASTER_ML_PROGRAM_INPUTS || list > ASTER_ML_PROGRAM_CAPTURED)
    return ASTER_FAIL(kARGUMENT, "%d is no list of a program", list);
  *values = list_of(program, list);
  if (index < values->size()) return kOk;
  return ASTER_FAIL(kRANGE, "there is no array %zu in a list of %zu", index, values->size());
}

void describe(aster_ml_program_array* out, const Program& program, Value& value, bool captured) {
  const Array& array = value.array;
  out->struct_size = sizeof(*out);
  out->dtype = static_cast<int32_t>(array.dtype);
  out->device = array.storage->device;
  out->assigned = value.assigned;
  out->name = value.name.c_str();
  out->shape = program.shape(array).data();
  out->ndim = array.ndim;
  out->bytes = array_bytes(program, array);
  if (captured && array.storage->data != nullptr)
    out->data = static_cast<char*>(array.storage->data) + array.offset;
}

}  // namespace

Status find_value(const Value** out, Program& program, int32_t list, size_t index) {
  std::span<Value> values;
  ASTER_TRY(find(&values, program, list, index));
  *out = &values[index];
  return kOk;
}

Status rename(Value& value, const char* name) {
  if (name == nullptr || name[0] == 0 || !is_utf8(name))
    return ASTER_FAIL(kARGUMENT, "a name is UTF-8, and not empty");
  Text made(value.name.memory());
  made << name;
  if (made.c_str() == nullptr) return made.status();
  std::swap(value.name, made);
  value.named = true;
  return kOk;
}

}  // namespace aster::engine

using aster::engine::Program;
using aster::engine::Value;

static Program* program_of(const aster_ml_program* program) {
  return program == nullptr ? nullptr : aster::object_of<Program>(program->impl);
}

size_t aster_ml_program_count_arrays(const aster_ml_program* program, int32_t list) {
  Program* p = program_of(program);
  return p == nullptr ? 0 : aster::engine::list_of(*p, list).size();
}

int32_t aster_ml_program_get_array(aster_ml_program_array* array, const aster_ml_program* program,
                                   int32_t list, size_t index) {
  Program* p = program_of(program);
  ASTER_ENTER(p == nullptr ? nullptr : p->context);
  if (array == nullptr || array->struct_size < sizeof(array->struct_size))
    return ASTER_FAIL(kARGUMENT, "array is null, or its struct_size is not set");
  std::span<Value> values;
  ASTER_TRY(aster::engine::find(&values, *p, list, index));
  aster_ml_program_array all{};
  aster::engine::describe(&all, *p, values[index], list == ASTER_ML_PROGRAM_CAPTURED);
  aster::write_struct(array, all);
  return aster::kOk;
}

int32_t aster_ml_program_set_name(const aster_ml_program* program, int32_t list, size_t index,
                                  const char* name) {
  Program* p = program_of(program);
  ASTER_ENTER(p == nullptr ? nullptr : p->context);
  std::span<Value> values;
  ASTER_TRY(aster::engine::find(&values, *p, list, index));
  return aster::engine::rename(values[index], name);
}
