//! Causes the faults of the plan, and ends them.

use std::sync::Arc;
use std::time::Duration;

use super::checks::Checks;
use super::clients;
use super::plan::{Fault, NODES};
use super::world::{World, node_name};

/// The interval at which a planned crash checks if the last write before it has been made.
const LOOK: Duration = Duration::from_millis(5);
/// The time after which a planned crash happens even if the last write before it has not been made.
const LATEST_CRASH: Duration = Duration::from_secs(10);

/// The maximum delay until watchers observe the last actions of two copies of a controller.
const TWINS_DELAY: Duration = Duration::from_mins(1);

/// Causes a fault, and ends it when its time is over.
pub(super) async fn inject(world: Arc<World>, checks: Arc<Checks>, fault: Fault) {
    checks.rollouts.end_calm();
    checks.rollouts.disturbed();
    world.trace.record(format!("FAULT {fault:?}"));
    match fault {
        Fault::Crash { writes, down, keeps_what_is_under_way } => {
            let Some(plane) = world.plane() else { return };
            plane.store.faults().fail_after(Some(writes));
            let mut waited = Duration::ZERO;
            while plane.store.faults().remaining_writes() != Some(0) && waited < LATEST_CRASH {
                tokio::time::sleep(LOOK).await;
                waited += LOOK;
            }
            if !world.plane().is_some_and(|current| Arc::ptr_eq(&current, &plane)) {
                return;
            }
            world.crash(keeps_what_is_under_way).await;
            tokio::time::sleep(down).await;
            if world.plane().is_none()
                && let Err(error) = world.start().await
            {
                world.trace.violation("restart", error);
            }
        }
        Fault::RefuseWrites { after, lasts } => {
            let Some(plane) = world.plane() else { return };
            plane.store.faults().fail_after(Some(after));
            tokio::time::sleep(lasts).await;
            // If this control plane has crashed meanwhile, its store must continue to refuse writes.
            if world.plane().is_some_and(|current| Arc::ptr_eq(&current, &plane)) {
                plane.store.faults().fail_after(None);
            }
        }
        Fault::StaleView { kind, lasts, forgets } => {
            let Some(plane) = world.plane() else { return };
            plane.store.hold_views(Some(kind));
            tokio::time::sleep(lasts).await;
            if forgets {
                plane.api.compact(plane.api.revision());
            }
            plane.store.hold_views(None);
        }
        Fault::Stall { lasts } => {
            world.disk.stall(true);
            tokio::time::sleep(lasts).await;
            world.disk.stall(false);
        }
        Fault::PowerOff { node, lasts } => {
            if world.power_off(node).await {
                tokio::time::sleep(lasts).await;
                world.power_on(node).await;
            }
        }
        Fault::Partition { node, lasts } => {
            if world.cut_off(node).await {
                tokio::time::sleep(lasts).await;
                world.heal(node).await;
            }
        }
        Fault::Hang { node, lasts } => {
            world.hang(node, true).await;
            tokio::time::sleep(lasts).await;
            world.hang(node, false).await;
        }
        Fault::Twins { lasts } => {
            checks.rollouts.set_twins(true);
            world.set_twins(true);
            tokio::time::sleep(lasts).await;
            world.set_twins(false);
            // Watchers may observe the second copies' last actions later.
            tokio::time::sleep(TWINS_DELAY).await;
            checks.rollouts.set_twins(false);
        }
        Fault::Fence { node, lasts } => {
            let name = node_name(node);
            if clients::fence(&world, &name).await {
                tokio::time::sleep(lasts).await;
                clients::unfence(&world, &name).await;
            }
        }
        Fault::ClockStep { seconds, lasts } => {
            world.clock.set_skew_millis(seconds.saturating_mul(1000));
            tokio::time::sleep(lasts).await;
            world.clock.set_skew_millis(0);
        }
    }
    checks.rollouts.disturbed();
}

/// Ends every fault, including those under way.
pub(super) async fn heal_all(world: &World) {
    world.clock.set_skew_millis(0);
    world.disk.stall(false);
    // The API must accept writes before nodes come back: a kubelet registers its node at its start, and retries until
    // that succeeds.
    if let Some(plane) = world.plane() {
        plane.store.faults().fail_after(None);
        plane.store.hold_views(None);
        world.end_twins();
    }
    for node in 0..NODES {
        world.power_on(node).await;
        world.heal(node).await;
        world.hang(node, false).await;
    }
    if world.plane().is_none()
        && let Err(error) = world.start().await
    {
        world.trace.violation("restart", error);
    }
}
