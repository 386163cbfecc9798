// Operators of texts.
#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "base/utf8.h"
#include "nn/onnx/builders.h"
#include "nn/onnx/regex.h"

namespace aster::nn::onnx {
namespace {

Ref texts_in(Op& op, size_t i) {
  const Ref given = op.value(i);
  if (given && !given->is_texts())
    op.fail(ASTER_FAIL(kDTYPE, "operand %zu is no tensor of texts", i));
  return op.ok() ? given : Ref();
}

Words shape_of(const Ref& texts) { return {texts->shape.data(), texts->shape.size()}; }

void put_text(Op& op, const Ref& into, std::string_view text) {
  Text made(op.heap());
  made << text;
  op.fail(made.status());
  if (op.ok()) op.fail(into->texts.push(std::move(made)));
}

// ASCII letters and those of Latin-1, which is what texts in the wild are normalised for.
void put_cased(Text& out, std::string_view text, bool upper) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool letter = upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
    const bool latin =
        i > 0 && static_cast<unsigned char>(text[i - 1]) == 0xC3 &&
        (upper ? c >= 0xA0 && c <= 0xBE && c != 0xB7 : c >= 0x80 && c <= 0x9E && c != 0x97);
    out << static_cast<char>(letter ? c ^ 0x20 : latin ? c ^ 0x20 : c);
  }
}

bool is_stopword(std::span<const std::string_view> stops, std::string_view text, Op& op,
                 bool exact) {
  for (const std::string_view stop : stops) {
    if (exact && stop == text) return true;
    if (exact) continue;
    Text a(op.heap()), b(op.heap());
    put_cased(a, stop, false);
    put_cased(b, text, false);
    op.fail(a.status());
    op.fail(b.status());
    if (a.view() == b.view()) return true;
  }
  return false;
}

}  // namespace

