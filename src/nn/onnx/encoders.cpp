// ai.onnx.ml: encoders, scalers and linear models.
#include <bit>
#include <cmath>

#include "dtype/convert.h"
#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

// Keys or values of a LabelEncoder: texts, integers or floats.
struct Labels {
  std::span<const std::string_view> texts;
  Words ints;
  std::span<const double> floats;
  Ref tensor;
  int32_t element = 0;  // 0: none are given

  size_t size() const {
    return element == kText ? texts.size() : element == kInt64 ? ints.size() : floats.size();
  }
};

uint64_t bits_of(double value) {
  return std::bit_cast<uint64_t>(std::isnan(value) ? std::nan("") : value + 0.0);
}

// The elements of an attribute that is a tensor.
bool read_labels_tensor(Op& op, Labels* out, std::string_view key, Vec<std::string_view>* views) {
  out->tensor = op.tensor(key);
  if (!op.ok() || !out->tensor) return false;
  Value& value = *out->tensor;
  if (value.is_texts()) {
    for (const Text& text : value.texts) op.fail(views->push(text.view()));
    out->texts = {views->data(), views->size()};
    out->element = kText;
    return op.ok();
  }
  const void* data = nullptr;
  op.fail(fetch(&data, op.engine(), value));
  if (!op.ok()) return false;
  const Node node = value.node();
  const auto count = static_cast<size_t>(node->count());
  const bool floats = dtype::is_float(node->dtype);
  void* at = op.arena().allocate(count * 8 + 8, 8);
  if (at == nullptr) {
    op.fail(out_of_memory(count * 8));
    return false;
  }
  dtype::convert(at, floats ? DType::kFloat64 : DType::kInt64, data, node->dtype, count);
  out->element = floats ? kFloat : kInt64;
  if (floats) {
    out->floats = {static_cast<const double*>(at), count};
  } else {
    out->ints = {static_cast<const Word*>(at), count};
  }
  return true;
}

Labels read_labels(Op& op, const char* const (&keys)[4], Vec<std::string_view>* views) {
  Labels out;
  if (op.has(keys[0])) {
    out.texts = op.texts(keys[0]);
    out.element = kText;
  } else if (op.has(keys[1])) {
    out.ints = op.integers(keys[1]);
    out.element = kInt64;
  } else if (op.has(keys[2])) {
    out.floats = op.numbers(keys[2]);
    out.element = kFloat;
  } else {
    read_labels_tensor(op, &out, keys[3], views);
  }
  return out;
}

// Which label an element is, for each of an operand; keys.size() where it is none.
bool find_labels(Op& op, Vec<size_t>* out, const Labels& keys) {
  const Ref x = op.value(0);
  if (!op.ok()) return false;
  const size_t none = keys.size();
  if (keys.element == kText) {
    Map<std::string_view, uint32_t, TextHash> index(op.heap());
    for (size_t i = none; i-- > 0;) op.fail(index.set(keys.texts[i], static_cast<uint32_t>(i)));
    if (!x->is_texts()) op.fail(ASTER_FAIL(kDTYPE, "numbers where labels are texts"));
    for (const Text& text : x->texts) {
      const uint32_t* found = index.find(text.view());
      op.fail(out->push(found == nullptr ? none : *found));
    }
    return op.ok();
  }
  Map<uint64_t, uint32_t> index(op.heap());
  const bool floats = keys.element == kFloat;
  for (size_t i = none; i-- > 0;)
    op.fail(index.set(floats ? bits_of(keys.floats[i]) : static_cast<uint64_t>(keys.ints[i]),
                      static_cast<uint32_t>(i)));
  const auto add = [&](uint64_t key) {
    const uint32_t* found = index.find(key);
    op.fail(out->push(found == nullptr ? none : *found));
  };
  if (floats) {
    for (const double value : op.reals(0)) add(bits_of(value));
  } else {
    for (const Word value : op.ints(0)) add(static_cast<uint64_t>(value));
  }
  return op.ok();
}

Words shape_of(const Ref& x) {
  return x->is_texts() ? Words(x->shape.data(), x->shape.size()) : x->node()->shape();
}

}  // namespace

