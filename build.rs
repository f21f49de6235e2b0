//! Links the executable at a fixed address, and functions with the same code only once.
//!
//! A position-independent executable has half a million pointers that each process corrects when it starts: 6 MB of
//! memory of its own for every node host, for the fabric's process and for the control plane, and the time to write
//! them. At a fixed address those pages stay in the page cache and all processes share them. Stack, heap and libraries
//! stay at random addresses. Kubernetes' own binaries are linked the same way.
//!
//! Generic code for types of the same layout is often the same: 1.2 MB of the executable. Only LLD can merge it.

use std::env::var;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_target =
        |name: &str, value: &str| var(format!("CARGO_CFG_TARGET_{name}")).is_ok_and(|it| it == value);
    if is_target("OS", "linux") && is_target("ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        let is_release = var("PROFILE").is_ok_and(|profile| profile == "release");
        if is_release && is_target("ARCH", "x86_64") && links_with_lld() {
            println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
        }
    }
}

/// Returns true if rustc links with the LLD that it brings along: if it has one, and the user has not set another linker or
/// options.
fn links_with_lld() -> bool {
    let is_set = |name: &str| var(name).is_ok_and(|value| !value.is_empty());
    if is_set("RUSTC_LINKER") || is_set("CARGO_ENCODED_RUSTFLAGS") {
        return false;
    }
    let Ok(rustc) = var("RUSTC") else { return false };
    let Ok(sysroot) = std::process::Command::new(rustc).args(["--print", "sysroot"]).output() else {
        return false;
    };
    let sysroot = String::from_utf8_lossy(&sysroot.stdout);
    Path::new(sysroot.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld/ld.lld").exists()
}
