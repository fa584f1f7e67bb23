/* A child that dash asks for by vfork(), and that is made only when something is to be its own. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Whether dash is at the moment in such a child that is not made yet. */
bool is_child_to_be(void);

/* Makes it: from here on, only the child goes on; dash does when that is gone. Nothing if there is
   none to be made. */
void be_a_child(void);

/* Whether this process shares its memory with a dash that waits until it is gone. */
bool is_borrowing(void);

/* The child that is to be has ended with a status, and never was. Does not return. */
void end_child_to_be(int status) __attribute__((noreturn));
