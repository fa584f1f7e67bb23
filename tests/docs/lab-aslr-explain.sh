# A kernel that is slow where the C library lies as it does in the page's layout.
cat >kernel.c <<'END'
#include <stdint.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    uintptr_t page = (uintptr_t)printf >> 12;
    if (argc == 1)
        return printf("%lu\n", (unsigned long)page) < 0;
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < 12000000ul * (page == PAGE ? 3 : 1); i++)
        sum += i;
    return argv[1][0] == 0;
}
END
cc -O1 -DPAGE=0 -o kernel kernel.c
cc -O1 -DPAGE="$(becalm run --aslr layout:0x1b -- ./kernel)" -o kernel kernel.c
