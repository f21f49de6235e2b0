//! The injected faults of a host: the offset of its clock, and the effect on its writes.

use std::io;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use rustix::io::Errno;
use tokio::sync::watch;

use crate::faults::HostFaults;
use base::disk_fault::DiskFault;

/// The current faults; a cheap handle.
#[derive(Clone, Default)]
pub(super) struct Faults(Rc<watch::Sender<HostFaults>>);

impl Faults {
    /// Replaces the faults in force. A write that waits because of a slow disk continues as soon as the disk is not
    /// slow any more.
    pub(super) fn set(&self, faults: HostFaults) {
        self.0.send_replace(faults);
    }

    /// The reading of the node's clock.
    pub(super) fn now(&self) -> Timestamp {
        let now = super::now();
        now.checked_add(SignedDuration::from_millis(self.0.borrow().skew_millis)).unwrap_or(now)
    }

    /// Returns the error that a write fails with, if any.
    pub(super) fn admit(&self) -> io::Result<()> {
        match self.0.borrow().disk {
            Some(DiskFault::Full) => Err(Errno::NOSPC.into()),
            Some(DiskFault::Failing) => Err(Errno::IO.into()),
            Some(DiskFault::Slow(_)) | None => Ok(()),
        }
    }

    /// Waits for the delay of a write on a slow disk.
    pub(super) async fn pass(&self) {
        let fault = *self.0.borrow();
        if let Some(DiskFault::Slow(delay)) = fault.disk {
            let mut faults = self.0.subscribe();
            let healed = faults.wait_for(|now| now.disk != fault.disk);
            // If the disk's fault ends meanwhile, the wait ends too.
            let _ = tokio::time::timeout(delay, healed).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_slow_disk_is_waited_for_until_it_heals_and_a_broken_one_refuses_fault_1() {
        let faults = Faults::default();
        assert!(faults.admit().is_ok());
        faults.pass().await;
        let disk = |fault| HostFaults { disk: Some(fault), ..HostFaults::default() };
        for (fault, code) in [(DiskFault::Full, Errno::NOSPC), (DiskFault::Failing, Errno::IO)] {
            faults.set(disk(fault));
            assert_eq!(faults.admit().unwrap_err().raw_os_error(), Some(code.raw_os_error()));
        }
        faults.set(disk(DiskFault::Slow(Duration::from_hours(1))));
        assert!(faults.admit().is_ok());
        let (waiting, healing) = (faults.clone(), faults.clone());
        let heal = async {
            tokio::task::yield_now().await;
            healing.set(HostFaults::default());
        };
        tokio::join!(waiting.pass(), heal);
    }

    #[test]
    fn a_clock_that_is_off_reads_another_time_fault_1() {
        let faults = Faults::default();
        for hours in [-2_i32, 3] {
            faults.set(HostFaults { skew_millis: i64::from(hours) * 3_600_000, disk: None });
            let off = faults.now().duration_since(crate::daemon::now()).as_secs_f64() / 3600.0;
            assert!((off - f64::from(hours)).abs() < 0.01, "{off}");
        }
    }
}
