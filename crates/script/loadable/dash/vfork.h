/* vfork(), which returns twice in one process, by each processor's registers. */
#pragma once

/* 0: dash is itself; 1: it is in a child to be; 2: a child has its memory. */
extern int lent;

/* Returns from vfork() once more, as in the parent, of a child's id. */
void be_parent(int child) __attribute__((noreturn));

/* Makes the child, in which it returns. The parent goes on when the child is gone, and needs nothing of the
   stack that the child has used meanwhile: an error is told by a C function on its own part of it. */
void lend(void);

/* What lend() calls of an error. */
void failed(int why) __attribute__((noreturn));
