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
    jz .Lbp_write
    call .Lbp_stat
    jnz .Lbp_file_differs
    addq $80, %r8
    decq %r9
    jmp .Lbp_file
.Lbp_file_differs:
    leaq .Lbp_why_file(%rip), %rdi
    movq (%r8), %rdx
    jmp .Lbp_fall

# Nothing is doubtful. What the loader wrote into the program's own pages; the words that differ from
# start to start; the protection that the loader gave last.
.Lbp_write:
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
    cmpq $11, %rcx                      # argc: an int
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
    movl $218, %eax                     # set_tid_address
    movq {tid_address}(%r15), %rdi
    syscall
    movl %eax, (%rdi)
    movl $273, %eax                     # set_robust_list
    movq {robust_list}(%r15), %rdi
    movl $24, %esi
    syscall
    movq {rseq}(%r15), %rdi
    testq %rdi, %rdi
    jz .Lbp_no_rseq
    movq %rdi, %rdx
    movl $4, %ecx
    xorl %eax, %eax
    rep stosq
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
    cmpq $0, {fixed_layout}(%r15)
    je .Lbp_auxv
# Children are laid out as without becalm.
    movl $135, %eax                     # personality
    movl $-1, %edi
    syscall
    testl $0x40000, %eax                # ADDR_NO_RANDOMIZE
    jz .Lbp_auxv
    movl %eax, %edi
    andl $0xfffbffff, %edi
    movl $135, %eax
    syscall
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
.Lbp_why_place:      .asciz "it lies at another address"
.Lbp_why_limit:      .asciz "the limit of the stack (ulimit -s) is another one"
.Lbp_why_kernel:     .asciz "the kernel is another one"
.Lbp_why_vdso:       .asciz "the kernel's vdso is another one"
.Lbp_why_processor:  .asciz "the processor is another one"
.Lbp_why_room:       .asciz "its addresses are taken"
.Lbp_why_file:       .asciz "changed since it was made: "
.globl becalm_pack_stub_end
becalm_pack_stub_end:
.popsection
