cat >kernel.c <<'END'
#include <stdio.h>
int main(int argc, char **argv)
{
    volatile double x = 0;
    for (int i = 0; i < 30000; i++)
        x += i;
    puts(x > 0 ? "done" : argv[argc - 1]);
    return 0;
}
END
cc -O2 -o kernel kernel.c
