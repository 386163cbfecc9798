#include "engine/graph_text.h"

#include "aster_ml/engine.h"

namespace aster::engine {
namespace {

struct Look {
  const char* name;
  const char* fill;
  const char* shape;
};
constexpr Look kLooks[] = {
    {"input", "#d7e8f7", "ellipse"},     {"output", "#cfe9d5", "ellipse"},
    {"temporary", "#ececec", "ellipse"}, {"constant", "#f4f1e4", "plaintext"},
    {"movement", "#eee6f6", "box"},      {"elementwise", "#ffffff", "box"},
    {"reduction", "#fde4cf", "box"},     {"structure", "#f6dede", "box"},
    {"loop", "#e0f0ee", "hexagon"},      {"kernel", "#fff3cf", "box"},
    {"library", "#fbdce9", "component"},
};

}  // namespace

GraphText::GraphText(Text& out, int32_t format, const char* level)
    : out_(out), groups_(out.memory()), dot_(format == ASTER_ML_GRAPH_DOT) {
  if (dot_) {
    out_ << "digraph aster {\n  label=\"" << level
         << "\";\n  node [shape=box, style=filled, fontname=\"Helvetica\", fontsize=10];\n"
            "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#555555\"];\n";
  } else {
    out_ << "{\"level\": \"" << level << "\", \"nodes\": [";
  }
}

// line_end: what stands for the end of a line.
void GraphText::escaped(std::string_view text, const char* line_end) {
  constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out_ << line_end;
    } else if (c == '"' || c == '\\') {
      out_ << '\\' << c;
    } else if (byte >= 0x20) {
      out_ << c;
    } else if (!dot_) {
      out_ << "\\u00" << kHex[byte >> 4] << kHex[byte & 15];
    }
  }
}

void GraphText::quoted(std::string_view text) {
  out_ << '"';
  escaped(text, "\\n");
  out_ << '"';
}

void GraphText::group_begin(std::string_view name) {
  in_group_ = true;
  if (dot_) {
    out_.format("  subgraph cluster_%u {\n  style=rounded; color=\"#999999\"; label=",
                group_count_);
    quoted(name);
    out_ << ";\n";
  } else {
    groups_ << (group_count_ == 0 ? "\"" : ", \"") << name << '"';
  }
  ++group_count_;
}

void GraphText::group_end() {
  in_group_ = false;
  if (dot_) out_ << "  }\n";
}

void GraphText::node(std::string_view title, std::string_view subtitle, Shown kind,
                     std::string_view code) {
  const Look& look = kLooks[static_cast<size_t>(kind)];
  first_ = true;
  if (dot_) {
    out_.format("  n%u [fillcolor=\"%s\", shape=%s, label=\"", nodes_, look.fill, look.shape);
    escaped(title, "\\n");
    if (!subtitle.empty()) {
      out_ << "\\n";
      escaped(subtitle, "\\n");
    }
    if (!code.empty()) {
      out_ << "\\n";
      escaped(code, "\\l");
    }
    out_ << "\", tooltip=\"";
  } else {
    out_ << (nodes_ == 0 ? "\n{\"title\": " : ",\n{\"title\": ");
    quoted(title);
    out_ << ", \"subtitle\": ";
    quoted(subtitle);
    out_ << ", \"kind\": \"" << look.name
         << "\", \"group\": " << (in_group_ ? static_cast<int64_t>(group_count_) - 1 : int64_t{-1})
         << ", \"code\": ";
    quoted(code);
    out_ << ", \"details\": {";
  }
  ++nodes_;
}

void GraphText::detail(std::string_view name, std::string_view value) {
  if (dot_) {
    if (!first_) out_ << "\\n";
    escaped(name, " ");
    out_ << ": ";
    escaped(value, "\\n");
  } else {
    if (!first_) out_ << ", ";
    quoted(name);
    out_ << ": ";
    quoted(value);
  }
  first_ = false;
}

void GraphText::node_end() { out_ << (dot_ ? "\"];\n" : "}}"); }

void GraphText::edge(uint32_t from, uint32_t to, std::string_view label) {
  if (dot_) {
    out_.format("  n%u -> n%u", from, to);
    if (!label.empty()) {
      out_ << " [label=";
      quoted(label);
      out_ << ']';
    }
    out_ << ";\n";
    return;
  }
  out_ << (edges_ ? ", [" : "],\n\"edges\": [[") << from << ", " << to << ", ";
  quoted(label);
  out_ << ']';
  edges_ = true;
}

void GraphText::finish() {
  if (dot_) {
    out_ << "}\n";
    return;
  }
  if (!edges_) out_ << "],\n\"edges\": [";
  out_ << "],\n\"groups\": [" << groups_.view() << "]}\n";
}

}  // namespace aster::engine