namespace build {

void string_normalizer(Op& op) {
  const Ref x = texts_in(op, 0);
  if (!op.ok()) return;
  const std::string_view change = op.text("case_change_action", "NONE");
  const bool exact = op.integer("is_case_sensitive", 0) != 0;
  const auto stops = op.texts("stopwords");
  const Words shape = shape_of(x);
  if (shape.size() != 1 && !(shape.size() == 2 && shape[0] == 1))
    return op.fail(ASTER_FAIL(kSHAPE, "texts of shape %s", uop::brief_shape(shape).text));
  Ref made;
  op.fail(make_texts(&made, op.heap(), shape));
  for (const Text& text : x->texts) {
    if (!op.ok()) return;
    if (is_stopword(stops, text.view(), op, exact)) continue;
    if (change == "NONE") {
      put_text(op, made, text.view());
    } else {
      Text cased(op.heap());
      put_cased(cased, text.view(), change == "UPPER");
      put_text(op, made, cased.view());
    }
  }
  if (op.ok() && made->texts.empty()) put_text(op, made, "");
  if (!op.ok()) return;
  made->shape[shape.size() - 1] = static_cast<Word>(made->texts.size());
  made->known = op.all_known();
  op.set(made);
}

void string_concat(Op& op) {
  const Ref a = texts_in(op, 0), b = texts_in(op, 1);
  if (!op.ok()) return;
  Dims shape;
  if (!uop::broadcast_shape(&shape, shape_of(a), shape_of(b)))
    return op.fail(ASTER_FAIL(kSHAPE, "%s and %s do not broadcast",
                              uop::brief_shape(shape_of(a)).text,
                              uop::brief_shape(shape_of(b)).text));
  int64_t count = 0;
  if (!uop::count_elements(shape, &count))
    return op.fail(ASTER_FAIL(kRANGE, "texts of shape %s", uop::brief_shape(shape).text));
  op.fail(op.run.spend(static_cast<uint64_t>(count)));
  Ref made;
  op.fail(make_texts(&made, op.heap(), shape));
  const auto place = [&](Words of, Word i) {
    size_t at = 0, stride = 1;
    for (size_t k = 0; k < shape.size(); ++k) {
      const size_t axis = shape.size() - 1 - k;
      const Word here = i % shape[axis];
      i /= shape[axis];
      if (k >= of.size()) continue;
      const Word dim = of[of.size() - 1 - k];
      if (dim != 1) at += static_cast<size_t>(here) * stride;
      stride *= static_cast<size_t>(dim);
    }
    return at;
  };
  for (Word i = 0; i < count && op.ok(); ++i) {
    Text both(op.heap());
    both << a->texts[place(shape_of(a), i)].view() << b->texts[place(shape_of(b), i)].view();
    op.fail(both.status());
    if (op.ok()) op.fail(made->texts.push(std::move(both)));
  }
  if (!op.ok()) return;
  made->known = op.all_known();
  op.set(made);
}

void regex_full_match(Op& op) {
  const Ref x = texts_in(op, 0);
  if (!op.ok()) return;
  Regex regex(op.heap());
  op.fail(regex.compile(op.text("pattern", "")));
  Ref made;
  void* data = nullptr;
  if (op.ok()) op.fail(make_stored(&made, &data, op.engine(), DType::kBool, shape_of(x)));
  auto* out = static_cast<bool*>(data);
  constexpr uint64_t kMost = 300'000'000, kStates = 64;  // of these as a node that is run
  uint64_t steps = 0, spent = 0;
  for (const Text& text : x->texts) {
    if (!op.ok()) return;
    op.fail(regex.matches(out++, text.view(), &steps, kMost));
    if (steps > kMost) op.fail(ASTER_FAIL(kRANGE, "texts that are too long for the expression"));
    if (op.ok() && steps / kStates > spent) op.fail(op.run.spend(steps / kStates - spent));
    spent = std::max(spent, steps / kStates);
  }
  if (!op.ok()) return;
  made->known = op.all_known();
  op.set(made);
}

namespace {

// The parts of a text: between delimiters, or where there is none between runs of blanks.
template <typename Each>
void each_part(std::string_view text, std::string_view delimiter, int64_t most, Each each) {
  const bool blanks = delimiter.empty();
  const auto skip = [&] {
    const size_t at = text.find_first_not_of(" \t\n\r\v\f");
    text = at == std::string_view::npos ? std::string_view() : text_slice(text, at);
  };
  if (blanks) skip();
  for (int64_t parts = 0; !blanks || !text.empty(); ++parts) {
    const bool all = most >= 0 && parts >= most;
    const size_t end = all      ? std::string_view::npos
                       : blanks ? text.find_first_of(" \t\n\r\v\f")
                                : text.find(delimiter);
    if (end == std::string_view::npos) {
      each(text);
      return;
    }
    each(text_slice(text, 0, end));
    text = text_slice(text, end + (blanks ? 1 : delimiter.size()));
    if (blanks) skip();
  }
}

}  // namespace

void string_split(Op& op) {
  const Ref x = texts_in(op, 0);
  if (!op.ok()) return;
  const std::string_view delimiter = op.text("delimiter", "");
  const int64_t most = op.integer("maxsplit", -1);
  Vec<Word> counts(op.heap());
  Word widest = 0;
  for (const Text& text : x->texts) {
    Word count = 0;
    each_part(text.view(), delimiter, most, [&](std::string_view) { ++count; });
    op.fail(counts.push(count));
    widest = std::max(widest, count);
  }
  Dims shape(shape_of(x));
  shape.push(widest);
  Ref made;
  op.fail(make_texts(&made, op.heap(), shape));
  for (size_t i = 0; i < x->texts.size() && op.ok(); ++i) {
    each_part(x->texts[i].view(), delimiter, most,
              [&](std::string_view part) { put_text(op, made, part); });
    for (Word k = counts[i]; k < widest && op.ok(); ++k) put_text(op, made, "");
  }
  if (!op.ok()) return;
  made->known = op.all_known();
  op.set(0, made);
  op.set(1, op.stored({counts.data(), counts.size()}, shape_of(x), DType::kInt64));
}

namespace {

// One row of tokens against the n-grams of the pool.
struct Grams {
  Words counts, indexes, numbers;
  std::span<const std::string_view> texts;
  int64_t least, most, skips;

