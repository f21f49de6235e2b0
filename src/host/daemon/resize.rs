//! Changes the limits of a running container.

use crate::process_tree;
use rustix::process::Pid;

use super::Host;
use super::cgroup::Limits;
use super::container::Container;
use super::error::os_error;
use crate::{ContainerId, ResourceLimits, RuntimeError};

/// The number of rounds after which a process tree that forks faster than it can be moved is left alone.
const LOOKS: usize = 50;

impl Host {
    /// Sets a running container's limits: in its control group, or by watching where the kernel does not.
    pub(super) fn resize(&self, id: &ContainerId, limits: &ResourceLimits) -> Result<(), RuntimeError> {
        let container = self.container(id)?;
        if !container.is_running() {
            return Err(RuntimeError::NotFound(format!("running container {}", id.0)));
        }
        let memory_bytes = limits.memory_bytes;
        let of_pod = self.pod(&container.pod).map(|pod| pod.spec.limits).unwrap_or_default();
        let limits = Limits::new(limits, &of_pod, self.pod_pids_limit);
        if let Some(group) = container.group.get() {
            let failed = os_error("control group");
            group.resize(&limits).map_err(&failed)?;
            if self.cgroups.extend(group, &container.pod, &id.0, &limits).map_err(&failed)? {
                move_in(&container, group).map_err(&failed)?;
            }
        } else if let Some(group) =
            self.cgroups.make(&container.pod, &id.0, &limits).map_err(os_error("control group"))?
        {
            // The container had no control group until now.
            move_in(&container, &group).map_err(os_error("control group"))?;
            let _ = container.group.set(group);
        }
        container.memory_limit.set(memory_bytes);
        self.watching.notify_one();
        Ok(())
    }
}

/// Moves every process of the container into a group, including those created meanwhile.
fn move_in(container: &Container, group: &super::cgroup::Group) -> std::io::Result<()> {
    for _ in 0..LOOKS {
        let roots = container.roots();
        let inside = group.processes();
        let all = process_tree::below(&roots).into_iter().chain(roots);
        let outside: Vec<Pid> = all.filter_map(Pid::from_raw).filter(|pid| !inside.contains(pid)).collect();
        if outside.is_empty() {
            return Ok(());
        }
        for pid in outside {
            group.add_process(pid)?;
        }
    }
    Ok(())
}
