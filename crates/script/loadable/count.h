/* What `becalm run --builtins --count` says at the end. */
#pragma once

/* In the order of src/builtins/count.rs. */
enum counted {
    AVOIDED,      /* done in the shell's own process */
    ONLY_STARTED, /* programs that are always started */
    UNKNOWN,      /* not the very file that is known */
    SHELL,        /* at that place the script could have told the difference */
    VARIABLES,    /* with the exported variables, or so many arguments, too */
    REQUEST,      /* options, or an outcome, that only the program has */
    COUNTED
};

/* Finds the file that is counted in, if there is one. */
void count_in_file(void);

/* One more shell. */
void count_shell(void);

/* One more, or one fewer, start of a tool (enum tool). */
void count(int tool, enum counted, int by);

/* One more, or one fewer, start of a program that is no tool. */
void count_other(int by);
