// A library that throws, with a variable of each thread.
#include <stdexcept>
#include <string>

thread_local int theirs = 40;

extern "C" void thrower(int depth) {
    std::string text = "thrown";
    if (depth > 0) return thrower(depth - 1);
    throw std::runtime_error(text + " at depth 0");
}
