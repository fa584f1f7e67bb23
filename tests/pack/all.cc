// What a program may use of its start: each line must be the same from a pack.
#include <csetjmp>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

extern "C" void thrower(int depth);
extern thread_local int theirs;
thread_local std::string mine = "of each thread";
static int constructed = [] { return printf("constructed\n"); }();

static int count(dl_phdr_info *info, size_t, void *data) {
    if (strstr(info->dlpi_name, "linux-vdso") == nullptr) ++*(int *)data;
    return 0;
}

static void exceptions(const char *where) {
    try {
        thrower(5);
    } catch (const std::runtime_error &error) {
        printf("%s: %s\n", where, error.what());
    }
}

int main(int argc, char **argv) {
    printf("argc %d, %s, %s\n", argc, argv[0], argv[argc - 1]);
    printf("execfn %s, name %s\n", (const char *)getauxval(AT_EXECFN), program_invocation_name);
    printf("PROBE=%s environ %d\n", getenv("PROBE"), environ == argv + argc + 1);
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    printf("phdr %d of %lu, secure %lu\n", headers[0].p_type == PT_PHDR, getauxval(AT_PHNUM), getauxval(AT_SECURE));
    Dl_info info;
    printf("entry in %s\n", dladdr((void *)getauxval(AT_ENTRY), &info) ? info.dli_fname : "nothing");
    int base = dladdr((void *)(getauxval(AT_BASE)), &info);
    printf("base %d\n", base && strstr(info.dli_fname, "ld-linux") != nullptr);
    exceptions("main");
    theirs += 2;
    mine += "!";
    std::vector<std::thread> threads;
    std::vector<std::string> said(6);
    for (int n = 0; n < 6; n++)
        threads.emplace_back([n, &said] {
            theirs += n;
            try {
                thrower(n);
            } catch (const std::exception &error) {
                said[n] = mine + std::to_string(theirs) + error.what();
            }
        });
    for (auto &thread : threads) thread.join();
    for (auto &text : said) printf("%s\n", text.c_str());
    printf("%s %d\n", mine.c_str(), theirs);

    void *plug = dlopen(argv[1], RTLD_NOW);
    if (!plug) printf("%s\n", dlerror());
    auto plugged = (void (*)(void))dlsym(plug, "plugged");
    try {
        plugged();
    } catch (const std::exception &error) {
        printf("plugged: %s\n", error.what());
    }
    // The library that it was linked with, by another path: it is the same one.
    void *again = dlopen(argv[2], RTLD_NOW);
    printf("again %d\n", again && dlsym(again, "thrower") == (void *)thrower);
    dladdr((void *)thrower, &info);
    printf("%s in %s\n", info.dli_sname, strrchr(info.dli_fname, '/'));
    int objects = 0;
    dl_iterate_phdr(count, &objects);
    printf("objects %d\n", objects);
    dlclose(plug);

    std::jmp_buf back;
    if (int value = setjmp(back)) printf("back with %d\n", value);
    else longjmp(back, 7);
    pid_t child = fork();
    if (child == 0) {
        exceptions("child");
        fflush(stdout);
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child %d, parent of it %d\n", WEXITSTATUS(status), getpid() != child);
    FILE *pipe = popen("echo popen; cat /proc/self/personality; grep -i 'stack size' /proc/self/limits", "r");
    char line[256];
    while (fgets(line, sizeof line, pipe)) fputs(line, stdout);
    pclose(pipe);
    setlocale(LC_ALL, "");
    printf("%s %d\n", setlocale(LC_ALL, nullptr), isatty(0));
    pthread_attr_t attributes;
    size_t size;
    void *stack;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &size);
    printf("on its stack %d\n", (char *)&size >= stack && (char *)&size < (char *)stack + size);
    pthread_attr_init(&attributes);
    pthread_attr_getstacksize(&attributes, &size);
    printf("threads' stacks %zu\n", size);
    timeval day;
    timespec now;
    gettimeofday(&day, nullptr);
    clock_gettime(CLOCK_REALTIME, &now);
    printf("clocks %d\n", labs(now.tv_sec - day.tv_sec) < 2 && labs(time(nullptr) - now.tv_sec) < 2);
    printf("tid %d\n", syscall(SYS_gettid) == getpid());
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    printf("comm %s\n", name);
    std::string large(1 << 20, 'x');
    std::vector<std::string> heap(64, large);
    printf("heap %zu\n", heap.back().size());
    atexit([] { printf("atexit\n"); });
    return 42;
}
