//! Enters the fabric's user and network namespaces, then the shell's own network, and drops the rights over them.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result, bail};

use super::context::ShellContext;
use super::files;
use base::subordinate_ids::{RealUser, appear_as};
use cluster::NetworkEntry;
use fabric::{Fabric, RouterHandle, enter_network};

/// The network to enter.
pub(super) enum EnteredNetwork {
    /// A new leaf for the shell, which the kernel removes with the last process in it.
    Own,
    /// The network of a node or a pod.
    Of {
        network: OwnedFd,
        /// Its name for the user.
        owner: String,
    },
}

impl ShellContext<'_> {
    /// Enters the network irreversibly, and returns its name for the user. This process must have one thread.
    pub(super) fn enter(&self, leaf: EnteredNetwork) -> Result<String> {
        if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() != 1) {
            bail!("only a process with one thread can enter the cluster's network, and this one has more");
        }
        let socket = NetworkEntry::socket(self.data_dir);
        let fabric = Fabric::connect(&socket).with_context(|| {
            format!("{}: cannot connect to the process of the cluster's network", socket.display())
        })?;
        let (trunk, namespaces) = (fabric.trunk()?, fabric.namespaces()?);
        let user = RealUser::of_process();
        drop(fabric);
        let place = || -> Result<String> {
            namespaces.enter_user()?;
            // After this there is no way back to the original namespaces.
            enter_network(namespaces.network.as_fd())?;
            let (network, place) = match leaf {
                EnteredNetwork::Own => self.own(&trunk)?,
                EnteredNetwork::Of { network, owner } => (network, owner),
            };
            enter_network(network.as_fd())?;
            Ok(place)
        };
        let place = place().context("cannot enter the cluster's network")?;
        // The connection would give the shell rights over the fabric.
        drop(trunk);
        files::show(self).context("cannot mount the shell's files")?;
        // A user with subordinate ids is root in the namespace that owns the network.
        if RealUser::of_process() != user {
            appear_as(user).context("cannot remain the user in the cluster's network")?;
        }
        host::bound_as_containers().context("cannot limit the shell's capabilities")?;
        Ok(place)
    }

    fn own(&self, trunk: &RouterHandle) -> Result<(OwnedFd, String)> {
        let places = self.entry.visitors();
        let (number, network) = trunk.first_free_leaf(&places).with_context(|| {
            format!("no free address for a shell (at most {} shells at a time)", places.len())
        })?;
        let address = places.get(number).and_then(|place| place.addresses.first());
        Ok((network, address.map(ToString::to_string).unwrap_or_default()))
    }
}
