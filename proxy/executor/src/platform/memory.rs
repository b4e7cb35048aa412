//! Keeps what is in this process's memory and environment from other programs of the same user, as far as the system can: no core
//! dump, no debugger, no reading through `/proc`. Knows nothing of what is in them.

/// Asks the system for that, once, before anything secret is read. A wish: where the system has no such call, or refuses, nothing
/// changes, and nothing that this program does depends on it.
///
/// Linux: a process that is not dumpable leaves no core, and its `/proc/PID/{mem,environ,…}` are for root alone. Programs it starts
/// are as they were. Other Unixes: a core of no bytes, for this process and those it starts.
pub fn keep_memory_private() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    #[cfg(all(unix, not(target_os = "linux")))]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Core);
        limit.current = Some(0);
        let _ = setrlimit(Resource::Core, limit);
    }
}
