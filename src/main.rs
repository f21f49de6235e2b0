//! Podium.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("node-host") => podium::kubelet::runtime::node_host_main(arguments),
        _ => ExitCode::SUCCESS,
    }
}
