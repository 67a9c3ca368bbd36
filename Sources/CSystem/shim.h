// Linux system calls that Swift's Glibc module does not show: sealed memory and process descriptors.
#pragma once
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

// A sealable anonymous file, close-on-exec; -1 on failure. (MFD_CLOEXEC 1, MFD_ALLOW_SEALING 2)
static inline int csystem_memfd(const char *name) { return (int)syscall(SYS_memfd_create, name, 3u); }

// Forbids any later change. (F_ADD_SEALS 1033; SEAL 1, SHRINK 2, GROW 4, WRITE 8)
static inline int csystem_seal(int descriptor) { return fcntl(descriptor, 1033, 15); }

// A descriptor that stands for the process `pid` and for no later one with the same number; -1 on failure.
static inline int csystem_pidfd_open(int pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }
