// Makes the compiler look into every method: those of templates are read only when they are used.
#include "aster_ml/aster_ml.hpp"

template class aster_ml::detail::Methods<aster_ml::Tensor, aster_ml::Tensor>;
template class aster_ml::detail::Methods<aster_ml::Part, aster_ml::Tensor>;
template class aster_ml::detail::Values<aster_ml::Tensor, aster_ml::Tensor>;
template class aster_ml::detail::Values<aster_ml::Part, aster_ml::Tensor>;
template class aster_ml::detail::EagerMethods<aster_ml::Array, aster_ml::Array>;
