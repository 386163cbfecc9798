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

// Every instruction and every way to write it.
inline const char* const kEverything = R"(function twice
%0 = Param f32xn 0
%1 = Param f32 1
%2 = Spread f32xn %1
%3 = Add f32xn %0 %0
%4 = CmpLt boolxn %3 %2
%5 = Acc f32xn %3
%6 = Across:Or bool %4
If %6
  %7 = Where f32xn %4 %2 %3
  Set %5 %7
End
Result %5

program everything
axis u 2, w 8
%0 = Param i64 0 from 1 to 4096 by 8
%1 = Param i32 1 from -5 to 5
%2 = Param f32 0 [64*%0]
%3 = Param f32 1 [1024] write
%4 = Param i32 2 [16] write atomic
%5 = Param bf16 3 [8*%0 + 16]
%6 = Table i64 [4] 0 -1 9223372036854775807 3
%7 = Array f32 [256] scratch slack 16
%8 = Const f32 0.10000000149011612
%9 = Const f64 -inf
%10 = Const u64 18446744073709551615
%11 = Const bool 1
%12 = Const f32 nan
%13 = Loop group 0 0 %0 8
  %14 = Loop local 0 0 8 1
    %15 = Lanes i32x8
    %16 = Spread boolx8 %11
    %17 = Load f32x8 %2 + %13 at %15 gate %11 mask %16 first 5 keep
    %18 = Load f32x8 %2 + 8*%13 step 8
    %19 = Call f32x8 twice %17 %8
    %20 = Shuffle f32x8 %17 %19 0 8 1 9 2 10 3 11
    %21 = Lane f32 %20 7
    Prefetch %3 + 100*%14 write
    %22 = Const i32 1
    Atomic:Add %4 + %14, %22
    Barrier local
    %23 = Axis i64 {u} u
    %24 = Add f32x8 %20 %18
    Each u
      %25 = Load f32x8 {u} %7 + 8*u
    End
    %26 = Turn f32x8 {w} %25 u->w
    %27 = Join:Max f32x8 %26 w
    %28 = Loop i32 0 4 2
      %29 = Cast i64 %28
      %30 = Load f32 %7 - %29 + 3
      %31 = ToInt i32 %30
      %32 = Bitcast f32 %31
    End
    Store %3 + 8*%14, %24 first 3 stream
  End
End
)";

// Items of a group that turn eight elements round.
inline const char* const kReversed = R"(program p
%0 = Param i32 0 [32]
%1 = Param i32 1 [32] write
%2 = Array i32 [8] local
%3 = Const i64 7
%4 = Loop group 0 0 32 8
  %5 = Loop local 0 0 8 1
    %6 = Load i32 %0 + %4 + %5
    Store %2 + %5, %6
    Barrier local
    %7 = Load i32 %2 - %5 + 7
    Store %1 + %4 + %5, %7
  End
End
)";

}  // namespace aster::codegen::program::tests
