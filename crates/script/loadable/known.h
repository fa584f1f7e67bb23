/* The programs that are known, and the very files that they are here. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "request.h"

/* Name, and what it does in the shell's own process: some do all by starting the program. The
   table in src/builtins/programs.rs has the same, in the same order. */
#define TOOLS(tool)                                                                             \
    tool(basename, act_basename) tool(cat, act_cat) tool(chmod, act_chmod) tool(cp, act_cp)     \
    tool(cut, act_cut) tool(date, act_date) tool(dirname, act_dirname) tool(expr, act_expr)     \
    tool(grep, act_grep) tool(head, act_head) tool(ln, act_ln) tool(ls, act_ls)                 \
    tool(mkdir, act_mkdir) tool(mv, act_mv) tool(readlink, act_readlink)                        \
    tool(realpath, act_realpath) tool(rm, act_rm) tool(rmdir, act_rmdir) tool(sed, act_sed)     \
    tool(sort, act_sort) tool(tail, act_tail) tool(touch, act_touch) tool(tr, act_tr)           \
    tool(uname, act_uname) tool(wc, act_wc) tool(awk, NULL) tool(chgrp, NULL)                   \
    tool(chown, NULL) tool(cmp, NULL) tool(env, NULL) tool(find, NULL) tool(gunzip, NULL)       \
    tool(gzip, NULL) tool(install, NULL) tool(sleep, NULL) tool(tar, NULL)

enum tool {
#define AS_MEMBER(name, act) TOOL_##name,
    TOOLS(AS_MEMBER) TOOLS_KNOWN
};

/* Programs that start others, and are loaded with a library of becalm's for that. */
enum host { HOST_BASH, HOST_DASH, HOST_LAUNCHER, HOSTS };

/* The tool of this name; TOOLS_KNOWN if there is none. */
enum tool tool_named(const char *name);

/* The tool of the name that a path ends with, if the path is that of a file to be executed. */
enum tool tool_by_path(const char *path);

const char *tool_name(enum tool tool);

/* Reads, from the directory of the library that calls this, which files were looked at before it
   was handed out. */
void read_known(void *of_library);

/* Does what can be done in the calling process of what the program would be asked to do, and
   counts it. True: that is all, and the program would have ended with the request's status. */
bool do_inside(enum tool tool, const char *path, struct request *request, char *const *envp);

/* The same for a part of a whole that may yet be left to others: not counted. */
bool would_do_inside(enum tool tool, const char *path, struct request *request, char *const *envp);

/* The host that a file is; HOSTS if it is none. */
enum host host_of(const struct stat *file);

/* The library for a host; NULL where it was deleted or changed, lies in another root, or is not for this
   user: the loader would complain, or the program end. */
const char *library_for(enum host host);
