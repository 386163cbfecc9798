#include "native.h"

namespace aster::python {
PyObject* lazy_dlpack(PyObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_NotImplementedError, "DLPack");
  return nullptr;
}
PyObject* lazy_dlpack_device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", 1, 0); }
PyMethodDef kDlpackMethods[] = {{nullptr, nullptr, 0, nullptr}};
}  // namespace aster::python
