// Boxes: suppression of those that overlap, and what is in them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/onnx/builders.h"

namespace aster::nn::onnx {
namespace {

struct Box {
  double y0, x0, y1, x1;
  double area() const { return (y1 - y0) * (x1 - x0); }
};

Box box_of(const double* at, bool center) {
  if (center) return {at[1] - at[3] / 2, at[0] - at[2] / 2, at[1] + at[3] / 2, at[0] + at[2] / 2};
  return {std::min(at[0], at[2]), std::min(at[1], at[3]), std::max(at[0], at[2]),
          std::max(at[1], at[3])};
}

bool overlap(const Box& a, const Box& b, double threshold) {
  const double h = std::min(a.y1, b.y1) - std::max(a.y0, b.y0),
               w = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (h <= 0 || w <= 0) return false;
  const double both = h * w, all = a.area() + b.area() - both;
  return all > 0 && both / all > threshold;
}

}  // namespace

namespace build {

void non_max_suppression(Op& op) {
  const std::span<const double> boxes = op.reals(0), scores = op.reals(1);
  const int64_t most = op.scalar(2, 0);
  const double iou = op.real(3, 0), least = op.real(4, -INFINITY);
  if (!op.ok()) return;
  const Node b = op.in(0), s = op.in(1);
  if (b->ndim != 3 || b->dim(2) != 4 || s->ndim != 3 || s->dim(0) != b->dim(0) ||
      s->dim(2) != b->dim(1))
    return op.fail(
        ASTER_FAIL(kSHAPE, "boxes %s, scores %s", uop::brief(b).text, uop::brief(s).text));
  const bool center = op.integer("center_point_box", 0) != 0;
  const auto n = static_cast<size_t>(b->dim(1)), classes = static_cast<size_t>(s->dim(1));
  Vec<Word> out(op.heap()), order(op.heap());
  Vec<size_t> chosen(op.heap());
  op.fail(order.resize(n));
  for (size_t batch = 0; batch < static_cast<size_t>(b->dim(0)); ++batch) {
    for (size_t c = 0; c < classes && op.ok(); ++c) {
      const double* of = scores.data() + (batch * classes + c) * n;
      const auto box = [&](Word i) {
        return box_of(boxes.data() + (batch * n + static_cast<size_t>(i)) * 4, center);
      };
      std::iota(order.begin(), order.end(), Word{0});
      std::sort(order.begin(), order.end(), [&](Word x, Word y) {
        const bool none = std::isnan(of[x]), other = std::isnan(of[y]);
        if (none != other) return other;  // those that are no numbers come last
        return none || of[x] == of[y] ? x < y : of[x] > of[y];
      });
      chosen.clear();
      for (const Word i : order) {
        if (static_cast<int64_t>(chosen.size()) >= most || !(of[i] > least)) break;
        const bool hidden = std::any_of(chosen.begin(), chosen.end(), [&](size_t k) {
          return overlap(box(static_cast<Word>(k)), box(i), iou);
        });
        if (hidden) continue;
        op.fail(chosen.push(static_cast<size_t>(i)));
        const Word row[] = {static_cast<Word>(batch), static_cast<Word>(c), i};
        op.fail(out.append(row, 3));
      }
    }
  }
  if (op.ok())
    op.set(op.stored({out.data(), out.size()},
                     std::array{static_cast<Word>(out.size() / 3), Word{3}}, DType::kInt64));
}

namespace {

// Samples of one box; and of how many the work counts as that of a node.
constexpr double kMostSamples = 1 << 22, kSamples = 16;

struct Align {
  Word height, width, rows, columns;
  int64_t ratio;
  double scale, offset;
  bool greatest;
};

// Places and weights of the four corners of every sample of a box, cell by cell.
struct Samples {
  explicit Samples(Memory& memory) : places(memory), weights(memory) {}
  Vec<Word> places;
  Vec<double> weights;
  Word each = 0;  // samples a cell
};

void corners(Op& op, Samples* out, const Align& a, double y, double x, double by) {
  const auto h = static_cast<double>(a.height), w = static_cast<double>(a.width);
  Word places[4] = {};
  double weights[4] = {};
  if (y >= -1 && y <= h && x >= -1 && x <= w) {
    y = std::clamp(y, 0.0, h - 1);
    x = std::clamp(x, 0.0, w - 1);
    const Word y0 = static_cast<Word>(y), x0 = static_cast<Word>(x),
               y1 = std::min(y0 + 1, a.height - 1), x1 = std::min(x0 + 1, a.width - 1);
    const double ly = y - static_cast<double>(y0), lx = x - static_cast<double>(x0);
    const Word at[] = {y0 * a.width + x0, y0 * a.width + x1, y1 * a.width + x0, y1 * a.width + x1};
    const double of[] = {(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx};
    for (int i = 0; i < 4; ++i) {
      places[i] = at[i];
      weights[i] = of[i] * by;
    }
  }
  op.fail(out->places.append(places, 4));
  op.fail(out->weights.append(weights, 4));
}

void sample_box(Op& op, Samples* out, const Align& a, const double* roi) {
  const double x0 = roi[0] * a.scale - a.offset, y0 = roi[1] * a.scale - a.offset;
  double w = roi[2] * a.scale - a.offset - x0, h = roi[3] * a.scale - a.offset - y0;
  if (a.offset == 0) {
    w = std::max(w, 1.0);
    h = std::max(h, 1.0);
  }
  const double cell_h = h / static_cast<double>(a.rows),
               cell_w = w / static_cast<double>(a.columns);
  const double limit = 1 << 12;
  const double grid_h = a.ratio > 0 ? static_cast<double>(a.ratio) : std::ceil(cell_h),
               grid_w = a.ratio > 0 ? static_cast<double>(a.ratio) : std::ceil(cell_w);
  const double cells = static_cast<double>(a.rows * a.columns),
               samples = std::max(grid_h, 0.0) * std::max(grid_w, 0.0);
  if (!(grid_h <= limit && grid_w <= limit && cells * samples <= kMostSamples))
    return op.fail(ASTER_FAIL(kRANGE, "a box of %g by %g in %g cells", h, w, cells));
  op.fail(op.run.spend(static_cast<uint64_t>(cells * samples / kSamples)));
  const double count = std::max(grid_h * grid_w, 1.0);
  for (Word i = 0; i < a.rows; ++i) {
    for (Word j = 0; j < a.columns; ++j) {
      for (double u = 0; u < grid_h && op.ok(); ++u) {
        for (double v = 0; v < grid_w && op.ok(); ++v) {
          corners(op, out, a, y0 + static_cast<double>(i) * cell_h + (u + 0.5) * cell_h / grid_h,
                  x0 + static_cast<double>(j) * cell_w + (v + 0.5) * cell_w / grid_w,
                  a.greatest ? 1 : 1 / count);
        }
      }
    }
  }
  out->each = static_cast<Word>(samples);
}

}  // namespace

void roi_align(Op& op) {
  const Node x = op.in(0);
  const std::span<const double> rois = op.reals(1);
  const Words batches = op.ints(2);
  if (!op.ok()) return;
  const Node boxes = op.in(1);
  Align a{x->ndim == 4 ? x->dim(2) : 0,
          x->ndim == 4 ? x->dim(3) : 0,
          op.integer("output_height", 1),
          op.integer("output_width", 1),
          op.integer("sampling_ratio", 0),
          op.number("spatial_scale", 1),
          0,
          op.text("mode", "avg") == "max"};
  const bool half =
      op.version >= 16 && op.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  a.offset = half ? 0.5 : 0;
  if (x->ndim != 4 || a.height < 1 || a.width < 1 || boxes->ndim != 2 || boxes->dim(1) != 4 ||
      boxes->dim(0) != static_cast<Word>(batches.size()) || a.rows < 1 || a.columns < 1 ||
      a.rows > 1 << 12 || a.columns > 1 << 12) {
    return op.fail(
        ASTER_FAIL(kSHAPE, "%s in boxes %s", uop::brief(x).text, uop::brief(boxes).text));
  }
  const Word c = x->dim(1);
  const Node flat = op.g.reshape(x, std::array{x->dim(0), c, a.height * a.width});
  Vec<Node> all(op.heap());
  for (size_t i = 0; i < batches.size() && op.ok(); ++i) {
    Samples samples(op.heap());
    sample_box(op, &samples, a, rois.data() + 4 * i);
    if (!op.ok()) return;
    const std::array shape{a.rows * a.columns, samples.each, Word{4}};
    const Node at = op.stored({samples.places.data(), samples.places.size()}, shape, DType::kInt64);
    const Expr weight{
        &op.g, op.stored(std::span<const double>(samples.weights.data(), samples.weights.size()),
                         shape, x->dtype)};
    const Node image = tensor::select(op.g, flat, 0, batches[i]);
    const Expr read = Expr{&op.g, take(op, image, 1, at)} * weight;
    // The greatest of weighted corners, or their sum.
    const Dims over(Words(std::array<Word, 2>{2, 3}));
    const Expr y = uop::reduce(a.greatest ? uop::Op::kMax : uop::Op::kAdd, read, over);
    const Node cells =
        y.n == nullptr ? nullptr : op.g.reshape(y.n, std::array{c, a.rows, a.columns});
    if (cells == nullptr) return op.fail(last_failure());
    op.fail(all.push(cells));
  }
  if (!op.ok()) return;
  if (all.empty())
    return op.set(op.g.constant(x->dtype, 0, std::array{Word{0}, c, a.rows, a.columns}));
  op.set(tensor::stack(op.g, {all.data(), all.size()}, 0));
}

namespace {

// Elements of an axis that the cells of a box reach: [cells, each] places, the last one again and
// again where a cell has fewer; and which cells have any.
struct Reach {
  explicit Reach(Memory& memory) : places(memory), some(memory) {}
  Vec<Word> places;
  Vec<double> some;
  Word each = 1;
};

// first and last: the box on an axis of that size, ends included.
void reach_of(Op& op, Reach* out, double first, double last, Word size, Word cells) {
  const double each = std::max(last - first + 1, 1.0) / static_cast<double>(cells);
  const auto inside = [&](double at) {
    return static_cast<Word>(std::clamp(at + first, 0.0, static_cast<double>(size)));
  };
  const auto range = [&](Word i) {
    return std::array{inside(std::floor(static_cast<double>(i) * each)),
                      inside(std::ceil(static_cast<double>(i + 1) * each))};
  };
  for (Word i = 0; i < cells; ++i) out->each = std::max(out->each, range(i)[1] - range(i)[0]);
  for (Word i = 0; i < cells && op.ok(); ++i) {
    const auto [begin, end] = range(i);
    op.fail(out->some.push(end > begin ? 1 : 0));
    for (Word k = 0; k < out->each && op.ok(); ++k)
      op.fail(out->places.push(end > begin ? std::min(begin + k, end - 1) : 0));
  }
}

// The greatest elements of cells along an axis of x.
Expr greatest_along(Op& op, Expr x, size_t axis, const Reach& reach) {
  const auto cells = static_cast<Word>(reach.some.size());
  const Node at = op.stored({reach.places.data(), reach.places.size()},
                            std::array{cells, reach.each}, DType::kInt64);
  const Expr read{&op.g, take(op, x.n, axis, at)};
  const Dims over(Words(std::array{static_cast<Word>(axis + 1)}));
  return {&op.g, uop::drop_axes(op.g, uop::reduce(uop::Op::kMax, read, over).n, over)};
}

}  // namespace

void max_roi_pool(Op& op) {
  const Node x = op.in(0);
  const std::span<const double> rois = op.reals(1);
  const Words pooled = op.integers("pooled_shape");
  const double scale = op.number("spatial_scale", 1);
  if (!op.ok()) return;
  const Node boxes = op.in(1);
  const Word most = 1 << 12;
  if (x->ndim != 4 || x->dim(2) < 1 || x->dim(3) < 1 || boxes->ndim != 2 || boxes->dim(1) != 5 ||
      pooled.size() != 2 || std::min(pooled[0], pooled[1]) < 1 ||
      std::max(pooled[0], pooled[1]) > most)
    return op.fail(
        ASTER_FAIL(kSHAPE, "%s in boxes %s", uop::brief(x).text, uop::brief(boxes).text));
  Vec<Node> all(op.heap());
  for (size_t i = 0; i < rois.size() && op.ok(); i += 5) {
    const double *const box = rois.data() + i, image = box[0];
    double side[4];
    for (int k = 0; k < 4; ++k) side[k] = std::round(box[k + 1] * scale);
    if (!(image >= 0 && image < static_cast<double>(x->dim(0))) ||
        !std::all_of(side, side + 4, [](double at) { return std::fabs(at) < 1e9; }))
      return op.fail(
          ASTER_FAIL(kRANGE, "box %zu of image %g, from %g to %g", i / 5, image, box[1], box[3]));
    Reach rows(op.heap()), columns(op.heap());
    reach_of(op, &rows, side[1], side[3], x->dim(2), pooled[0]);
    reach_of(op, &columns, side[0], side[2], x->dim(3), pooled[1]);
    if (!op.ok()) return;
    const Expr plane{&op.g, tensor::select(op.g, x, 0, static_cast<Word>(image))};
    const Expr y = greatest_along(op, greatest_along(op, plane, 1, rows), 2, columns);
    // Cells that reach nothing are 0.
    const auto some = [&](const Reach& reach, Words shape) {
      return Expr{&op.g, op.stored(std::span<const double>(reach.some.data(), reach.some.size()),
                                   shape, x->dtype)};
    };
    const Expr any =
        some(rows, std::array{pooled[0], Word{1}}) * some(columns, std::array{Word{1}, pooled[1]});
    const Node cells = uop::where(any > 0.0, y, 0.0 * any).n;
    if (cells == nullptr) return op.fail(last_failure());
    op.fail(all.push(cells));
  }
  if (!op.ok()) return;
  if (all.empty())
    return op.set(op.g.constant(x->dtype, 0, std::array{Word{0}, x->dim(1), pooled[0], pooled[1]}));
  op.set(tensor::stack(op.g, {all.data(), all.size()}, 0));
}

}  // namespace build
}  // namespace aster::nn::onnx
