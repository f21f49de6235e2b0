//! Tests if this machine lets pods have a network of their own: a separate process creates a complete network, and
//! exits.

use std::io::{Read, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use fabric::FabricError;
use fabric::nft::Family;
use fabric::preflight::{LEAVES, PreflightFabric, SERVER};

use super::remedy::remedy;

/// Timeout of the test; it takes some ten milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The output of a successful test.
const WORKS: &str = "works";
/// The address of a service in the tested network.
const SERVICE: ([u8; 4], u16) = ([10, 96, 0, 80], 80);
const WORLD: ([u8; 4], u16) = ([192, 0, 2, 1], 80);

/// Runs the test's process: `podium network-preflight`. It prints one line on standard output: `works`, or the failed
/// step, the reason, and the remedy. Must be called while the process has one thread.
pub fn network_preflight_main() -> ExitCode {
    let line = match run() {
        Ok(()) => WORKS.to_owned(),
        Err(error) => match remedy(&error) {
            Some(remedy) => format!("{error}; {remedy}"),
            None => error.to_string(),
        },
    };
    // The parent process may have exited; then there is no reader for the line.
    let _ = writeln!(std::io::stdout(), "{line}");
    ExitCode::SUCCESS
}

fn run() -> Result<(), FabricError> {
    let trial = PreflightFabric::start()?;
    let server = SocketAddr::from((SERVER, 8080));
    trial.connects(server, server, false)?;
    let service = SocketAddr::from(SERVICE);
    network::rules::try_rules(trial.nft()?, service, server, LEAVES.into())?;
    trial.connects(service, server, false).map_err(|error| within("service", error))?;
    let [door, _] = egress::listener_addresses(Family::V4);
    trial.connects(WORLD.into(), door, true).map_err(|error| within("way out", error))?;
    if host::namespaces_work() {
        return Ok(());
    }
    // Without a mount namespace pods cannot have their own resolv.conf, and so could not use the cluster's DNS, the
    // only one inside the network.
    Err(FabricError {
        step: "namespaces of containers".to_owned(),
        source: std::io::ErrorKind::PermissionDenied.into(),
    })
}

fn within(step: &str, error: FabricError) -> FabricError {
    FabricError { step: format!("{step}: {}", error.step), source: error.source }
}

/// Runs the test in a process of this program; an error is the reason why pods cannot have a network of their own,
/// with the remedy.
pub(super) fn try_network(program: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    command
        .arg("network-preflight")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut process = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let (sender, hear) = mpsc::channel();
    if let Some(stdout) = process.stdout.take() {
        std::thread::spawn(move || {
            let mut output = String::new();
            // A process without output counts as a failed test.
            let _ = stdout.take(4096).read_to_string(&mut output);
            sender.send(output)
        });
    }
    let received = hear.recv_timeout(TIMEOUT);
    let _ = process.kill();
    let _ = process.wait();
    match received {
        Ok(output) if output.trim() == WORKS => Ok(()),
        Ok(output) if output.trim().is_empty() => Err("the trial ended without output".to_owned()),
        Ok(output) => Err(output.trim().to_owned()),
        Err(_) => Err(format!("the trial took longer than {} s", TIMEOUT.as_secs())),
    }
}
