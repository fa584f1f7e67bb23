# The pack is not used, for the reason at %rdi, of the file at %rdx if that is not 0.
.Lbp_fall:
    movq %rdi, %r12
    movq %rdx, %r13
    cmpq $0, 0x80(%rbp)
    je 1f
    call .Lbp_say_program
    leaq .Lbp_text_without(%rip), %rsi
    call .Lbp_say
    movq %r12, %rsi
    call .Lbp_say
    movq %r13, %rsi
    call .Lbp_say
    leaq .Lbp_text_end(%rip), %rsi
    call .Lbp_say
1:  cmpl $1, %ebx
    jne .Lbp_load_loader
    movl $59, %eax                      # execve
    movq {program_path}(%r15), %rdi
    movq 0x10(%rbp), %rsi
    movq 0x18(%rbp), %rdx
    syscall
.Lbp_lost:
    call .Lbp_say_program
    leaq .Lbp_text_lost(%rip), %rsi
    call .Lbp_say
    movl $231, %eax                     # exit_group
    movl $127, %edi
    syscall

.Lbp_say_program:
    leaq .Lbp_text_becalm(%rip), %rsi
    call .Lbp_say
    movq {program_path}(%r15), %rsi
# Writes the text at %rsi, if there is one, to standard error.
.Lbp_say:
    testq %rsi, %rsi
    jz 2f
    xorl %edx, %edx
1:  cmpb $0, (%rsi,%rdx)
    je 1f
    incq %rdx
    jmp 1b
1:  movl $1, %eax
    movl $2, %edi
    syscall
2:  ret

# Form 2, and the pack is not used: the kernel has mapped the program; its loader is mapped as the
# kernel would have, and started.
.Lbp_load_loader:
    call .Lbp_randomise
    movq {objects}(%r15), %rdi
    movq {objects_length}(%r15), %rsi
    movl $11, %eax                      # munmap
    syscall
    movl $257, %eax
    movq $-100, %rdi
    movq {loader_path}(%r15), %rsi
    movl $0x80000, %edx
    syscall
    testl %eax, %eax
    js .Lbp_lost
    movl %eax, %ebx
    movl %eax, %edi
    leaq 0x1000(%rbp), %rsi
    movl $0x1000, %edx
    xorl %r10d, %r10d
    movl $17, %eax                      # pread64
    syscall
    cmpq $0x40, %rax
    jl .Lbp_lost
    movq 0x1000+32(%rbp), %r12          # e_phoff
    movzwl 0x1000+56(%rbp), %r13d       # e_phnum
    imulq $56, %r13, %rcx
    addq %r12, %rcx
    cmpq %rax, %rcx
    ja .Lbp_lost
    leaq 0x1000(%rbp,%r12), %r12
    xorl %esi, %esi
    movq %r12, %rdi
    movl %r13d, %ecx
1:  cmpl $1, (%rdi)                     # PT_LOAD
    jne 2f
    movq 16(%rdi), %rax
    addq 40(%rdi), %rax
    cmpq %rsi, %rax
    jb 2f
    movq %rax, %rsi
2:  addq $56, %rdi
    decl %ecx
    jnz 1b
    xorl %edi, %edi
    xorl %edx, %edx
    movl $0x22, %r10d                   # MAP_PRIVATE | MAP_ANONYMOUS
    movq $-1, %r8
    xorl %r9d, %r9d
    movl $9, %eax
    syscall
    cmpq $-4096, %rax
    ja .Lbp_lost
    movq %rax, 0x00(%rbp)
.Lbp_segment:
    cmpl $1, (%r12)
    jne .Lbp_segment_next
    movl 4(%r12), %eax                  # PF_R 4, PF_W 2, PF_X 1; PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4
    movl %eax, %edx
    andl $2, %edx
    testl $4, %eax
    jz 1f
    orl $1, %edx
1:  testl $1, %eax
    jz 1f
    orl $4, %edx
1:  movq 16(%r12), %rdi
    movq %rdi, %rsi
    andl $0xfff, %esi
    subq %rsi, %rdi
    addq 0x00(%rbp), %rdi
    movq 8(%r12), %r9
    subq %rsi, %r9
    addq 32(%r12), %rsi
    movl $0x12, %r10d                   # MAP_PRIVATE | MAP_FIXED
    movl %ebx, %r8d
    movl $9, %eax
    syscall
    cmpq $-4096, %rax
    ja .Lbp_lost
    movq 40(%r12), %rcx
    cmpq 32(%r12), %rcx
    jbe .Lbp_segment_next
    movq 0x00(%rbp), %rdi               # zeros after the file's bytes
    addq 16(%r12), %rdi
    leaq (%rdi,%rcx), %rsi
    addq 32(%r12), %rdi
    movq %rdi, %rcx
    negq %rcx
    andl $0xfff, %ecx
    xorl %eax, %eax
    rep stosb
    cmpq %rdi, %rsi
    jbe .Lbp_segment_next
    subq %rdi, %rsi
    movl $0x32, %r10d                   # MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS
    movq $-1, %r8
    xorl %r9d, %r9d
    movl $9, %eax
    syscall
    cmpq $-4096, %rax
    ja .Lbp_lost
.Lbp_segment_next:
    addq $56, %r12
    decl %r13d
    jnz .Lbp_segment
    movl %ebx, %edi
    movl $3, %eax
    syscall
    movq 0x20(%rbp), %rsi
    movq 0x00(%rbp), %rdx
    call .Lbp_set_base
    movq 0x1000+24(%rbp), %rdx          # e_entry
    addq 0x00(%rbp), %rdx
    xorl %eax, %eax
    jmp .Lbp_jump

.Lbp_text_becalm:    .asciz "becalm: "
.Lbp_text_without:   .asciz ": started without its pack: "
.Lbp_text_lost:      .asciz ": cannot be started: is it still there?\n"
.Lbp_text_end:       .asciz "\n"
.Lbp_why_variable:   .asciz "the environment has a variable LD_*, MALLOC_* or GLIBC_TUNABLES"
.Lbp_why_secure:     .asciz "it runs with privileges of its own (AT_SECURE)"
.Lbp_why_machine:    .asciz "the kernel tells it of another machine (the auxiliary vector differs)"
.Lbp_why_place:      .asciz "it would lie at other addresses"
.Lbp_why_limit:      .asciz "the limit of the stack (ulimit -s) is another one"
.Lbp_why_kernel:     .asciz "the kernel is another one"
.Lbp_why_vdso:       .asciz "the kernel's vdso is another one"
.Lbp_why_processor:  .asciz "the processor is another one"
.Lbp_why_random:     .asciz "the kernel has no random bytes yet"
.Lbp_why_room:       .asciz "its addresses are taken"
.Lbp_why_file:       .asciz "changed since it was made: "
.globl becalm_pack_stub_end
becalm_pack_stub_end:
.popsection
