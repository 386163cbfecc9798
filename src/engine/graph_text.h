// Graphs for people, as Graphviz text or as JSON for the page: nodes in order, then edges.
#pragma once

#include "base/text.h"

namespace aster::engine {

// What a node is, for its colour.
enum class Shown : uint8_t {
  kInput,      // memory that is there
  kOutput,     // results
  kTemporary,  // memory between kernels
  kConstant,
  kMovement,
  kElementwise,
  kReduction,
  kStructure,
  kLoop,
  kKernel,
  kLibrary,
};

class GraphText {
 public:
  // format: ASTER_ML_GRAPH_DOT or ASTER_ML_GRAPH_JSON.
  GraphText(Text& out, int32_t format, const char* level);

  // Nodes that follow, up to the end, stand in a box.
  void group_begin(std::string_view name);
  void group_end();
  // Numbered from 0. Text of code, if any, stands in the node.
  void node(std::string_view title, std::string_view subtitle, Shown kind,
            std::string_view code = {});
  void detail(std::string_view name, std::string_view value);
  void node_end();
  // After all nodes.
  void edge(uint32_t from, uint32_t to, std::string_view label = {});
  void finish();
  uint32_t nodes() const { return nodes_; }

 private:
  void escaped(std::string_view text, const char* line_end);
  void quoted(std::string_view text);
  Text& out_;
  Text groups_;
  bool dot_;
  bool first_ = true;  // of a list
  bool edges_ = false;
  uint32_t nodes_ = 0, group_count_ = 0;
  bool in_group_ = false;
};

}  // namespace aster::engine
