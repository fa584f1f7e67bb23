/* Basic regular expressions that mean the same in sed, grep, expr and the C library's regcomp. */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

/* Compiles one. False: it is not of those, or wrong; the program has to say. */
bool compile_pattern(const char *pattern, regex_t *compiled);

/* Finds the leftmost longest match at or behind an offset. */
bool match(const regex_t *compiled, const char *text, size_t size, size_t from, regmatch_t *groups);

/* Whether all is ASCII, without NUL: then characters are bytes in each locale here. */
bool is_ascii(const char *bytes, size_t size);

/* Whether letters are sorted as in ASCII in these variables' locale, and in this process's own. */
bool locale_is_plain(char *const *envp);

enum { GROUPS = 10 };
