// Programs that a backend executes whole.
#include "device/device.h"
#include "engine/device_program.h"
#include "engine/indexing.h"
#include "nn/portable.h"
#include "runtime/device.h"

namespace aster::nn::portable {
namespace {

using engine::DeviceProgram;
using engine::need;

Status fill(DeviceProgram* program, const Parts& parts, const CheckedGraph& graph) {
  // Where the constants were is of no matter: the line that names their file stands behind the
  // first one.
  std::string_view text = parts.text;
  const size_t first = text.find('\n') + 1;
  program->text << text_slice(text, 0, first);
  text.remove_prefix(first);
  if (text.starts_with("data ")) text.remove_prefix(text.find('\n') + 1);
  program->text << text;
  ASTER_TRY(program->text.status());
  for (Node input : graph.inputs) ASTER_TRY(program->add(input));
  program->inputs = graph.inputs.size();
  for (Node output : graph.outputs) ASTER_TRY(program->add(output));
  if (parts.data == nullptr || parts.data_bytes == 0) return kOk;
  program->constants = parts.data->storage();
  buffer::storage_retain(program->constants);
  program->constants_offset = parts.data->offset() + parts.data_offset;
  program->constants_bytes = parts.data_bytes;
  return kOk;
}

Status make_inputs(Vec<Node>* out, engine::Engine& engine, const DeviceProgram& program) {
  for (size_t i = 0; i < program.inputs; ++i) {
    const DeviceProgram::Array& array = program.arrays[i];
    buffer::Storage* storage = nullptr;
    ASTER_TRY(buffer::storage_create(&storage, engine.context, array.bytes, program.device->code));
    const Node node = engine::buffer_node(engine, storage, 0, array.dtype, program.shape(array));
    buffer::storage_release(storage);
    ASTER_TRY(need(node));
    ASTER_TRY(out->push(node));
  }
  return kOk;
}

// The captured program of one launch. It takes over what was taken.
Status capture(aster_ml_program* out, engine::Engine& engine, DeviceProgram* program,
               CheckedGraph& graph) {
  Heap& heap = engine.context.heap();
  const aster_ml_context context = engine.context.inner_handle();
  Vec<Node> inputs(heap), results(heap);
  Cells given(heap), made(heap);
  Status status = make_inputs(&inputs, engine, *program);
  if (status.ok()) status = given.make(engine, {inputs.data(), inputs.size()});
  if (status.ok())
    status = Status{aster_ml_engine_capture_begin(&context, given.data(), given.size())};
  if (!status.ok()) {
    heap.destroy(program);
    return status;
  }
  engine.recording->dry = true;
  status = engine::record_device_program(&results, engine, program, {inputs.data(), inputs.size()},
                                         {graph.assigned.data(), graph.assigned.size()});
  if (status.ok()) status = made.make(engine, {results.data(), results.size()});
  if (!status.ok()) {
    engine::drop_recording(engine);
    return status;
  }
  aster_ml_program captured{};
  ASTER_TRY(Status{aster_ml_engine_capture_end(&captured, &context, made.data(), made.size())});
  status = name_arrays(&captured, ASTER_ML_PROGRAM_INPUTS, graph.input_names);
  if (status.ok()) status = name_arrays(&captured, ASTER_ML_PROGRAM_OUTPUTS, graph.output_names);
  if (!status.ok()) {
    aster_ml_program_free(&captured);
    return status;
  }
  object_of<engine::Program>(captured.impl)->writes_state |= graph.state;
  *out = captured;
  return kOk;
}

}  // namespace

Status load_whole(aster_ml_program* out, bool* taken, engine::Engine& engine, const Parts& parts,
                  int32_t device) {
  *taken = false;
  const aster_ml_backend* backend = nullptr;
  ASTER_TRY(device::backend(&backend, device));
  if (backend == nullptr || backend->execute_program == nullptr) return kOk;
  Heap& heap = engine.context.heap();
  uop::Graph nodes(heap);
  nodes.defaults = engine.graph.defaults;
  CheckedGraph graph(heap);
  ASTER_TRY(check_graph(&graph, nodes, parts));
  if (graph.variables) return kOk;
  const runtime::Device* record = nullptr;
  ASTER_TRY(runtime::record_of(&record, engine.context, device, *backend));
  auto* const program = heap.create<DeviceProgram>(heap);
  if (program == nullptr) return out_of_memory(sizeof(DeviceProgram));
  program->device = record;
  const SavedError before;
  Status status = fill(program, parts, graph);
  if (status.ok()) status = program->take(taken);
  if (status.ok() && *taken) return capture(out, engine, program, graph);
  heap.destroy(program);
  ASTER_TRY(status);
  engine.context.log(ASTER_ML_LOG_INFO, "the library computes a program for %s: %s",
                     device::name(device).text, SavedError::message());
  before.restore();
  return kOk;
}

}  // namespace aster::nn::portable
