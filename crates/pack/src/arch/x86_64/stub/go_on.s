# Nothing is doubtful. What the loader wrote into the program's own pages; the words that differ from
# start to start; the protection that the loader gave last.
.Lbp_write:
    movl $218, %eax                     # set_tid_address
    movq {tid_address}(%r15), %rdi
    syscall
    movl %eax, %eax
    movq %rax, 0x70(%rbp)
    movq {copies}(%r15), %r8
    movq {copies_count}(%r15), %r9
.Lbp_copy:
    testq %r9, %r9
    jz .Lbp_copied
    movq (%r8), %rdi
    movq 8(%r8), %rsi
    movq 16(%r8), %rcx
    rep movsb
    addq $24, %r8
    decq %r9
    jmp .Lbp_copy
.Lbp_copied:
    cmpl $1, %ebx
    jne 1f
    movq {program_path}(%r15), %rax
    movq %rax, 0x38(%rbp)               # AT_EXECFN
1:  movq {patches}(%r15), %r8
    movq {patches_count}(%r15), %r9
.Lbp_patch:
    testq %r9, %r9
    jz .Lbp_patched
    movq (%r8), %rdi
    movq 8(%r8), %rcx
    movq (%rbp,%rcx,8), %rax
    addq 16(%r8), %rax
    cmpq $11, %rcx                      # an int
    je 1f
    cmpq $14, %rcx
    je 1f
    movq %rax, (%rdi)
    jmp 2f
1:  movl %eax, (%rdi)
2:  addq $24, %r8
    decq %r9
    jmp .Lbp_patch
.Lbp_patched:
    movq {protects}(%r15), %r8
    movq {protects_count}(%r15), %r9
.Lbp_protect:
    testq %r9, %r9
    jz .Lbp_protected
    movq (%r8), %rdi
    movq 8(%r8), %rsi
    movq 16(%r8), %rdx
    movl $10, %eax                      # mprotect
    syscall
    testq %rax, %rax
    jnz .Lbp_lost
    addq $24, %r8
    decq %r9
    jmp .Lbp_protect

# What the loader tells the kernel of the thread (glibc's __tls_init_tp).
.Lbp_protected:
    movl $158, %eax                     # arch_prctl(ARCH_SET_FS)
    movl $0x1002, %edi
    movq {thread}(%r15), %rsi
    syscall
    testq %rax, %rax
    jnz .Lbp_lost
    movl $273, %eax                     # set_robust_list
    movq {robust_list}(%r15), %rdi
    movl $24, %esi
    syscall
    movq {rseq}(%r15), %rdi
    testq %rdi, %rdi
    jz .Lbp_no_rseq
    movq %rdi, %rdx
    movq {rseq_length}(%r15), %rcx
    xorl %eax, %eax
    rep stosb
    movq %rdx, %rdi
    movl $-1, 4(%rdi)                   # RSEQ_CPU_ID_UNINITIALIZED
    movl $334, %eax                     # rseq
    movq {rseq_length}(%r15), %rsi
    xorl %edx, %edx
    movq {rseq_signature}(%r15), %r10
    syscall
    testq %rax, %rax
    jz .Lbp_no_rseq
    movl $-2, 4(%rdi)                   # RSEQ_CPU_ID_REGISTRATION_FAILED
.Lbp_no_rseq:
    cmpl $1, %ebx
    je .Lbp_as_executable
    call .Lbp_randomise
    jmp .Lbp_auxv
.Lbp_as_executable:
    movl $157, %eax                     # prctl(PR_SET_NAME)
    movl $15, %edi
    movq {name}(%r15), %rsi
    syscall

# The auxiliary vector, as the program would find it.
.Lbp_auxv:
    movq 0x20(%rbp), %rsi
    movq {base}(%r15), %rdx
    call .Lbp_set_base
    cmpl $1, %ebx
    jne .Lbp_go
    movq 0x20(%rbp), %rsi
.Lbp_fix:
    movq (%rsi), %rax
    testq %rax, %rax
    jz .Lbp_go
    cmpq $3, %rax                       # AT_PHDR
    jne 1f
    movq {program_headers}(%r15), %rdx
    movq %rdx, 8(%rsi)
