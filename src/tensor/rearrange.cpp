// rearrange: a formula of named axes becomes one reshape, one permutation and another reshape.
#include <algorithm>
#include <array>
#include <string_view>

#include "aster_ml/movement.h"
#include "aster_ml/symbolic.h"
#include "engine/engine.h"
#include "tensor/movement.h"
#include "tensor/sized.h"

namespace aster::tensor {
namespace {

using uop::brief;
using uop::Dims;
using Name = std::string_view;

constexpr size_t kMost = Dims::kMost;
constexpr Name kEllipsis = "...";

Node nil(Status) { return nullptr; }

// One side: names in order, and the axes of the tensor that they make up.
struct Side {
  struct Axis {
    size_t first, count;  // of names
    bool group;
  };
  Name names[kMost];
  Axis axes[kMost];
  size_t name_count = 0, axis_count = 0;

  size_t find(Name name) const {
    return static_cast<size_t>(std::find(names, names + name_count, name) - names);
  }
  bool has(Name name) const { return find(name) < name_count; }
};

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool valid_name(Name name) {
  const auto inner = [](char c) { return letter(c) || digit(c) || (c & 0x80) != 0; };
  return !digit(name.front()) && name.front() != '_' && name.back() != '_' &&
         std::all_of(name.begin(), name.end(), inner);
}

// The token at the front of text, taken off: a parenthesis, or what reaches to the next space.
Name take_token(Name* text) {
  constexpr Name kSpaces = " \t\n";
  const size_t begin = text->find_first_not_of(kSpaces);
  if (begin == Name::npos) return {};
  text->remove_prefix(begin);
  constexpr Name kDots = "\xE2\x80\xA6";  // the ellipsis of typographers
  size_t length = 1;
  if (text->starts_with(kEllipsis) || text->starts_with(kDots)) {
    length = 3;
  } else if (text->front() != '(' && text->front() != ')') {
    length = std::min(
        {text->find_first_of(" \t\n()"), text->find(kEllipsis), text->find(kDots), text->size()});
  }
  const Name token(text->data(), length);
  text->remove_prefix(length);
  return token == kDots ? kEllipsis : token;
}

Status bad(Name formula, const char* why) {
  return ASTER_FAIL(kFORMAT, "rearrange by \"%.*s\": %s", static_cast<int>(formula.size()),
                    formula.data(), why);
}

Status parse_side(Side* side, Name formula, Name text) {
  bool open = false;
  for (Name token = take_token(&text); !token.empty(); token = take_token(&text)) {
    if (side->name_count == kMost || side->axis_count == kMost) {
      return bad(formula, "too many axes");
    }
    if (token == "(" || token == ")") {
      if ((token == "(") == open) return bad(formula, "parentheses do not match");
      open = !open;
      if (open) side->axes[side->axis_count++] = {side->name_count, 0, true};
      continue;
    }
    if (token == "1") {  // an axis of size 1; inside of a group it changes nothing
      if (!open) side->axes[side->axis_count++] = {side->name_count, 0, true};
      continue;
    }
    if (token != kEllipsis && !valid_name(token)) return bad(formula, "no name of an axis");
    if (side->has(token)) return bad(formula, "an axis is named twice");
    if (!open) side->axes[side->axis_count++] = {side->name_count, 0, false};
    side->names[side->name_count++] = token;
    ++side->axes[side->axis_count - 1].count;
  }
  return open ? bad(formula, "parentheses do not match") : kOk;
}

struct Formula {
  Side left, right;
};

Status parse(Formula* f, Name text) {
  const size_t arrow = text.find("->");
  if (arrow == Name::npos || text.find("->", arrow + 2) != Name::npos) {
    return bad(text, "one -> is needed");
  }
  Name after = text;
  after.remove_prefix(arrow + 2);
  ASTER_TRY(parse_side(&f->left, text, Name(text.data(), arrow)));
  ASTER_TRY(parse_side(&f->right, text, after));
  bool same = f->left.name_count == f->right.name_count;
  for (size_t i = 0; same && i < f->left.name_count; ++i) same = f->right.has(f->left.names[i]);
  if (!same) return bad(text, "both sides need to name the same axes");
  for (size_t i = 0; i < f->left.axis_count; ++i) {
    const Side::Axis& axis = f->left.axes[i];
    for (size_t k = 0; axis.group && k < axis.count; ++k) {
      if (f->left.names[axis.first + k] == kEllipsis)
        return bad(text, "... in a group on the left");
    }
  }
  return kOk;
}

// The left side on a shape: sizes of all named axes in order, the ellipsis being several.
struct Layout {
  Dims sizes;
  size_t start[kMost + 1];  // of each name, among sizes
};

// Sizes of one group: those given, and the one that follows from them.
Status fill_group(Layout* layout, const Side& side, const Side::Axis& axis, Word dim,
                  const Dims& given, Node x, Name formula) {
  int64_t known = 1;
  size_t open = kMost;
  bool fits = true;
  for (size_t i = axis.first; i < axis.first + axis.count; ++i) {
    layout->start[i] = layout->sizes.size();
    if (given[i] >= 0) {
      fits &= checked_mul(known, given[i], &known);
    } else {
      fits &= open == kMost;
      open = layout->sizes.size();
    }
    layout->sizes.push(given[i]);
  }
  if (fits && open != kMost) {
    fits = known > 0 && dim % known == 0;
    if (fits) layout->sizes[open] = dim / known;
  } else {
    fits &= known == dim;
  }
  if (fits) return kOk;
  const Name name = axis.count > 0 ? side.names[axis.first] : Name("1");
  return ASTER_FAIL(kSHAPE,
                    "rearrange of %s by \"%.*s\": an axis of %lld does not divide at \"%.*s\"",
                    brief(x).text, static_cast<int>(formula.size()), formula.data(),
                    static_cast<long long>(dim), static_cast<int>(name.size()), name.data());
}

Status lay_out(Layout* layout, const Side& side, const Dims& given, Node x, Name formula) {
  const bool open = side.has(kEllipsis);
  const size_t plain = side.axis_count - (open ? 1 : 0);
  if (open ? x->ndim < plain : x->ndim != plain) {
    return ASTER_FAIL(kSHAPE, "rearrange of %s by \"%.*s\": %zu axes are expected", brief(x).text,
                      static_cast<int>(formula.size()), formula.data(), plain);
  }
  size_t at = 0;
  for (size_t i = 0; i < side.axis_count; ++i) {
    const Side::Axis& axis = side.axes[i];
    if (!axis.group && side.names[axis.first] == kEllipsis) {
      layout->start[axis.first] = layout->sizes.size();
      for (size_t k = plain; k < x->ndim; ++k) layout->sizes.push(x->dim(at++));
      continue;
    }
    ASTER_TRY(fill_group(layout, side, axis, x->dim(at++), given, x, formula));
  }
  layout->start[side.name_count] = layout->sizes.size();
  return kOk;
}

Status given_sizes(Dims* out, const Side& side, Name formula, size_t count,
                   const char* const* names, const int64_t* sizes, size_t* places = nullptr) {
  *out = Dims(side.name_count, -1);
  for (size_t i = 0; i < count; ++i) {
    if (names[i] == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for a name");
    const size_t at = side.find(names[i]);
    if (at == side.name_count || side.names[at] == kEllipsis) {
      return ASTER_FAIL(kNOT_FOUND, "rearrange by \"%.*s\": there is no axis \"%s\"",
                        static_cast<int>(formula.size()), formula.data(), names[i]);
    }
    if (sizes[i] < 0) {
      return ASTER_FAIL(kRANGE, "rearrange: axis \"%s\" of %lld elements", names[i],
                        static_cast<long long>(sizes[i]));
    }
    (*out)[at] = sizes[i];
    if (places != nullptr) places[i] = at;
  }
  return kOk;
}

}  // namespace

Node rearrange(Graph& g, Node x, const char* formula, size_t count, const char* const* names,
               const int64_t* sizes) {
  if (x == nullptr) return nullptr;
  const Name text(formula);
  Formula f;
  Dims given;
  Layout layout;
  if (!parse(&f, text).ok() || !given_sizes(&given, f.left, text, count, names, sizes).ok() ||
      !lay_out(&layout, f.left, given, x, text).ok()) {
    return nullptr;
  }
  Dims order, shape;
  bool overflow = false;
  for (size_t i = 0; i < f.right.axis_count; ++i) {
    const Side::Axis& axis = f.right.axes[i];
    Word joined = 1;
    for (size_t k = axis.first; k < axis.first + axis.count; ++k) {
      const size_t name = f.left.find(f.right.names[k]);
      for (size_t at = layout.start[name]; at < layout.start[name + 1]; ++at) {
        order.push(static_cast<Word>(at));
        overflow |= !checked_mul(joined, layout.sizes[at], &joined);
        if (!axis.group) shape.push(layout.sizes[at]);
      }
    }
    if (axis.group) shape.push(joined);
  }
  if (overflow) return nil(ASTER_FAIL(kRANGE, "rearrange of %s by \"%s\"", brief(x).text, formula));
  return reshape(g, permute(g, reshape(g, x, layout.sizes), order), shape);
}

}  // namespace aster::tensor

namespace aster::tensor {
namespace {

// The rule for symbolic sizes (sized.h): given has a size or -1 for each name.
sized::Done rearrange_sized(Build& build, Input x, const Formula& f, const Sizes& given) {
  Graph& g = build.graph();
  Node part = sized::whole(x);
  Sizes sizes, split, permuted, joined;
  ASTER_TRY(sized::sizes_of(&sizes, build, x));
  const bool open = f.left.has(kEllipsis);
  const size_t plain = f.left.axis_count - (open ? 1 : 0);
  if (open ? sizes.size() < plain : sizes.size() != plain) return {};
  size_t start[kMost + 1], axis_of = 0;
  for (size_t i = 0; i < f.left.axis_count; ++i) {
    const Side::Axis& axis = f.left.axes[i];
    if (!axis.group && f.left.names[axis.first] == kEllipsis) {
      start[axis.first] = split.size();
      for (size_t k = plain; k < sizes.size(); ++k) split.push(sizes[axis_of++]);
      continue;
    }
    Sizes group, whole;
    whole.push(sizes[axis_of++]);
    for (size_t k = axis.first; k < axis.first + axis.count; ++k) group.push(given[k]);
    if (!sized::infer(&group, g, whole)) return {};
    for (size_t k = 0; k < group.size(); ++k) {
      start[axis.first + k] = split.size();
      split.push(group[k]);
    }
  }
  start[f.left.name_count] = split.size();
  sized::Done done = sized::reshape(build, &part, &sizes, split);
  if (!done || !done->ok()) return done;
  Dims order;
  for (size_t i = 0; i < f.right.axis_count; ++i) {
    const Side::Axis& axis = f.right.axes[i];
    Node all = g.index(1);
    for (size_t k = axis.first; k < axis.first + axis.count; ++k) {
      const size_t name = f.left.find(f.right.names[k]);
      for (size_t at = start[name]; at < start[name + 1]; ++at) {
        order.push(static_cast<Word>(at));
        permuted.push(sizes[at]);
        if (!axis.group) joined.push(sizes[at]);
        all = uop::sym::mul(g, all, sizes[at]);
      }
    }
    if (all == nullptr) return last_failure();
    if (axis.group) joined.push(all);
  }
  part = permute(g, part, order);
  if (part == nullptr) return last_failure();
  done = sized::reshape(build, &part, &permuted, joined);
  return done && done->ok() ? build.finish(part, permuted) : done;
}

Status rearrange_by(Build& build, Input x, const char* formula, size_t count,
                    const char* const* names, const aster_ml_dim* sizes) {
  if (formula == nullptr) return ASTER_FAIL(kARGUMENT, "a null pointer for the formula");
  if (count != 0 && (names == nullptr || sizes == nullptr)) {
    return ASTER_FAIL(kARGUMENT, "a null pointer for %zu sizes", count);
  }
  if (count > kMost) return ASTER_FAIL(kRANGE, "rearrange: %zu sizes", count);
  int64_t now[kMost];
  Node wanted[kMost];
  bool bound = build.sized();
  for (size_t i = 0; i < count; ++i) {
    ASTER_TRY(sized::position_argument(&wanted[i], &now[i], build.engine(), sizes[i]));
    bound |= is_bound(wanted[i]);
  }
  if (bound) {
    Formula f;
    Dims given;
    size_t places[kMost];
    ASTER_TRY(parse(&f, formula));
    ASTER_TRY(given_sizes(&given, f.left, formula, count, names, now, places));
    Sizes each;
    for (size_t i = 0; i < f.left.name_count; ++i) each.push(build.graph().index(-1));
    for (size_t i = 0; i < count; ++i) each[places[i]] = wanted[i];
    if (const auto done = rearrange_sized(build, x, f, each)) return *done;
    for (size_t i = 0; i < count; ++i) ASTER_TRY(engine::look_at(build.engine(), wanted[i]));
  }
  return build.finish(rearrange(build.graph(), node(x), formula, count, names, now));
}

}  // namespace
}  // namespace aster::tensor

using namespace aster::tensor;  // NOLINT: this file ends with the public functions
using aster::kOk;
using aster::Status;

int32_t aster_ml_lazy_rearrange(aster_ml_lazy* out, const aster_ml_lazy* x, const char* formula,
                                size_t count, const char* const* names, const int64_t* sizes) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  aster_ml_dim dims[kMost];
  for (size_t i = 0; sizes != nullptr && i < count && i < kMost; ++i) dims[i] = {sizes[i], nullptr};
  return rearrange_by(build, x, formula, count, names, sizes == nullptr ? nullptr : dims);
}

int32_t aster_ml_lazy_rearrange_dims(aster_ml_lazy* out, const aster_ml_lazy* x,
                                     const char* formula, size_t count, const char* const* names,
                                     const aster_ml_dim* sizes) {
  ASTER_API();
  Build build(out, {x});
  ASTER_TRY(build.status());
  return rearrange_by(build, x, formula, count, names, sizes);
}
