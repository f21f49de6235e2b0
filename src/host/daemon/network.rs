//! The node's and its pods' networks, if there is a fabric: creates and enters them, and opens sockets in them.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use fabric::descriptors::AT_ONCE;
use fabric::{
    Fabric, FabricError, LeafSpec, Namespaces, RouterHandle, SocketKind, SocketSpec, enter_network, open_in,
    open_sockets,
};
use rustix::thread::LinkNameSpaceType;

use super::arguments::FabricArguments;
use super::{Host, sysctls};
use crate::{PodUid, RuntimeError, SandboxSpec};

/// The node's part of a fabric.
pub(super) struct Network {
    trunk: RouterHandle,
    /// The fabric's namespaces, for a new fabric process after the previous one died.
    namespaces: Namespaces,
    /// The node's own network.
    own: OwnedFd,
    mtu: u32,
    /// This connection tells the fabric's process that the host still needs it.
    _fabric: Fabric,
}

impl Network {
    /// Enters the fabric's user namespace and a leaf of the node's own, for good. This process must have one thread.
    pub(super) fn join(arguments: &FabricArguments) -> Result<Self, FabricError> {
        let at = |step: &str| {
            let step = step.to_owned();
            move |source| FabricError { step, source }
        };
        let fabric = Fabric::connect(&arguments.socket).map_err(at("connect to the fabric"))?;
        let (trunk, namespaces) = (fabric.trunk()?, fabric.namespaces()?);
        namespaces.enter_user()?;
        // This process may not return to its original network, but only to networks that its user namespace owns.
        enter_network(namespaces.network.as_fd())?;
        let own = trunk.leaf(&arguments.leaf)?;
        enter_network(own.as_fd())?;
        Ok(Self { trunk, namespaces, own, mtu: arguments.leaf.mtu, _fabric: fabric })
    }

    /// Creates a pod's network; none for a pod in the node's network.
    pub(super) fn leaf_of(&self, pod: &SandboxSpec) -> Result<Option<OwnedFd>, FabricError> {
        if pod.host.network {
            return Ok(None);
        }
        let leaf = self.trunk.leaf(&self.leaf_spec(pod))?;
        let settings: Vec<_> = sysctls::of_network(&pod.sysctls).collect();
        if !settings.is_empty() {
            enter_network(leaf.as_fd())?;
            let set = sysctls::set(settings.into_iter());
            // This thread must return to the node's network even after an error.
            enter_network(self.own.as_fd())?;
            set.map_err(|source| FabricError { step: "the pod's network".to_owned(), source })?;
        }
        Ok(Some(leaf))
    }

    /// Joins the network namespace of a pod with a user namespace of its own to the fabric. The settings of the pod are
    /// left to its root.
    pub(super) fn join_leaf(&self, pod: &SandboxSpec, namespace: &OwnedFd) -> Result<(), FabricError> {
        self.trunk.join(&self.leaf_spec(pod), namespace.as_fd())
    }

    fn leaf_spec(&self, pod: &SandboxSpec) -> LeafSpec {
        let addresses: Vec<IpAddr> = [Some(pod.ip), pod.second_ip].into_iter().flatten().collect();
        LeafSpec::new(link_of(pod.ip), addresses, self.mtu)
    }
}

/// The name of a pod's link in the fabric: as unique as its address, and no longer than 15 bytes.
fn link_of(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => format!("p{:08x}", u32::from(ip)),
        IpAddr::V6(ip) => format!("p{:014x}", u128::from(ip) & 0xff_ffff_ffff_ffff),
    }
}

impl Host {
    /// The namespaces of the fabric, the network's first.
    pub(super) fn namespaces(&self) -> Result<Vec<OwnedFd>, RuntimeError> {
        let Namespaces { network, user } = &self.network()?.namespaces;
        let copies = [Some(network), user.as_ref()].into_iter().flatten().map(OwnedFd::try_clone);
        copies.collect::<Result<_, _>>().map_err(|error| RuntimeError::Os(error.to_string()))
    }

    /// The network of the node, or of a pod.
    pub(super) fn leaf(&self, pod: Option<&PodUid>) -> Result<Vec<OwnedFd>, RuntimeError> {
        let network = self.network()?;
        let copied = self.with_leaf(pod, |leaf| leaf.unwrap_or(&network.own).try_clone())?;
        Ok(vec![copied.map_err(|error| RuntimeError::Os(error.to_string()))?])
    }

    /// Opens sockets in the node's network, or in a pod's.
    pub(super) fn sockets(
        &self,
        pod: Option<&PodUid>,
        kind: SocketKind,
        count: usize,
    ) -> Result<Vec<OwnedFd>, RuntimeError> {
        let network = self.network()?;
        let (spec, count) = (SocketSpec::new(kind), count.min(AT_ONCE));
        let opened = self.with_leaf(pod, |leaf| match leaf {
            Some(leaf) => open_in(leaf.as_fd(), network.own.as_fd(), &spec, count),
            None => open_sockets(&spec, count),
        })?;
        opened.map_err(|error| RuntimeError::Os(error.to_string()))
    }

    fn network(&self) -> Result<&Network, RuntimeError> {
        let network = self.network.as_ref();
        network.ok_or_else(|| RuntimeError::Os("pods share the machine's network".into()))
    }

    /// Uses the leaf of a running pod; none for a pod in the node's network, and without a pod.
    pub(super) fn with_leaf<T>(
        &self,
        pod: Option<&PodUid>,
        using: impl FnOnce(Option<&OwnedFd>) -> T,
    ) -> Result<T, RuntimeError> {
        let Some(uid) = pod else { return Ok(using(None)) };
        let pod = self.pod(uid).filter(|pod| pod.ready.get());
        let pod = pod.ok_or_else(|| RuntimeError::NotFound(format!("sandbox {uid}")))?;
        let namespaces = pod.namespaces.borrow();
        let leaf = namespaces.iter().find(|(_, kind)| *kind == LinkNameSpaceType::Network);
        Ok(using(leaf.map(|(leaf, _)| leaf)))
    }
}

#[cfg(test)]
mod tests {
    use super::link_of;

    #[test]
    fn each_address_has_a_link_of_its_own_net_5() {
        let names = ["10.244.0.2", "10.244.0.3", "fd00:10:244::1:2", "fd00:10:244::2:2"];
        let links = names.map(|ip| link_of(ip.parse().unwrap()));
        assert!(links.iter().all(|link| link.len() <= 15), "{links:?}");
        assert_eq!(links.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{links:?}");
    }
}
