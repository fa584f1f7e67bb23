/* A program with a seccomp filter of its own: one call is denied, one raises SIGSYS, one would
   be handed to a tracer if there was one, which there is not as far as it knows. */
#include "trap.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define IF(call, answer)                                  \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, answer)

static volatile sig_atomic_t trapped;

static void on_trap(int unused, siginfo_t *info, void *context)
{
    (void)unused, (void)context;
    trapped = info->si_syscall;
}

int main(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        IF(unlinkat, SECCOMP_RET_ERRNO | EXDEV),
        IF(getppid, SECCOMP_RET_TRAP),
        IF(getpgid, SECCOMP_RET_TRACE | 0x1234),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    check(sigaction(SIGSYS, &action, NULL) == 0);
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    mark("filtered");
    check(syscall(SYS_unlinkat, AT_FDCWD, "/nonexistent/file", 0) == -1);
    printf("unlink: %s\n", strerrorname_np(errno));
    syscall(SYS_getppid);
    printf("trapped: %d\n", trapped == SYS_getppid);
    errno = 0;
    long result = syscall(SYS_getpgid, 0);
    printf("to a tracer: %ld %s\n", result > 0 ? 1 : result, strerrorname_np(errno));
    return 0;
}
