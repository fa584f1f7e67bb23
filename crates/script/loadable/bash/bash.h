/* What this library needs of bash 5.1, 5.2 and 5.3, as its headers (command.h, builtins.h, jobs.h, shell.h)
   have it. Declared here, so that becalm can be built without them; tests compare the two. */
#pragma once

#include <signal.h>
#include <sys/types.h>

typedef struct word_desc {
    char *word;
    int flags;
} WORD_DESC;

typedef struct word_list {
    struct word_list *next;
    WORD_DESC *word;
} WORD_LIST;

typedef int sh_builtin_func_t(WORD_LIST *);

struct builtin {
    char *name;
    sh_builtin_func_t *function;
    int flags;
    char *const *long_doc;
    const char *short_doc;
    char *handle;
};

#define BUILTIN_ENABLED 0x01
#define BUILTIN_DELETED 0x02
#define CMDSRCH_HASH 0x01
#define CMDSRCH_STDPATH 0x02
#define EX_DISKFALLBACK 262
#define FORK_SYNC 0
#define SUBSHELL_FORK 0x08
#define SUBSHELL_IGNTRAP 0x100

extern const char *const dist_version;

extern struct builtin *shell_builtins;
extern struct builtin static_shell_builtins[];
extern int num_shell_builtins;
extern struct builtin *builtin_address_internal(char *name, int disabled_okay);
extern int describe_command(char *name, int flags);

extern int default_buffered_input;
extern int interactive_shell;
extern int privileged_mode;
extern int executing_command_builtin;
extern char *this_command_name;
extern char *the_printed_command;
extern char *the_printed_command_except_trap;
extern void *temporary_env;
extern WORD_LIST *subst_assign_varlist;
extern void *find_variable(const char *name);
extern int unbound_vars_is_error;
extern void *find_function(const char *name);
extern char *search_for_command(const char *name, int flags);
extern void maybe_make_export_env(void);
extern void put_command_name_into_env(char *path);
extern char **export_env;
extern void *xmalloc(size_t);
extern void xfree(void *);

extern int subshell_environment;
extern int job_control;
extern int running_trap;
extern sigset_t top_level_mask;
extern int pending_traps[];
extern int signal_is_trapped(int);
extern int signal_is_ignored(int);
extern int signal_is_hard_ignored(int);
extern void reset_terminating_signals(void);
extern void restore_original_signals(void);
extern pid_t make_child(char *text, int flags);
extern int stop_pipeline(int async, void *command);
extern int wait_for(pid_t, int flags);
extern int shell_execve(char *path, char **argv, char **env);

typedef struct bucket_contents {
    struct bucket_contents *next;
    char *key;
    void *data;
    unsigned int khash;
    int times_found;
} BUCKET_CONTENTS;

/* Of hashcmd.h, which is not installed: PATH_DATA. */
struct path_data {
    char *path;
    int flags;
};

extern void *hashed_filenames;
extern BUCKET_CONTENTS *hash_search(const char *key, void *table, int flags);
extern char *find_user_command(const char *name);

extern void *aliases;
extern void *find_alias(char *name);
extern int xpg_echo, pipefail_opt, echo_command_at_execute, read_but_dont_execute, restricted;
extern int noclobber, startup_state, echo_input_at_read, place_keywords_in_env;
extern char *ifs_value;
extern volatile int terminating_signal;
extern int fail_glob_expansion, tempenv_assign_error;

extern WORD_DESC *make_word(const char *);
extern WORD_LIST *make_word_list(WORD_DESC *, WORD_LIST *);
extern WORD_LIST *expand_words_no_vars(WORD_LIST *);
extern void dispose_words(WORD_LIST *);
extern WORD_DESC *command_substitute(char *string, int quoted, int flags);

typedef struct variable {
    char *name, *value, *exportstr;
    void *dynamic_value, *assign_func;
    int attributes, context;
} SHELL_VAR;

#define ATT_NAMEREF 0x0000800

extern SHELL_VAR *find_variable_noref(const char *name);