namespace build {

void label_encoder(Op& op) {
  Vec<std::string_view> key_views(op.heap()), value_views(op.heap()), default_views(op.heap());
  Labels keys =
      read_labels(op, {"keys_strings", "keys_int64s", "keys_floats", "keys_tensor"}, &key_views);
  Labels values = read_labels(
      op, {"values_strings", "values_int64s", "values_floats", "values_tensor"}, &value_views);
  if (op.has("cats_strings")) {  // CategoryMapper: texts to integers, or back
    const bool texts = op.element(0) == kText;
    Labels words, numbers;
    words.texts = op.texts("cats_strings");
    words.element = kText;
    numbers.ints = op.integers("cats_int64s");
    numbers.element = kInt64;
    keys = texts ? words : numbers;
    values = texts ? numbers : words;
  }
  if (op.has("classes_strings")) {  // opset 1: texts to their places, or back
    const bool texts = op.element(0) == kText;
    Word* places = op.arena().array<Word>(op.texts("classes_strings").size());
    if (places == nullptr) return op.fail(out_of_memory(8));
    for (size_t i = 0; i < op.texts("classes_strings").size(); ++i)
      places[i] = static_cast<Word>(i);
    Labels words, numbers;
    words.texts = op.texts("classes_strings");
    words.element = kText;
    numbers.ints = {places, words.texts.size()};
    numbers.element = kInt64;
    keys = texts ? words : numbers;
    values = texts ? numbers : words;
  }
  if (op.ok() && (keys.element == 0 || keys.size() != values.size()))
    op.fail(ASTER_FAIL(kFORMAT, "%zu keys and %zu values", keys.size(), values.size()));
  Vec<size_t> found(op.heap());
  if (!op.ok() || !find_labels(op, &found, keys)) return;
  Labels fallback;
  const bool has_default = op.has("default_tensor") &&
                           read_labels_tensor(op, &fallback, "default_tensor", &default_views) &&
                           fallback.size() == 1;
  const Ref x = op.value(0);
  const size_t none = keys.size();
  if (values.element == kText) {
    const std::string_view other = has_default && fallback.element == kText
                                       ? fallback.texts[0]
                                       : op.text("default_string", "_Unused");
    Ref made;
    op.fail(make_texts(&made, op.heap(), shape_of(x)));
    for (const size_t i : found) {
      Text text(op.heap());
      text << (i == none ? other : values.texts[i]);
      op.fail(text.status());
      if (op.ok()) op.fail(made->texts.push(std::move(text)));
    }
    if (op.ok()) op.set(made);
    return;
  }
  const bool floats = values.element == kFloat;
  Vec<double> out(op.heap());
  Vec<Word> whole(op.heap());
  for (const size_t i : found) {
    if (floats) {
      op.fail(out.push(i != none ? values.floats[i]
                       : has_default && fallback.element == kFloat
                           ? fallback.floats[0]
                           : op.number("default_float", -0.0)));
    } else {
      op.fail(whole.push(i != none ? values.ints[i]
                         : has_default && fallback.element == kInt64
                             ? fallback.ints[0]
                             : op.integer("default_int64", -1)));
    }
  }
  if (!op.ok()) return;
  const DType as = values.tensor ? values.tensor->node()->dtype
                   : floats      ? DType::kFloat32
                                 : DType::kInt64;
  op.set(floats ? op.stored(std::span<const double>(out.data(), out.size()), shape_of(x), as)
                : op.stored(Words(whole.data(), whole.size()), shape_of(x), as));
}

void one_hot_encoder(Op& op) {
  Vec<std::string_view> views(op.heap());
  const Labels keys =
      read_labels(op, {"cats_strings", "cats_int64s", "cats_floats", "cats_tensor"}, &views);
  Vec<size_t> found(op.heap());
  if (!op.ok() || !find_labels(op, &found, keys)) return;
  Dims shape(shape_of(op.value(0)));
  shape.push(static_cast<Word>(keys.size()));
  Vec<double> out(op.heap());
  op.fail(out.resize(found.size() * keys.size(), 0.0));
  for (size_t i = 0; i < found.size() && op.ok(); ++i) {
    if (found[i] < keys.size()) out[i * keys.size() + found[i]] = 1;
    if (found[i] == keys.size() && op.integer("zeros", 1) == 0)
      op.fail(ASTER_FAIL(kARGUMENT, "element %zu is of no category", i));
  }
  if (op.ok())
    op.set(op.stored(std::span<const double>(out.data(), out.size()), shape, DType::kFloat32));
}

void binarizer(Op& op) {
  const Expr x = op.x(0);
  if (op.ok()) op.set((x > op.number("threshold", 0)).cast(x.dtype()));
}

void scaler(Op& op) {
  const Node x = op.in(0);
  const auto offset = op.numbers("offset"), scale = op.numbers("scale");
  if (!op.ok()) return;
  const auto row = [&](std::span<const double> list) {
    return Expr{&op.g,
                op.stored(list, std::array{static_cast<Word>(list.size())}, DType::kFloat32)};
  };
  Expr y = Expr{&op.g, x}.cast(DType::kFloat32);
  if (!offset.empty()) y = y - row(offset);
  if (!scale.empty()) y = y * row(scale);
  op.set(y);
}

void normalizer(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  if (x->ndim == 0) return op.fail(ASTER_FAIL(kSHAPE, "%s", uop::brief(x).text));
  const std::string_view norm = op.text("norm", "MAX");
  const Expr v = Expr{&op.g, x}.cast(DType::kFloat32);
  const Dims last(1, static_cast<Word>(x->ndim) - 1);
  const Expr by = norm == "MAX"  ? uop::reduce(uop::Op::kMax, v, last)
                  : norm == "L1" ? uop::reduce(uop::Op::kAdd, uop::abs(v), last)
                                 : uop::sqrt(uop::reduce(uop::Op::kAdd, v * v, last));
  op.set(uop::where(by == 0.0, v, v / by));
}

void imputer(Op& op) {
  const Node x = op.in(0);
  if (!op.ok()) return;
  const bool floats = dtype::is_float(x->dtype);
  const auto values = op.numbers("imputed_value_floats");
  const Words whole = op.integers("imputed_value_int64s");
  const size_t count = floats ? values.size() : whole.size();
  if (count == 0) return op.fail(ASTER_FAIL(kFORMAT, "no values to put in"));
  const std::array shape{static_cast<Word>(count)};
  const Expr in{&op.g,
                floats ? op.stored(values, shape, x->dtype) : op.stored(whole, shape, x->dtype)};
  const Expr v{&op.g, x};
  const double replaced = floats ? op.number("replaced_value_float", 0)
                                 : static_cast<double>(op.integer("replaced_value_int64", 0));
  const Expr missing = std::isnan(replaced) ? v != v : v == replaced;
  op.set(uop::where(missing, in.expand(x->shape()), v));
}

void feature_vectorizer(Op& op) {
  Vec<Node> all(op.heap());
  for (size_t i = 0; i < op.count() && op.ok(); ++i) {
    const Node x = op.in(i);
    if (!op.ok()) return;
    op.fail(all.push(op.g.cast(flat_from(op, x, x->ndim == 0 ? 0 : 1), DType::kFloat32)));
  }
  if (op.ok()) op.set(tensor::cat(op.g, {all.data(), all.size()}, 1));
}

void linear_regressor(Op& op) {
  const Node x = op.in(0);
  const auto weights = op.numbers("coefficients"), bias = op.numbers("intercepts");
  const Word targets = op.integer("targets", 1);
  const std::string_view after = op.text("post_transform", "NONE");
  if (!op.ok()) return;
  if (targets < 1 || weights.empty() || weights.size() % static_cast<size_t>(targets) != 0)
    return op.fail(ASTER_FAIL(kFORMAT, "%zu coefficients of %lld targets", weights.size(),
                              static_cast<long long>(targets)));
  if (after != "NONE")
    return op.fail(ASTER_FAIL(kUNSUPPORTED, "post_transform '%.*s'",
                              static_cast<int>(std::min<size_t>(after.size(), 50)), after.data()));
  const Node w = op.stored(
      weights, std::array{targets, static_cast<Word>(weights.size()) / targets}, DType::kFloat32);
  Expr y{&op.g, tensor::matmul(op.g, op.g.cast(x, DType::kFloat32), permute_last(op, w))};
  if (!bias.empty())
    y = y +
        Expr{&op.g, op.stored(bias, std::array{static_cast<Word>(bias.size())}, DType::kFloat32)};
  op.set(y);
}

}  // namespace build
}  // namespace aster::nn::onnx
