//! Replaces the few files that differ inside the cluster's network: those for name resolution, and the kubeconfig. They
//! are in memory, visible only to the shell's processes, and end with them; all other files are the machine's own.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount, mount_bind};
use serde_json::Value;

use super::context::ShellContext;
use crate::cli::output::eprint_line;
use base::optional_file::read_optional;
use base::resolv_conf::ResolvConf;
use fabric::enter_private_mounts;

/// Configuration of the resolver.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Configuration of libc's name lookup.
const NSSWITCH_CONF: &str = "/etc/nsswitch.conf";
/// Directories of name service caches, which would answer libc although they do not know the cluster's names.
const CACHES: [&str; 2] = ["/run/nscd", "/var/run/nscd"];

/// Moves this process into a new mount namespace in which these files are replaced.
pub(super) fn show(inside: &ShellContext<'_>) -> Result<()> {
    let outside = inside.data_dir.join("kubeconfig");
    let reached =
        of_inside(&fs::read_to_string(&outside).context("kubeconfig")?, &inside.entry.api.to_string())?;
    // These files are read before the mounts hide them.
    let machine = ResolvConf::parse(&read_optional(RESOLV_CONF));
    let order = fs::read_to_string(NSSWITCH_CONF).ok();

    enter_private_mounts().context("mount namespace")?;
    let directory = inside.directory();
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", &directory, "tmpfs", flags, c"mode=700,size=1m").context("memory")?;
    let own = inside.kubeconfig();
    put(&own, 0o600, &reached)?;
    // `podium` commands in the shell read the kubeconfig at this path.
    mount_bind(&own, &outside).context("kubeconfig")?;
    if let Some(dns) = inside.entry.dns {
        let text = resolv_conf(inside, dns.to_string(), &machine).text();
        stand_for(&directory, RESOLV_CONF, &text)?;
        if let Some(order) = order.and_then(|order| by_dns(&order)) {
            stand_for(&directory, NSSWITCH_CONF, &order)?;
        }
        for cache in CACHES.iter().filter(|cache| Path::new(cache).is_dir()) {
            mount("tmpfs", *cache, "tmpfs", flags, c"mode=755,size=4k")
                .with_context(|| (*cache).to_owned())?;
        }
    } else {
        eprint_line("podium: the cluster's DNS is disabled; names resolve as on this machine");
    }
    Ok(())
}

/// Writes a text to a new file in `directory` and mounts it over `file`.
fn stand_for(directory: &Path, file: &str, text: &str) -> Result<()> {
    let name = Path::new(file).file_name().context("a file has a name")?;
    let own = directory.join(name);
    put(&own, 0o644, text)?;
    match mount_bind(&own, file) {
        // A machine without this file resolves names in another way, and nothing can be mounted over it; addresses work
        // in any case.
        Err(rustix::io::Errno::NOENT) => {
            eprint_line(&format!("podium: {file} does not exist; names of the cluster may not resolve"));
            Ok(())
        }
        other => other.with_context(|| file.to_owned()),
    }
}

fn put(path: &Path, mode: u32, text: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    let written = opened.and_then(|mut file| -> io::Result<()> { file.write_all(text.as_bytes()) });
    written.with_context(|| path.display().to_string())
}

/// The resolver configuration of a pod of the namespace (`ClusterFirst`).
fn resolv_conf(inside: &ShellContext<'_>, server: String, machine: &ResolvConf) -> ResolvConf {
    let (namespace, domain) = (inside.namespace, &inside.entry.domain);
    let mut searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
    searches.extend(machine.searches.iter().cloned());
    ResolvConf { nameservers: vec![server], searches, options: vec!["ndots:5".to_owned()] }
}

/// Returns the kubeconfig with its clusters' servers replaced by this address.
fn of_inside(kubeconfig: &str, api: &str) -> Result<String> {
    let mut config: Value = manifest::from_yaml(kubeconfig).context("kubeconfig")?;
    for cluster in config["clusters"].as_array_mut().into_iter().flatten() {
        cluster["cluster"]["server"] = format!("https://{api}").into();
    }
    Ok(manifest::to_yaml(&config))
}

/// Returns libc's lookup order with files and DNS alone: other services of the machine would answer that the cluster's
/// names do not exist. `None` if the order is already files and DNS alone.
fn by_dns(order: &str) -> Option<String> {
    const HOSTS_LINE: &str = "hosts: files dns";
    let is_hosts = |line: &&str| line.trim_start().starts_with("hosts:");
    let before = order.lines().find(is_hosts)?;
    if before.split_ascii_whitespace().eq(HOSTS_LINE.split(' ')) {
        return None;
    }
    let lines = order.lines().map(|line| if is_hosts(&line) { HOSTS_LINE } else { line });
    Some(lines.flat_map(|line| [line, "\n"]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_resolved_by_other_services_of_the_machine_net_7() {
        for (order, expected) in [
            ("passwd: files\nhosts: files dns\n", None),
            ("hosts:\tfiles   dns\n", None),
            ("passwd: files\n", None),
            (
                "passwd: files\nhosts: mymachines resolve [!UNAVAIL=return] files dns\nrpc: db\n",
                Some("passwd: files\nhosts: files dns\nrpc: db\n"),
            ),
        ] {
            assert_eq!(by_dns(order).as_deref(), expected, "{order}");
        }
    }

    #[test]
    fn the_api_is_reached_at_its_service_net_7() {
        let text = "clusters:\n- name: a\n  cluster: {server: 'https://127.0.0.1:6443', x: z}\nusers: []\n";
        let config: Value = manifest::from_yaml(&of_inside(text, "10.96.0.1:443").unwrap()).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://10.96.0.1:443");
        assert_eq!(
            (&config["clusters"][0]["cluster"]["x"], &config["users"]),
            (&"z".into(), &serde_json::json!([]))
        );
        assert!(of_inside("{", "a").is_err());
    }
}
