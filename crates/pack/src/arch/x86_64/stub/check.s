# The code that a pack begins with: it decides whether the state in the pack is the one that the
# program's own loader would reach here and now, makes the few words of it that differ from start to
# start, and goes on where the loader stopped. In any doubt the program itself is started.
#
# The kernel enters it in one of two ways (execve(2), fs/binfmt_elf.c): as the executable (form 1),
# or as the interpreter of a copy of the program (form 2).
#
#   %r15  the table (StubTable)             %r14  the stack as the kernel made it: argc
#   %rbx  the form, 1 or 2                  %rbp  scratch, zeroed:
#     0x00  values that words are made of, by PatchKind        0x90   a struct stat
#     0x80  whether to say why the pack is not used            0x140  a struct utsname
#     0x88  why the pack is not used, or 0                     0x2d0  a struct rlimit
#     0x1000  the first page of the loader, where it is mapped after all
.pushsection .text.becalm_pack_stub,"ax",@progbits
.balign 64
.globl becalm_pack_stub
becalm_pack_stub:
    .quad 0                             # where the table is: written into the pack
.Lbp_entry:
    movq %rsp, %r14
    andq $-64, %rsp
    subq $0x2000, %rsp
    movq %rsp, %rbp
    movq becalm_pack_stub(%rip), %r15
    cld
    movq %rbp, %rdi
    xorl %eax, %eax
    movl $0x60, %ecx
    rep stosq
    movq %r14, 0x08(%rbp)
    leaq 8(%r14), %rax
    movq %rax, 0x10(%rbp)
    movq (%r14), %rcx
    movq %rcx, 0x58(%rbp)
    leaq 16(%r14,%rcx,8), %rsi
    movq %rsi, 0x18(%rbp)

# Variables that the loader or malloc obeys (ld.so(8), mallopt(3)). The kernel ends the strings with
# eight zero bytes, so that eight bytes can be read of each.
.Lbp_variable:
    movq (%rsi), %rdi
    addq $8, %rsi
    testq %rdi, %rdi
    jz .Lbp_variables_end
    movq (%rdi), %rax
    movl %eax, %ecx
    andl $0xffffff, %ecx
    cmpl $0x5f444c, %ecx                # LD_
    je .Lbp_variable_refused
    movq %rax, %rcx
    shlq $8, %rcx
    movabsq $0x5f434f4c4c414d00, %rdx   # MALLOC_
    cmpq %rdx, %rcx
    je .Lbp_variable_refused
    movabsq $0x55545f4342494c47, %rdx   # GLIBC_TUNABLES, by its first eight
    cmpq %rdx, %rax
    je .Lbp_variable_refused
    movabsq $0x505f4d4c41434542, %rdx   # BECALM_PACK_REPORT
    cmpq %rdx, %rax
    jne .Lbp_variable
    movabsq $0x4f5045525f4b4341, %rdx
    cmpq %rdx, 8(%rdi)
    jne .Lbp_variable
    movq $1, 0x80(%rbp)
    jmp .Lbp_variable
.Lbp_variable_refused:
    leaq .Lbp_why_variable(%rip), %rax
    movq %rax, 0x88(%rbp)
    jmp .Lbp_variable
.Lbp_variables_end:
    movq %rsi, 0x20(%rbp)

# The auxiliary vector (getauxval(3)): each key must be known, and what the loader keeps the same.
    xorl %r10d, %r10d
.Lbp_aux:
    movq (%rsi), %rax
    movq 8(%rsi), %rdx
    addq $16, %rsi
    testq %rax, %rax
    jz .Lbp_aux_end
    movq {auxv}(%r15), %rdi
    movq {auxv_count}(%r15), %rcx
.Lbp_aux_find:
    testq %rcx, %rcx
    jz .Lbp_aux_refused
    cmpq %rax, (%rdi)
    je .Lbp_aux_found
    addq $24, %rdi
    decq %rcx
    jmp .Lbp_aux_find
.Lbp_aux_found:
    movq 8(%rdi), %rcx
    cmpq $1, %rcx
    jb .Lbp_aux
    ja .Lbp_aux_keep
    cmpq %rdx, 16(%rdi)
    jne .Lbp_aux_refused
    incq %r10
    jmp .Lbp_aux
