# A build of 100 files, each of which asks for its headers in 12 directories.
mkdir -p headers/{a,b,c,d,e,f,g,h,i,j,k}
mkdir headers/l
for i in {1..8}; do
    echo "#define H$i $i" >headers/l/h$i.h
done
{
    echo 'FLAGS = -Iheaders/a -Iheaders/b -Iheaders/c -Iheaders/d -Iheaders/e -Iheaders/f -Iheaders/g -Iheaders/h \'
    echo '    -Iheaders/i -Iheaders/j -Iheaders/k -Iheaders/l'
    echo "all: $(printf 'f%s.o ' {1..100})"
    printf '%%.o: %%.c\n\tcc $(FLAGS) -c -o $@ $<\n'
} >Makefile
for i in {1..100}; do
    { printf '#include "h%s.h"\n' {1..8}; echo "int f$i(void) { return H1; }"; } >f$i.c
done
