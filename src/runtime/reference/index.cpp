#include "runtime/reference/index.h"

namespace aster::runtime::reference {
namespace {

using uop::Node;
using uop::Op;

constexpr size_t kMaxRank = 255;  // of any node

// Appends the shape of node, then room for further rows of its rank; the first word's place.
Status begin_rows(Vec<int64_t>* rows, Node node, size_t further, size_t extra) {
  ASTER_TRY(rows->append(node->shape().data(), node->ndim));
  return rows->resize(rows->size() + further * node->ndim + extra, 0);
}

// Row-major strides of node.
void strides_of(int64_t* out, Node node) {
  int64_t stride = 1;
  for (size_t i = node->ndim; i-- > 0;) {
    out[i] = stride;
    stride *= node->dim(i);
  }
}

Status prepare_affine(Movement* out, Vec<int64_t>* rows, Node node) {
  Node source = node->src(0);
  ASTER_TRY(begin_rows(rows, node, 1, 0));
  int64_t* factor = rows->data() + out->rows + node->ndim;
  int64_t strides[kMaxRank] = {};
  strides_of(strides, source);
  for (size_t i = 0; i < source->ndim; ++i) {
    const int64_t stride = strides[i];
    if (node->op == Op::kExpand) {
      factor[i] = source->dim(i) == 1 ? 0 : stride;
    } else if (node->op == Op::kPermute) {
      factor[i] = strides[static_cast<size_t>(node->arg(i))];
    } else if (node->op == Op::kFlip) {
      factor[i] = node->arg(i) != 0 ? -stride : stride;
      if (node->arg(i) != 0) out->offset += (source->dim(i) - 1) * stride;
    } else if (node->op == Op::kSlice) {
      factor[i] = node->arg(2 * i + 1) * stride;
      out->offset += node->arg(2 * i) * stride;
    } else {  // Window: axis becomes two
      const size_t axis = static_cast<size_t>(node->arg(0));
      factor[i <= axis ? i : i + 1] = i == axis ? node->arg(1) * stride : stride;
      if (i == axis) factor[i + 1] = node->arg(2) * stride;
    }
  }
  return kOk;
}

// Cat is a Pad of each of its sources, without gaps.
Status prepare_pad(Movement* out, Vec<int64_t>* rows, Node node, size_t source) {
  const size_t n = node->ndim;
  out->kind = Movement::Kind::kPad;
  ASTER_TRY(begin_rows(rows, node, 4, 0));
  int64_t* before = rows->data() + out->rows + n;
  int64_t* gap = before + n;
  int64_t* dims = gap + n;
  for (size_t i = 0; i < n; ++i) {
    before[i] = node->op == Op::kPad ? node->arg(3 * i) : 0;
    gap[i] = node->op == Op::kPad ? node->arg(3 * i + 2) + 1 : 1;
    dims[i] = node->src(source)->dim(i);
  }
  if (node->op == Op::kCat) {
    const size_t axis = static_cast<size_t>(node->arg(0));
    for (size_t j = 0; j < source; ++j) before[axis] += node->src(j)->dim(axis);
  }
  strides_of(dims + n, node->src(source));
  return kOk;
}

Status prepare_unwindow(Movement* out, Vec<int64_t>* rows, Node node) {
  const size_t n = node->ndim;
  const size_t axis = static_cast<size_t>(node->arg(0));
  out->kind = Movement::Kind::kUnwindow;
  out->axis = static_cast<uint32_t>(axis);
  ASTER_TRY(begin_rows(rows, node, 1, 4));
  int64_t* factor = rows->data() + out->rows + n;
  strides_of(factor, node->src(0));
  factor[n] = node->arg(1);
  factor[n + 1] = node->arg(2);
  factor[n + 2] = node->src(0)->dim(axis);
  factor[n + 3] = factor[axis];
  factor[axis] = 0;  // the axis goes through the division
  return kOk;
}

// Position in the source of the element at these coordinates; false if there is none.
bool move_point(const Movement& movement, const int64_t* words, const int64_t* coordinates,
                int64_t* out) {
  const size_t n = movement.rank;
  int64_t position = movement.offset;
  if (movement.kind == Movement::Kind::kPad) {
    const int64_t *before = words + n, *gap = before + n, *dims = gap + n, *strides = dims + n;
    for (size_t i = 0; i < n; ++i) {
      const int64_t inside = coordinates[i] - before[i];
      if (inside < 0 || inside % gap[i] != 0 || inside / gap[i] >= dims[i]) return false;
      position += inside / gap[i] * strides[i];
    }
    *out = position;
    return true;
  }
  const int64_t* factor = words + n;
  for (size_t i = 0; i < n; ++i) position += coordinates[i] * factor[i];
  if (movement.kind == Movement::Kind::kUnwindow) {
    const int64_t stride = factor[n], dilation = factor[n + 1], windows = factor[n + 2];
    const int64_t inside = coordinates[movement.axis] - coordinates[movement.axis + 1] * dilation;
    if (inside < 0 || inside % stride != 0 || inside / stride >= windows) return false;
    position += inside / stride * factor[n + 3];
  }
  *out = position;
  return true;
}

void split_position(int64_t position, const int64_t* dims, size_t rank, int64_t* coordinates) {
  for (size_t i = rank; i-- > 0;) {
    coordinates[i] = position % dims[i];
    position /= dims[i];
  }
}

// A strip that runs along one axis of the result: which, and by how much each element moves.
struct Run {
  size_t axis = 0;
  int64_t delta = 0;
};
bool find_run(const int64_t* dims, size_t rank, const int64_t* coordinates, const Index& from,
              size_t n, Run* out) {
  *out = Run{};
  if (n <= 1 || from.step == 0 || rank == 0) return true;
  int64_t stride = 1;
  for (size_t i = rank; i-- > 0; stride *= dims[i]) {
    if (from.step % stride != 0) continue;
    const int64_t delta = from.step / stride;
    const int64_t last = coordinates[i] + static_cast<int64_t>(n - 1) * delta;
    if (last < 0 || last >= dims[i]) continue;
    *out = Run{i, delta};
    return true;
  }
  return false;
}

// Whether all elements of the run exist in the source, and their step there. Says no when unsure.
bool moves_evenly(const Movement& movement, const int64_t* words, const int64_t* coordinates,
                  const Run& run, size_t n, int64_t* step) {
  const size_t rank = movement.rank;
  if (rank == 0) {
    *step = 0;
    return true;
  }
  if (movement.kind == Movement::Kind::kPad) {
    const int64_t *before = words + rank, *gap = before + rank, *dims = gap + rank;
    const size_t axis = run.axis;
    const int64_t first = coordinates[axis] - before[axis];
    const int64_t last = first + static_cast<int64_t>(n - 1) * run.delta;
    const int64_t extent = (dims[axis] - 1) * gap[axis] + 1;
    const bool inside = first >= 0 && last >= 0 && first < extent && last < extent;
    const bool outside = (first < 0 && last < 0) || (first >= extent && last >= extent);
    if (run.delta != 0 && !outside && (gap[axis] != 1 || !inside)) return false;
    *step = run.delta * (dims + rank)[axis];
    return true;
  }
  if (movement.kind == Movement::Kind::kUnwindow && run.delta != 0 &&
      (run.axis == movement.axis || run.axis == movement.axis + 1)) {
    return false;
  }
  *step = run.delta * words[rank + run.axis];
  return true;
}

// Makes a list of positions even again where it can, and drops a mask that masks nothing.
Index tidy(size_t n, int64_t* at, uint8_t* mask) {
  Index out;
  for (size_t i = 0; i < n; ++i) {
    if (mask[i] == 0) {
      out.mask = mask;
      out.at = at;
      return out;
    }
  }
  out.base = at[0];
  out.step = n > 1 ? at[1] - at[0] : 0;
  for (size_t i = 1; i < n; ++i) {
    if (at[i] - at[i - 1] != out.step) {
      out.at = at;
      break;
    }
  }
  return out;
}

}  // namespace

Status prepare_movement(Movement* out, Vec<int64_t>* rows, Node node, size_t source) {
  *out = Movement{Movement::Kind::kAffine, node->ndim, 0, rows->size(), 0};
  if (node->op == Op::kPad || node->op == Op::kCat) return prepare_pad(out, rows, node, source);
  if (node->op == Op::kUnwindow) return prepare_unwindow(out, rows, node);
  return prepare_affine(out, rows, node);
}

Index move_index(const Movement& movement, const Vec<int64_t>& rows, Index from, size_t n,
                 int64_t* at, uint8_t* mask) {
  const int64_t* dims = rows.data() + movement.rows;
  int64_t coordinates[kMaxRank];  // of which rank are set
  if (from.at == nullptr && from.mask == nullptr) {
    split_position(from.base, dims, movement.rank, coordinates);
    Run run;
    Index out;
    const bool along = find_run(dims, movement.rank, coordinates, from, n, &run);
    if (along && moves_evenly(movement, dims, coordinates, run, n, &out.step)) {
      if (move_point(movement, dims, coordinates, &out.base)) return out;
      std::memset(mask, 0, n);
      out.base = out.step = 0;
      out.mask = mask;
      return out;
    }
    for (size_t i = 0; i < n; ++i) {
      if (!along) split_position(from[i], dims, movement.rank, coordinates);
      mask[i] = move_point(movement, dims, coordinates, &at[i]) ? 1 : 0;
      if (mask[i] == 0) at[i] = 0;
      if (along) coordinates[run.axis] += run.delta;
    }
    return tidy(n, at, mask);
  }
  for (size_t i = 0; i < n; ++i) {
    bool exists = from.mask == nullptr || from.mask[i] != 0;
    if (exists) {
      split_position(from[i], dims, movement.rank, coordinates);
      exists = move_point(movement, dims, coordinates, &at[i]);
    }
    mask[i] = exists ? 1 : 0;
    if (!exists) at[i] = 0;
  }
  return tidy(n, at, mask);
}

}  // namespace aster::runtime::reference
