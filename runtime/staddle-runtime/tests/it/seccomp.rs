//! System calls that fail as they do in containers and on old kernels, for the forked children of tests.

/// Makes one system call fail with `errno` in this process from now on.
pub(crate) fn refuse(call: libc::c_long, errno: libc::c_int) {
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    let call = u32::try_from(call).unwrap();
    let errno = u32::try_from(errno).unwrap();
    let instruction = |code: u32, jt, jf, k| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt,
        jf,
        k,
    };
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, ERRNO | errno),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, ALLOW),
    ];
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap(),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program points to the filter, and both outlive the call that copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        );
        assert_eq!(set, 0);
    }
}
