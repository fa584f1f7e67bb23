/* Runs a command under a filter that refuses a call, as a container engine's may:
   refused_call ptrace|perf_event_open COMMAND... */
#include "trap.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

int main(int count, char **words)
{
    check(count > 2);
    unsigned call = strcmp(words[1], "ptrace") ? SYS_perf_event_open : SYS_ptrace;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    execvp(words[2], words + 2);
    return 98;
}
