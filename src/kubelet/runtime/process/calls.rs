//! The calls of the kubelet, as requests to the node's host.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::dial::HostDialer;
use super::{ProcessRuntime, host_error};
use crate::runtime::{
    ContainerId, ContainerRecord, ContainerSpec, ExecOutput, HostFaults, Image, ImageFiles, ImagePull,
    ImageService, Memory, PodUid, PullProgress, ResourceLimits, Runtime, RuntimeError, RuntimeEvents,
    SandboxRecord, SandboxSpec, Usage, UsageByPod,
};
use base::dial::{Dialer, LocalDialer, Transport};
use base::session::{Session, SessionStreams};
use host::journal;
use host::protocol::{Purpose, Request, Response};
use images::StoredImage;
use images::store::Provenance;

/// The error for a response that violates the protocol.
fn protocol_error<T>() -> Result<T, RuntimeError> {
    Err(host_error("the node host sent a response of another type"))
}

/// Sends a request, and takes the value out of a response of the expected type.
macro_rules! request {
    ($runtime:ident, $request:expr, $response:pat => $value:expr) => {
        async move {
            match $runtime.shared.request($request).await? {
                $response => Ok($value),
                _ => protocol_error(),
            }
        }
        .boxed()
    };
}

impl Runtime for ProcessRuntime {
    fn version(&self) -> String {
        concat!("podium://", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn isolation(&self) -> BTreeMap<String, String> {
        self.shared.isolation.lock().clone()
    }

    fn memory(&self) -> Option<Arc<Memory>> {
        self.shared.memory.lock().clone()
    }

    fn set_faults(&self, faults: HostFaults) {
        self.shared.faults.send_if_modified(|known| std::mem::replace(known, faults) != faults);
    }

    fn events(&self) -> RuntimeEvents {
        self.shared.events.subscribe()
    }

    fn status(&self) -> BoxFuture<'_, Result<(), RuntimeError>> {
        self.shared.status().boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxRecord>, RuntimeError>> {
        request!(self, Request::List, Response::Sandboxes(sandboxes) => sandboxes)
    }

    fn inspect<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<Option<SandboxRecord>, RuntimeError>> {
        request!(self, Request::Inspect(pod.clone()), Response::Sandbox(sandbox) => sandbox)
    }

    fn image_status<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<Image, RuntimeError>> {
        async {
            let image = self.catalogue.resolve(reference)?;
            Ok(Image { image_id: image.image_ref, size_bytes: image.size_bytes })
        }
        .boxed()
    }

    fn can_pull(&self, reference: &str) -> bool {
        self.puller.is_some() && self.catalogue.can_pull(reference)
    }

    fn pull_image<'a>(&'a self, pull: &'a ImagePull) -> BoxFuture<'a, Result<Image, RuntimeError>> {
        async {
            let Some(puller) = &self.puller else { return self.image_status(&pull.image).await };
            let hint = self.catalogue.hint(&pull.image);
            match puller.pull(&pull.image, &pull.secrets).await {
                Ok(_) => self.image_status(&pull.image).await,
                Err(error) => Err(RuntimeError::PullFailed(match hint.filter(|_| error.is_of_registry()) {
                    Some(hint) => format!("{error} ({hint})"),
                    None => error.to_string(),
                })),
            }
        }
        .boxed()
    }

    fn pull_progress(&self, reference: &str) -> Option<PullProgress> {
        self.puller.as_ref()?.progress(reference).map(|(done, total)| PullProgress { done, total })
    }

    fn is_image_pulled(&self, reference: &str) -> bool {
        self.catalogue.find_loaded(reference).is_some_and(|image| image.provenance == Provenance::Pulled)
    }

    fn is_image_loaded(&self, reference: &str) -> bool {
        self.catalogue.find_loaded(reference).is_some()
    }

    fn loaded_images(&self) -> Vec<(Vec<String>, Image)> {
        let image_of = |image: StoredImage| Image { image_id: image.id, size_bytes: image.size_bytes };
        let loaded = self.catalogue.all_loaded().into_iter().filter(|(_, names)| !names.is_empty());
        let with_digests = |(image, mut names): (StoredImage, Vec<String>)| {
            names.extend(self.catalogue.repository_digests(&image.id));
            (names, image_of(image))
        };
        loaded.map(with_digests).collect()
    }

    fn image_files(&self, reference: &str) -> Result<ImageFiles, RuntimeError> {
        self.catalogue.files(reference)
    }

    fn image_service(&self) -> Option<ImageService> {
        let (catalogue, puller) = (self.catalogue.clone(), self.puller.clone());
        Some(ImageService::new(catalogue, puller, self.shared.config.state_dir.clone()))
    }

    fn run_sandbox(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxRecord, RuntimeError>> {
        request!(self, Request::RunSandbox(Box::new(spec)), Response::Sandbox(Some(record)) => record)
    }

    fn stop_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.shared.request(Request::StopSandbox(pod.clone())).await.map(drop) }.boxed()
    }

    fn write_hosts<'a>(&'a self, pod: &'a PodUid, text: String) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move { self.shared.request(Request::WriteHosts { pod: pod.clone(), text }).await.map(drop) }
            .boxed()
    }