.Lbp_aux_keep:
    movq %rdx, -128(%rbp,%rcx,8)
    jmp .Lbp_aux
.Lbp_aux_refused:
    leaq .Lbp_why_machine(%rip), %rcx
    cmpq $23, %rax                      # AT_SECURE
    jne 1f
    leaq .Lbp_why_secure(%rip), %rcx
1:  movq %rcx, 0x88(%rbp)
    jmp .Lbp_aux
.Lbp_aux_end:
    movl $1, %ebx
    leaq .Lbp_entry(%rip), %rax
    cmpq %rax, 0x68(%rbp)
    je 1f
    movl $2, %ebx
    movq {entry}(%r15), %rax
    leaq .Lbp_why_place(%rip), %rdi
    xorl %edx, %edx
    cmpq %rax, 0x68(%rbp)
    jne .Lbp_fall
    movq {program_headers}(%r15), %rax
    cmpq %rax, 0x60(%rbp)
    jne .Lbp_fall
1:  movq 0x88(%rbp), %rdi
    xorl %edx, %edx
    testq %rdi, %rdi
    jnz .Lbp_fall
    leaq .Lbp_why_machine(%rip), %rdi
    cmpq %r10, {auxv_compared}(%r15)
    jne .Lbp_fall
    movq 0x30(%rbp), %rsi               # AT_PLATFORM
    testq %rsi, %rsi
    jz .Lbp_fall
    movq (%rsi), %rax
    shlq $8, %rax
    movabsq $0x34365f36387800, %rcx     # x86_64
    cmpq %rcx, %rax
    jne .Lbp_fall
    movq 0x28(%rbp), %rsi               # AT_RANDOM
    testq %rsi, %rsi
    jz .Lbp_fall
    movq 8(%rsi), %rax
    movq %rax, 0x48(%rbp)
    movq (%rsi), %rax
    xorb %al, %al
    movq %rax, 0x50(%rbp)

# The limit of the stack, which libc keeps for its threads.
    movl $302, %eax                     # prlimit64
    xorl %edi, %edi
    movl $3, %esi
    xorl %edx, %edx
    leaq 0x2d0(%rbp), %r10
    syscall
    leaq .Lbp_why_limit(%rip), %rdi
    xorl %edx, %edx
    testq %rax, %rax
    jnz .Lbp_fall
    movq 0x2d0(%rbp), %rax
    cmpq %rax, {stack_limit}(%r15)
    jne .Lbp_fall

# The kernel: release, version and machine of uname(2); and its vdso's first page, which has its
# build id.
    movl $63, %eax
    leaq 0x140(%rbp), %rdi
    syscall
    leaq 0x140+130(%rbp), %rdi
    movq {kernel}(%r15), %rsi
    movl $195, %ecx
    repe cmpsb
    leaq .Lbp_why_kernel(%rip), %rdi
    movl $0, %edx
    jne .Lbp_fall
    movq 0x40(%rbp), %rdi
    testq %rdi, %rdi
    jz .Lbp_no_vdso
    movq {vdso}(%r15), %rsi
    movl $512, %ecx
    repe cmpsq
.Lbp_no_vdso:
    leaq .Lbp_why_vdso(%rip), %rdi
    movl $0, %edx
    jne .Lbp_fall
    cmpq $0, 0x40(%rbp)
    je .Lbp_fall
    xorl %eax, %eax                     # what the loader has sorted by address must be so
    movq 0x40(%rbp), %rcx
    cmpq {objects}(%r15), %rcx
    setb %al
    leaq .Lbp_why_place(%rip), %rdi
    cmpq %rax, {vdso_below}(%r15)
    jne .Lbp_fall

# The processor.
    movq %rbx, %r10
    movq {cpuid}(%r15), %r8
    movq {cpuid_count}(%r15), %r9
.Lbp_cpuid:
    testq %r9, %r9
    jz .Lbp_cpuid_same
    movl (%r8), %eax
    movl 4(%r8), %ecx
    cpuid
    andl 8(%r8), %eax
    andl 12(%r8), %ebx
    andl 16(%r8), %ecx
    andl 20(%r8), %edx
    cmpl %eax, 24(%r8)
    jne .Lbp_cpuid_differs
    cmpl %ebx, 28(%r8)
    jne .Lbp_cpuid_differs
    cmpl %ecx, 32(%r8)
    jne .Lbp_cpuid_differs
    cmpl %edx, 36(%r8)
    jne .Lbp_cpuid_differs
    addq $40, %r8
    decq %r9
    jmp .Lbp_cpuid