1:  cmpq $5, %rax                       # AT_PHNUM
    jne 1f
    movq {program_header_count}(%r15), %rdx
    movq %rdx, 8(%rsi)
1:  cmpq $9, %rax                       # AT_ENTRY
    jne 1f
    movq {entry}(%r15), %rdx
    movq %rdx, 8(%rsi)
1:  cmpq $31, %rax                      # AT_EXECFN
    jne 1f
    movq {program_path}(%r15), %rdx
    movq %rdx, 8(%rsi)
1:  addq $16, %rsi
    jmp .Lbp_fix
.Lbp_go:
    movq {resume}(%r15), %rdx
    movq {entry}(%r15), %rax

# Goes on at %rdx with the kernel's stack and %rax; all else is as the kernel gives it.
.Lbp_jump:
    movq %r14, %rsp
    pushq %rdx
    xorl %ebx, %ebx
    xorl %ecx, %ecx
    xorl %edx, %edx
    xorl %esi, %esi
    xorl %edi, %edi
    xorl %ebp, %ebp
    xorl %r8d, %r8d
    xorl %r9d, %r9d
    xorl %r10d, %r10d
    xorl %r11d, %r11d
    xorl %r12d, %r12d
    xorl %r13d, %r13d
    xorl %r14d, %r14d
    xorl %r15d, %r15d
    ret

# Has children laid out as without becalm, which has switched randomisation off for form 2.
.Lbp_randomise:
    cmpq $0, {fixed_layout}(%r15)
    je 1f
    movl $135, %eax                     # personality
    movl $-1, %edi
    syscall
    testl $0x40000, %eax                # ADDR_NO_RANDOMIZE
    jz 1f
    movl %eax, %edi
    andl $0xfffbffff, %edi
    movl $135, %eax
    syscall
1:  ret

# Sets AT_BASE of the vector at %rsi to %rdx.
.Lbp_set_base:
    movq (%rsi), %rax
    testq %rax, %rax
    jz 2f
    cmpq $7, %rax
    jne 1f
    movq %rdx, 8(%rsi)
1:  addq $16, %rsi
    jmp .Lbp_set_base
2:  ret

# Whether the file of the entry at %r8 is what it was; if so, the loader's notes of its device are
# brought up to date. The zero flag is set if so.
.Lbp_stat:
    movl $262, %eax                     # newfstatat(AT_FDCWD, path, ..., 0)
    movq $-100, %rdi
    movq (%r8), %rsi
    leaq 0x90(%rbp), %rdx
    xorl %r10d, %r10d
    syscall
.Lbp_is_same:
    cmpq $2, 8(%r8)                     # FileKind::Absent
    jne 1f
    cmpq $-2, %rax                      # ENOENT
    je 3f
    cmpq $-20, %rax                     # ENOTDIR
    ret
1:  testq %rax, %rax
    jnz 3f
    movq 0x98(%rbp), %rax               # st_ino
    cmpq %rax, 16(%r8)
    jne 3f
    movq 0xc0(%rbp), %rax               # st_size
    cmpq %rax, 24(%r8)
    jne 3f
    movq 0xe8(%rbp), %rax               # st_mtim
    cmpq %rax, 32(%r8)
    jne 3f
    movq 0xf0(%rbp), %rax
    cmpq %rax, 40(%r8)
    jne 3f
    cmpq $1, 8(%r8)                     # FileKind::Copy: made by becalm, renamed since
    je 2f
    movq 0xf8(%rbp), %rax               # st_ctim
    cmpq %rax, 48(%r8)
    jne 3f
    movq 0x100(%rbp), %rax
    cmpq %rax, 56(%r8)
    jne 3f
2:  movq 0x90(%rbp), %rax               # st_dev
    movq 64(%r8), %rsi
    movq 72(%r8), %rcx
4:  testq %rcx, %rcx
    jz 3f
    movq (%rsi), %rdi
    movq %rax, (%rdi)
    addq $8, %rsi
    decq %rcx
    jmp 4b
3:  ret
