//! Links the executable at a fixed address.
//!
//! A position-independent executable has half a million pointers that each process corrects when it starts: 6 MB of
//! memory of its own for every node host, for the fabric's process and for the control plane, and the time to write
//! them. At a fixed address those pages stay in the page cache and all processes share them. Stack, heap and libraries
//! stay at random addresses. Kubernetes' own binaries are linked the same way.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_target = |name: &str, value: &str| {
        std::env::var(format!("CARGO_CFG_TARGET_{name}")).is_ok_and(|it| it == value)
    };
    if is_target("OS", "linux") && is_target("ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
