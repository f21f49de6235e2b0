//! The command line of a node's host.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use fabric::LeafSpec;

/// The command line of a host.
pub(super) struct Arguments {
    pub(super) state: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) lifeline: bool,
    pub(super) no_namespaces: bool,
    pub(super) no_cgroups: bool,
    pub(super) pod_pids_limit: Option<u64>,
    /// A directory that its containers do not see: the cluster's data directory.
    pub(super) hidden: Option<PathBuf>,
    /// The time for which the host lives without a control plane.
    pub(super) unclaimed: Duration,
    /// The fabric in which its pods have networks of their own.
    pub(super) fabric: Option<FabricArguments>,
}

/// The node's leaf in a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FabricArguments {
    /// The socket of the fabric's process.
    pub(super) socket: PathBuf,
    /// The node's own leaf.
    pub(super) leaf: LeafSpec,
}

pub(super) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, String> {
    let mut arguments = arguments.into_iter();
    let (mut state, mut socket, mut hidden, mut pod_pids_limit) = (None, None, None, None);
    let mut unclaimed = Duration::MAX;
    let (mut fabric, mut link, mut addresses, mut mtu) = (None, None, Vec::<IpAddr>::new(), None);
    let (mut lifeline, mut no_namespaces, mut no_cgroups) = (false, false, false);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--state") => state = arguments.next().map(PathBuf::from),
            Some("--socket") => socket = arguments.next().map(PathBuf::from),
            Some("--hidden") => hidden = arguments.next().map(PathBuf::from),
            Some("--lifeline") => lifeline = true,
            Some("--no-namespaces") => no_namespaces = true,
            Some("--no-cgroups") => no_cgroups = true,
            Some("--pod-pids-limit") => {
                let number = arguments.next().and_then(|text| text.to_str()?.parse().ok());
                pod_pids_limit = Some(number.ok_or("--pod-pids-limit needs a number")?);
            }
            Some("--unclaimed") => {
                let seconds = arguments.next().and_then(|text| text.to_str()?.parse().ok());
                let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                unclaimed = duration.ok_or("--unclaimed needs a number of seconds")?;
            }
            Some("--fabric") => fabric = arguments.next().map(PathBuf::from),
            Some("--link") => link = arguments.next().and_then(|text| text.into_string().ok()),
            Some("--address") => {
                let address = arguments.next().and_then(|text| text.to_str()?.parse().ok());
                addresses.push(address.ok_or("--address needs an address")?);
            }
            Some("--mtu") => {
                let number = arguments.next().and_then(|text| text.to_str()?.parse().ok());
                mtu = Some(number.ok_or("--mtu needs a number of bytes")?);
            }
            _ => return Err(format!("unknown argument {}", argument.display())),
        }
    }
    let fabric = match (fabric, link, mtu) {
        (None, ..) => None,
        (Some(socket), Some(link), Some(mtu)) if !addresses.is_empty() => {
            // Through the fabric, programs in the node's own leaf reach the ports of all services at the leaf's
            // address.
            let leaf = LeafSpec::new(link, addresses, mtu).meeting_itself_outside();
            Some(FabricArguments { socket, leaf })
        }
        _ => return Err("--fabric, --link, --address and --mtu must be used together".to_owned()),
    };
    let state = state.ok_or("--state DIR is missing")?;
    let socket = socket.ok_or("--socket PATH is missing")?;
    Ok(Arguments {
        state,
        socket,
        lifeline,
        no_namespaces,
        no_cgroups,
        pod_pids_limit,
        hidden,
        unclaimed,
        fabric,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_says_what_it_misses() {
        let parse = |line: &str| parse(line.split(' ').map(OsString::from));
        let all = parse("--state /s --socket /s/x --lifeline --no-cgroups --hidden /d --pod-pids-limit 7")
            .ok()
            .unwrap();
        assert!(all.lifeline && all.no_cgroups && !all.no_namespaces);
        assert_eq!((all.socket, all.pod_pids_limit), ("/s/x".into(), Some(7)));
        assert_eq!(all.hidden, Some("/d".into()));
        assert_eq!(
            parse("--state /s --socket /x --unclaimed 1.5").ok().unwrap().unclaimed,
            Duration::from_millis(1500)
        );
        let line =
            "--state /s --socket /x --fabric /f --link n1 --address 10.0.0.1 --address fd00::1 --mtu 1500";
        let fabric = parse(line).ok().unwrap().fabric.unwrap();
        assert_eq!((fabric.leaf.addresses.len(), fabric.leaf.mtu), (2, 1500));
        for (line, expect) in [
            (
                "--state /s --socket /x --fabric /f --link n1",
                "--fabric, --link, --address and --mtu must be used together",
            ),
            ("--state /s --socket /x --address here", "--address needs an address"),
            ("--state /s --socket /x --unclaimed soon", "--unclaimed needs a number of seconds"),
            ("--state /s", "--socket PATH is missing"),
            ("--socket /s", "--state DIR is missing"),
            ("--state /s --socket /x --pod-pids-limit many", "--pod-pids-limit needs a number"),
            ("--stat", "unknown argument --stat"),
        ] {
            assert_eq!(parse(line).err().as_deref(), Some(expect));
        }
    }
}