.Lbp_cpuid_differs:
    movq %r10, %rbx
    leaq .Lbp_why_processor(%rip), %rdi
    xorl %edx, %edx
    jmp .Lbp_fall
.Lbp_cpuid_same:
    movq %r10, %rbx
    xorl %ecx, %ecx
    xgetbv                              # cpuid has said that there is one
    leaq .Lbp_why_processor(%rip), %rdi
    shlq $32, %rdx
    orq %rdx, %rax
    xorl %edx, %edx
    cmpq %rax, {xcr0}(%r15)
    jne .Lbp_fall

# The program: in form 2 what the kernel has mapped, by its identity; in form 1 the file, which is
# mapped here.
    cmpl $1, %ebx
    je .Lbp_map_program
    movq {copy}(%r15), %r8
    call .Lbp_stat
    jnz .Lbp_file_differs
    jmp .Lbp_files
.Lbp_map_program:
    movq {program}(%r15), %r8
    movl $257, %eax                     # openat(AT_FDCWD, the program, O_RDONLY | O_CLOEXEC)
    movq $-100, %rdi
    movq (%r8), %rsi
    movl $0x80000, %edx
    syscall
    testl %eax, %eax
    js .Lbp_file_differs
    pushq %rax
    movl %eax, %edi
    leaq 0x90(%rbp), %rsi
    movl $5, %eax                       # fstat
    syscall
    call .Lbp_is_same
    jnz .Lbp_file_differs
    movq {maps}(%r15), %r12
    movq {maps_count}(%r15), %r13
.Lbp_map:
    testq %r13, %r13
    jz .Lbp_mapped
    movq (%r12), %rdi
    movq 8(%r12), %rsi
    movq 16(%r12), %rdx
    movq 24(%r12), %r10
    movq (%rsp), %r8
    movq 32(%r12), %r9
    testb $0x20, %r10b                  # MAP_ANONYMOUS
    jz 1f
    movq $-1, %r8
1:  movl $9, %eax                       # mmap
    syscall
    leaq .Lbp_why_room(%rip), %rdi
    xorl %edx, %edx
    cmpq %rax, (%r12)
    jne .Lbp_fall
    addq $40, %r12
    decq %r13
    jmp .Lbp_map
.Lbp_mapped:
    popq %rdi
    movl $3, %eax                       # close
    syscall

# The files that the loader read, those that it looked for, and their directories.
.Lbp_files:
    movq {files}(%r15), %r8
    movq {files_count}(%r15), %r9
.Lbp_file:
    testq %r9, %r9
    jz .Lbp_key
    call .Lbp_stat
    jnz .Lbp_file_differs
    addq $80, %r8
    decq %r9
    jmp .Lbp_file
.Lbp_file_differs:
    leaq .Lbp_why_file(%rip), %rdi
    movq (%r8), %rdx
    jmp .Lbp_fall

# Malloc's key: random, and no word as memory often has it (tcache_key_initialize of malloc/malloc.c).
.Lbp_key:
    cmpq $0, {has_random_key}(%r15)
    je .Lbp_write
1:  movl $318, %eax                     # getrandom(…, 8, GRND_NONBLOCK)
    leaq 0x78(%rbp), %rdi
    movl $8, %esi
    movl $1, %edx
    syscall
    leaq .Lbp_why_random(%rip), %rdi
    xorl %edx, %edx
    cmpq $8, %rax
    jne .Lbp_fall
    movq 0x78(%rbp), %rax
    movq %rax, %rcx
    sarq $63, %rcx
    xorq %rcx, %rax
    subq %rcx, %rax                     # without its sign
    cmpq $0x10000000, %rax
    jbe 1b
    movq 0x78(%rbp), %rax
    xorl %ecx, %ecx
2:  movl %eax, %edx                     # a quarter to three quarters of its bits are set
    andl $1, %edx
    addl %edx, %ecx
    shrq $1, %rax
    jnz 2b
    cmpl $16, %ecx
    jb 1b
    cmpl $48, %ecx
    ja 1b