    fn remove_sandbox<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.shared.request(Request::RemoveSandbox(pod.clone())).await.map(drop) }.boxed()
    }

    fn start_container(&self, spec: ContainerSpec) -> BoxFuture<'_, Result<ContainerRecord, RuntimeError>> {
        async {
            let image = self.catalogue.resolve(&spec.image)?;
            let of_volumes = spec.mounts.iter().filter_map(|mount| mount.image.as_ref());
            for id in of_volumes.map(|image| &image.image_id).chain([&image.image_id]) {
                self.catalogue.record_use(id);
            }
            match self.shared.request(Request::Start(Box::new(Self::launch(spec, image)))).await? {
                Response::Container(record) => Ok(record),
                _ => protocol_error(),
            }
        }
        .boxed()
    }

    fn resize_container<'a>(
        &'a self,
        id: &'a ContainerId,
        limits: ResourceLimits,
    ) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async move { self.shared.request(Request::Resize(id.clone(), limits)).await.map(drop) }.boxed()
    }

    fn terminate_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.shared.request(Request::Terminate(id.clone())).await.map(drop) }.boxed()
    }

    fn kill_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.shared.request(Request::Kill(id.clone())).await.map(drop) }.boxed()
    }

    fn kill_for_memory<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async { self.shared.request(Request::KillForMemory(id.clone())).await.map(drop) }.boxed()
    }

    fn remove_container<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), RuntimeError>> {
        async {
            match self.shared.request(Request::RemoveContainer(id.clone())).await {
                // `NotFound` means that an earlier request has removed the container.
                Ok(_) | Err(RuntimeError::NotFound(_)) => Ok(()),
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn exec<'a>(
        &'a self,
        id: &'a ContainerId,
        command: Vec<String>,
        streams: SessionStreams,
    ) -> BoxFuture<'a, Result<Session, RuntimeError>> {
        async move {
            let purpose = Purpose::Exec { id: id.clone(), command, streams };
            self.shared.session(purpose).await
        }
        .boxed()
    }

    fn exec_sync<'a>(
        &'a self,
        id: &'a ContainerId,
        command: Vec<String>,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<ExecOutput, RuntimeError>> {
        request!(self, Request::ExecSync { id: id.clone(), command, timeout }, Response::Output(output) => output)
    }

    fn attach<'a>(
        &'a self,
        id: &'a ContainerId,
        streams: SessionStreams,
    ) -> BoxFuture<'a, Result<Session, RuntimeError>> {
        async move { self.shared.session(Purpose::Attach { id: id.clone(), streams }).await }.boxed()
    }

    fn listeners<'a>(
        &'a self,
        pod: &'a PodUid,
        port: u16,
    ) -> BoxFuture<'a, Result<Vec<SocketAddr>, RuntimeError>> {
        request!(self, Request::Listeners(pod.clone(), port), Response::Addresses(addresses) => addresses)
    }

    fn every_listener<'a>(
        &'a self,
        pod: &'a PodUid,
        transport: Transport,
    ) -> BoxFuture<'a, Result<Vec<SocketAddr>, RuntimeError>> {
        let request = match transport {
            Transport::Tcp => Request::EveryListener(pod.clone()),
            Transport::Udp => Request::EveryDatagramSocket(pod.clone()),
        };
        request!(self, request, Response::Addresses(addresses) => addresses)
    }

    fn dialer(&self) -> Dialer {
        match self.shared.config.network {
            Some(_) => Arc::new(HostDialer { shared: self.shared.clone(), pod: None }),
            None => Arc::new(LocalDialer),
        }
    }

    fn pod_dialer(&self, pod: &PodUid) -> Option<Dialer> {
        self.shared.config.network.as_ref()?;
        Some(Arc::new(HostDialer { shared: self.shared.clone(), pod: Some(pod.clone()) }))
    }

    fn log_files<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Vec<PathBuf>, RuntimeError>> {
        request!(self, Request::LogFiles(id.clone()), Response::Files(files) => files)
    }

    fn container_dirs(&self, pod: &PodUid, id: &ContainerId) -> Vec<PathBuf> {
        let node = &self.shared.config.state_dir;
        // The last directory is used if there are no namespaces.
        vec![
            journal::container_dir(node, id),
            journal::tmp_dir(node, id),
            journal::pod_dir(node, pod).join(&id.0),
        ]
    }

    fn usage_of_all(&self) -> BoxFuture<'_, Result<UsageByPod, RuntimeError>> {
        request!(self, Request::UsageOfAll, Response::UsageOfAll(usage) => usage)
    }

    fn usage<'a>(&'a self, pod: &'a PodUid) -> BoxFuture<'a, Result<BTreeMap<String, Usage>, RuntimeError>> {
        request!(self, Request::Usage(pod.clone()), Response::Usage(usage) => usage)
    }
}
