// Programs that tests and benches share.
#pragma once

namespace aster::codegen::program::tests {

// Two programs as the design drew them: rows summed side by side with two accumulators each, and a
// convolution whose tile of pixels is turned before it is stored.
inline const char* const kRowSum = R"(
program row_sum                                   # sum(x * w + b) of 64 rows of 512
axis u 4, v 2                                     # rows side by side; accumulators of a row
%0 = Param f32 0 [32768]; %1 = Param f32 1 [512]; %2 = Param f32 2 [512]
%3 = Param f32 3 [64] write
%4 = Loop task 0 64 4
  %5 = Acc f32x8 {u v} 0
  %6 = Loop 0 512 16
    Each v; %7 = Load f32x8 {v} %1 + %6 + 8*v; %8 = Load f32x8 {v} %2 + %6 + 8*v; End
    Each u; Each v
      %9 = Load f32x8 {u v} %0 + 512*%4 + %6 + 512*u + 8*v
      %10 = Mul f32x8 {u v} %9 %7; %11 = Add f32x8 {u v} %10 %8
      %12 = Add f32x8 {u v} %5 %11; Set %5 %12
    End; End
  End
  %13 = Join:Add f32x8 {u} %5 v; %14 = Across:Add f32 {u} %13; Store {u} %3 + %4 + u, %14
End
)";
inline const char* const kConv3x3 = R"(
program conv3x3                                   # 64 to 64 channels of 56 x 56
axis u 14, v 2, w 16                     # pixels; vectors of channels; channels of a vector
%0 = Param f32 0 [215296]; %1 = Param f32 1 [36864]      # image with border; weights packed
%2 = Param f32 2 [64]; %3 = Param f32 3 [200704] write
%4 = Loop task 0 2 1; %5 = Loop 0 56 1; %6 = Loop 0 56 14
  %7 = Acc f32x16 {u v} 0
  %8 = Loop 0 64 1; %9 = Loop 0 3 1; %10 = Loop 0 3 1
    Each v; %11 = Load f32x16 {v} %1 + 18432*%4 + 288*%8 + 96*%9 + 32*%10 + 16*v; End
    Each u; %12 = Load f32 {u} %0 + 58*%5 + %6 + 3364*%8 + 58*%9 + %10 + u
      %13 = Spread f32x16 {u} %12
      Each v; %14 = MulAcc f32x16 {u v} %13 %11 %7; Set %7 %14; End
    End
  End; End; End
  %15 = Const f32 0; %16 = Spread f32x16 %15
  Each v; %17 = Load f32x16 {v} %2 + 32*%4 + 16*v
    Each u; %18 = Add f32x16 {u v} %7 %17; %19 = Max f32x16 {u v} %18 %16; End
    %20 = Turn f32x16 {v w} %19 u->w
    Each w; Store {v w} %3 + 100352*%4 + 56*%5 + %6 + 50176*v + 3136*w, %20 first 14; End
  End
End; End; End
)";

}  // namespace aster::codegen::program::tests
