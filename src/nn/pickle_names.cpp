// What a pickle names, and what calling it makes.
#include <algorithm>
#include <array>
#include <charconv>

#include "nn/pickle.h"
#include "nn/state.h"

namespace aster::nn {
namespace {

struct NameRow {
  std::string_view module, name;
  Pickle::Meaning meaning;
};
constexpr NameRow kNames[] = {
#define TORCH_NAME(module, name, meaning) {module, name, Pickle::meaning},
#include "nn/torch.def"
};
struct DTypeRow {
  std::string_view storage, name;
  DType dtype;
};
constexpr DTypeRow kDTypes[] = {
#define TORCH_DTYPE(storage, name, dtype) {storage, name, DType::dtype},
#include "nn/torch.def"
};

constexpr size_t kShown = 100;         // of a name in a message
constexpr size_t kMostSkipped = 1000;  // names

int shown(std::string_view text) { return static_cast<int>(std::min(text.size(), kShown)); }

Status refused(std::string_view module, std::string_view name, const char* why) {
  return ASTER_FAIL(kUNSUPPORTED, "the pickle names '%.*s.%.*s'%s", shown(module), module.data(),
                    shown(name), name.data(), why);
}

}  // namespace

Status Pickle::push_global(std::string_view module, std::string_view name) {
  for (const NameRow& row : kNames) {
    if (row.module == module && row.name == name) {
      return push({kGlobal, DType::kNone, 0, row.meaning, nullptr});
    }
  }
  if (module == "torch" && !name.empty()) {
    for (const DTypeRow& row : kDTypes) {
      if (row.storage != name && row.name != name) continue;
      if (row.dtype == DType::kNone) return unknown(module, name, ": this build has no such dtype");
      return push({kGlobal, row.dtype, 0, row.name == name ? kDTypeName : kStorageType, nullptr});
    }
  }
  return unknown(module, name, ", which is no part of a state");
}

Status Pickle::unknown(std::string_view module, std::string_view name, const char* why) {
  if (!skips_) return refused(module, name, why);
  Text full(memory_);
  full << module << '.' << name;
  ASTER_TRY(full.status());
  const auto same = [&](const Text& known) { return known.view() == full.view(); };
  const auto place = std::find_if(skipped_.begin(), skipped_.end(), same) - skipped_.begin();
  if (static_cast<size_t>(place) == skipped_.size()) {
    if (skipped_.size() == kMostSkipped) return refused(module, name, ": too many such names");
    ASTER_TRY(skipped_.push(std::move(full)));
  }
  return push({kUnknown, DType::kNone, 0, place, nullptr});
}

Status Pickle::become(Index target, Kind kind) {
  if (values_[target].kind != kUnknown) return kOk;
  Index made;
  ASTER_TRY(make_list(&made, kind, {}));
  values_[target] = values_[made];
  return kOk;
}

Status Pickle::global(const Operand& operand, int) {
  return push_global(operand.data, operand.second);
}

Status Pickle::from_names(const Operand&, int) {
  Index name, module;
  ASTER_TRY(pop_value(&name));
  ASTER_TRY(pop_value(&module));
  if (values_[name].kind != kText || values_[module].kind != kText)
    return broken("a name is needed");
  return push_global(values_[module].text(), values_[name].text());
}

// Both ways to call: a function on a tuple, and a type on what its objects are made of.
Status Pickle::reduce(const Operand&, int) {
  Index arguments, callee, made;
  ASTER_TRY(pop_value(&arguments));
  ASTER_TRY(pop_value(&callee));
  if (values_[callee].kind == kUnknown) {  // an object, which may be told its state
    ASTER_TRY(make(&made, values_[callee]));
    return stack_.push(made);
  }
  if (values_[callee].kind != kGlobal || values_[arguments].kind != kTuple) {
    return broken("a call of no function");
  }
  const Value function = values_[callee];
  Vec<Index> given(memory_);  // lists may move
  ASTER_TRY(given.append(items(values_[arguments]).data(), items(values_[arguments]).size()));
  ASTER_TRY(call(&made, function, {given.data(), given.size()}));
  return stack_.push(made);
}

Status Pickle::call(Index* out, const Value& function, std::span<const Index> arguments) {
  if (!arguments.empty() && values_[arguments[0]].kind == kUnknown) {  // of what was skipped
    *out = arguments[0];
    return kOk;
  }
  switch (static_cast<Meaning>(function.word)) {
    case kRebuild:
      return rebuild(out, arguments, false);
    case kRebuildTyped:
      return rebuild(out, arguments, true);
    case kRebuildByType:
      return rebuild_by_type(out, arguments);
    case kFirst:
      if (arguments.empty() || values_[arguments[0]].kind != kTensor) {
        return broken("a parameter without a tensor");
      }
      *out = arguments[0];
      return kOk;
    case kParameter:
      if (!arguments.empty() && values_[arguments[0]].kind == kTensor) {
        *out = arguments[0];
        return kOk;
      }
      return make(out, {kHolder, DType::kNone, 0, 0, nullptr});
    default:
      return call_container(out, function, arguments);
  }
}

Status Pickle::call_container(Index* out, const Value& function, std::span<const Index> arguments) {
  const Meaning meaning = static_cast<Meaning>(function.word);
  const Value* first = arguments.empty() ? nullptr : &values_[arguments[0]];
  if (meaning == kMakeDevice || meaning == kEncode || meaning == kMakeBytes) {
    const bool text = first != nullptr && (first->kind == kText || first->kind == kBytes);
    if (first == nullptr && meaning == kMakeBytes) {
      return make(out, {kBytes, DType::kNone, 0, 0, ""});
    }
    if (!text) return broken("a text is needed");
    Value made = *first;
    if (meaning == kEncode) {
      const Value* encoding = arguments.size() == 2 ? &values_[arguments[1]] : nullptr;
      if (first->kind != kText || encoding == nullptr || encoding->kind != kText ||
          encoding->text() != "latin1") {
        return broken("an encoding other than Latin-1");
      }
      made.kind = kLatin;
    } else {
      made.kind = meaning == kMakeDevice ? kText : kBytes;
    }
    return make(out, made);
  }
  const Kind kind = meaning == kMakeDict ? kDict : meaning == kMakeTuple ? kTuple : kSet;
  if (meaning != kMakeDict && meaning != kMakeTuple && meaning != kMakeSet) {
    return broken("a call of what is no function");
  }
  if (first == nullptr) return make_list(out, kind, {});
  if (arguments.size() != 1 || (first->kind != kList && first->kind != kTuple)) {
    return broken("a container of no list");
  }
  Vec<Index> made(memory_);
  for (const Index item : items(*first)) {
    if (kind != kDict) {
      ASTER_TRY(made.push(item));
      continue;
    }
    const Value& pair = values_[item];
    if ((pair.kind != kList && pair.kind != kTuple) || items(pair).size() != 2) {
      return broken("a dict of no pairs");
    }
    for (const Index part : items(pair)) ASTER_TRY(made.push(part));
  }
  return make_list(out, kind, {made.data(), made.size()});
}

Status Pickle::check_integers(Index tuple) const {
  const Value& value = values_[tuple];
  if (value.kind != kTuple && value.kind != kList) return broken("a tuple is needed");
  for (const Index item : items(value)) {
    int64_t number;
    ASTER_TRY(to_integer(&number, item));
  }
  return kOk;
}

// storage, offset, sizes, strides [, requires_grad, hooks [, dtype], metadata]
Status Pickle::rebuild(Index* out, std::span<const Index> arguments, bool typed) {
  const size_t own = typed ? 7 : 4;
  if (arguments.size() < own || values_[arguments[0]].kind != kStorage) {
    return broken("a tensor without a storage");
  }
  Tensor tensor;
  tensor.storage = static_cast<Index>(values_[arguments[0]].word);
  tensor.dtype = storages_[tensor.storage].dtype;
  if (typed) {
    const Value& dtype = values_[arguments[6]];
    if (dtype.kind != kGlobal || dtype.word != kDTypeName)
      return broken("a tensor without a dtype");
    tensor.dtype = dtype.extra;
  }
  if (tensor.dtype == DType::kNone) return broken("a tensor without a dtype");
  ASTER_TRY(to_integer(&tensor.offset, arguments[1]));
  ASTER_TRY(check_integers(arguments[2]));
  ASTER_TRY(check_integers(arguments[3]));
  tensor.sizes = arguments[2];
  tensor.strides = arguments[3];
  const size_t metadata = typed ? 7 : 6;
  if (arguments.size() > metadata) {
    const Value& notes = values_[arguments[metadata]];
    if (notes.kind != kNone && (notes.kind != kDict || !items(notes).empty())) {
      return ASTER_FAIL(kUNSUPPORTED, "a tensor that is conjugated or negated when it is read");
    }
  }
  ASTER_TRY(make(out, {kTensor, DType::kNone, 0, static_cast<int64_t>(tensors_.size()), nullptr}));
  return tensors_.push(tensor);
}

// function, type, arguments, state
Status Pickle::rebuild_by_type(Index* out, std::span<const Index> arguments) {
  if (arguments.size() < 3) return broken("a tensor without a function");
  const Value function = values_[arguments[0]], type = values_[arguments[1]];
  const Value given = values_[arguments[2]];
  const bool typed = type.kind == kUnknown ||
                     (type.kind == kGlobal && (type.word == kType || type.word == kParameter));
  const bool known =
      function.kind == kGlobal && typed && given.kind == kTuple && function.word != kRebuildByType;
  if (!known) return broken("a tensor of no type");
  Vec<Index> list(memory_);
  ASTER_TRY(list.append(items(given).data(), items(given).size()));
  return call(out, function, {list.data(), list.size()});
}

// State of an object: attributes, which dicts and tensors of a state do without, or the tensor of a
// parameter. An unknown object is its attributes.
Status Pickle::build(const Operand&, int) {
  Index state, target;
  ASTER_TRY(pop_value(&state));
  ASTER_TRY(top_value(&target));
  const Kind kind = values_[target].kind;
  if (kind == kDict || kind == kTensor) return kOk;
  const Value& given = values_[state];
  if (kind == kUnknown) {
    if (given.kind == kDict) values_[target] = given;
    return kOk;
  }
  if (kind != kHolder || given.kind != kTuple || items(given).empty() ||
      values_[items(given)[0]].kind != kTensor) {
    return broken("attributes of what has none");
  }
  values_[target] = values_[items(given)[0]];
  return kOk;
}

// ---- Persistent identifiers ----

// "storage", type, key, location, count [, view]
Status Pickle::storage_of(Index* out, std::span<const Index> identifier) {
  if (identifier.size() < 5) return broken("a storage that is not described");
  const Value &type = values_[identifier[1]], &key = values_[identifier[2]];
  if (type.kind == kUnknown) {
    *out = identifier[1];
    return kOk;
  }
  const bool typed = type.kind == kGlobal && type.word == kStorageType;
  const bool untyped = type.kind == kGlobal && type.word == kUntypedStorage;
  if (values_[identifier[0]].kind != kText || values_[identifier[0]].text() != "storage" ||
      (!typed && !untyped) || key.kind != kText) {
    return broken("a storage that is not described");
  }
  Storage storage{typed ? type.extra : DType::kNone, key.text(), 0, 0};
  ASTER_TRY(to_integer(&storage.count, identifier[4]));
  if (identifier.size() > 5 && values_[identifier[5]].kind != kNone) {
    const Value& view = values_[identifier[5]];  // key, offset, count
    if (view.kind != kTuple || items(view).size() != 3) return broken("a view of a storage");
    ASTER_TRY(to_integer(&storage.begin, items(view)[1]));
    ASTER_TRY(to_integer(&storage.count, items(view)[2]));
  }
  if (storage.count < 0 || storage.begin < 0) return broken("a storage of a negative size");
  ASTER_TRY(
      make(out, {kStorage, DType::kNone, 0, static_cast<int64_t>(storages_.size()), nullptr}));
  return storages_.push(storage);
}

Status Pickle::persist(const Operand&, int) {
  Index given, made;
  ASTER_TRY(pop_value(&given));
  const Value identifier = values_[given];
  if (identifier.kind == kTuple) {
    Vec<Index> parts(memory_);
    ASTER_TRY(parts.append(items(identifier).data(), items(identifier).size()));
    ASTER_TRY(storage_of(&made, {parts.data(), parts.size()}));
    return stack_.push(made);
  }
  if (identifier.kind == kText) return persist_line({0, identifier.text(), {}}, 0);
  return broken("an identifier of nothing");
}

Status Pickle::persist_line(const Operand& operand, int) {
  int64_t number;
  const char* end = operand.data.data() + operand.data.size();
  const auto parsed = std::from_chars(operand.data.data(), end, number);
  const Index* found =
      parsed.ec == std::errc() && parsed.ptr == end ? named_.find(number) : nullptr;
  if (found == nullptr) return broken("an identifier of nothing");
  return stack_.push(*found);
}

}  // namespace aster::nn
