# cmake -DIN=FILE -DOUT=FILE -P embed.cmake: the text of a file as C++ string literals.
file(READ ${IN} text)
string(LENGTH "${text}" length)
set(out "")
set(at 0)
while(at LESS length)  # literals may be limited in length
  string(SUBSTRING "${text}" ${at} 8000 part)
  string(APPEND out "R\"page(${part})page\"\n")
  math(EXPR at "${at} + 8000")
endwhile()
file(WRITE ${OUT} "${out}")
