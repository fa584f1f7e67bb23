// What is opened later; its constructor throws and catches, too.
#include <cstdio>
#include <stdexcept>

static thread_local int used = 0;

__attribute__((constructor)) static void begin() {
    try {
        throw 3;
    } catch (int number) {
        printf("plug %d\n", number);
    }
}

extern "C" void plugged() { throw std::runtime_error("by the plug, use " + std::to_string(++used)); }