  size_t size() const { return numbers.empty() ? texts.size() : numbers.size(); }
  // Calls found(i) for every time that gram i is in tokens; equal(place in the pool, token).
  template <typename Equal, typename Found>
  void match(size_t tokens, Equal equal, Found found) const {
    size_t gram = 0;
    for (size_t n = 1; n <= counts.size(); ++n) {
      const auto begin = static_cast<size_t>(counts[n - 1]);
      const size_t end = n < counts.size() ? static_cast<size_t>(counts[n]) : size();
      for (size_t at = begin; at + n <= end; at += n, ++gram) {
        if (static_cast<int64_t>(n) < least || static_cast<int64_t>(n) > most) continue;
        // Skips between tokens of one do not differ, and none skips more than there are.
        const int64_t ways = n == 1 ? 0 : std::min(skips, static_cast<int64_t>(tokens));
        for (int64_t skip = 0; skip <= ways; ++skip) {
          const size_t step = static_cast<size_t>(skip) + 1;
          for (size_t first = 0; first + (n - 1) * step < tokens; ++first) {
            bool same = true;
            for (size_t k = 0; same && k < n; ++k) same = equal(at + k, first + k * step);
            if (same) found(gram);
          }
        }
      }
    }
  }
};

}  // namespace

void tf_idf_vectorizer(Op& op) {
  const Ref x = op.value(0);
  if (!op.ok()) return;
  const bool texts = x->is_texts();
  const Words numbers = texts ? Words() : op.ints(0);
  if (!op.ok()) return;
  const Words shape = texts ? shape_of(x) : x->node()->shape();
  Grams grams{op.integers("ngram_counts"),      op.integers("ngram_indexes"),
              op.integers("pool_int64s"),       op.texts("pool_strings"),
              op.integer("min_gram_length", 1), op.integer("max_gram_length", 1),
              op.integer("max_skip_count", 0)};
  Word width = 0;
  bool fits = (shape.size() == 1 || shape.size() == 2) && grams.skips >= 0 &&
              grams.skips < 1 << 20 && texts == grams.numbers.empty();
  for (const Word at : grams.indexes) {
    fits = fits && at >= 0 && at < 1 << 28;
    width = fits ? std::max(width, at + 1) : width;
  }
  for (size_t i = 0; i < grams.counts.size(); ++i)
    fits = fits && grams.counts[i] >= (i == 0 ? 0 : grams.counts[i - 1]) &&
           grams.counts[i] <= static_cast<Word>(grams.size());
  if (!fits) return op.fail(ASTER_FAIL(kSHAPE, "n-grams of a %s", uop::brief_shape(shape).text));
  const Word rows = shape.size() == 2 ? shape[0] : 1, tokens = shape[shape.size() - 1];
  const std::string_view mode = op.text("mode", "TF");
  const auto weights = op.numbers("weights");
  Vec<double> out(op.heap());
  Word cells;
  if (!checked_mul(rows, width, &cells))
    return op.fail(ASTER_FAIL(kRANGE, "n-grams of a %s", uop::brief_shape(shape).text));
  op.fail(out.resize(static_cast<size_t>(cells), 0.0));
  for (Word row = 0; row < rows && op.ok(); ++row) {
    const auto first = static_cast<size_t>(row * tokens);
    grams.match(
        static_cast<size_t>(tokens),
        [&](size_t in_pool, size_t token) {
          return texts ? grams.texts[in_pool] == x->texts[first + token].view()
                       : grams.numbers[in_pool] == numbers[first + token];
        },
        [&](size_t gram) {
          if (gram < grams.indexes.size())
            out[static_cast<size_t>(row * width + grams.indexes[gram])] += 1;
        });
    for (size_t gram = 0; gram < grams.indexes.size() && mode != "TF"; ++gram) {
      double& count = out[static_cast<size_t>(row * width + grams.indexes[gram])];
      const double weight = gram < weights.size() ? weights[gram] : 1;
      count = mode == "IDF" ? (count > 0 ? weight : 0) : count * weight;
    }
  }
  if (!op.ok()) return;
  const std::span<const double> all(out.data(), out.size());
  op.set(shape.size() == 1 ? op.stored(all, std::array{width}, DType::kFloat32)
                           : op.stored(all, std::array{rows, width}, DType::kFloat32));
}

}  // namespace build
}  // namespace aster::nn::onnx
