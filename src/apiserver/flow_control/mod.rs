//! Fair queueing: Kubernetes' API Priority and Fairness, which orders requests under overload.
//!
//! A request belongs to a flow of a flow schema (`schema`), which belongs to a priority level. A level has
//! seats, and queues for requests without one (`queues`); a request that waits too long, or finds its queue
//! full, gets 429. Exempt requests, above all the cluster owner's, never wait.

mod queues;
mod schema;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use parking_lot::{Mutex, RwLock};
use prometheus::IntCounter;
use tokio::sync::oneshot;

use self::queues::{DispatchResult, LevelConfig, PriorityLevels, QueueTicket, QueuingConfig};
use self::schema::Schema;
use api::authorization::Attributes;
use api::deadline::REQUEST_TIMEOUT;
use api::metrics::FlowMetrics;
use api::{Api, ApiError};
use base::clock::Clock;
use base::sort::{CollectMap, SliceOrder};
use kinds::default_flows::EXEMPT;

/// The default number of concurrent requests: Kubernetes' `--max-requests-inflight` and
/// `--max-mutating-requests-inflight` together.
const SEATS: usize = 600;
/// The longest wait for a seat: a quarter of the request's time, as in Kubernetes.
const LONGEST_WAIT: Duration = Duration::from_secs(REQUEST_TIMEOUT.as_secs() / 4);

/// The seats of the server, and the requests that hold them.
pub(crate) struct FlowController {
    inner: Arc<Inner>,
    /// The schemas, and the generation of the stored ones from which they were read.
    table: RwLock<(Option<u64>, Arc<Table>)>,
}

struct Inner {
    levels: Mutex<PriorityLevels<Waiter>>,
    clock: Clock,
    metrics: FlowMetrics,
}

/// The schemas, in matching order.
#[derive(Default)]
struct Table {
    schemas: Vec<Arc<ActiveSchema>>,
}

/// A schema whose level exists.
struct ActiveSchema {
    schema: Schema,
    level_uid: String,
    is_exempt: bool,
    dispatched: IntCounter,
}

/// The flow of a request.
#[derive(Clone)]
pub(crate) struct Flow(Arc<ActiveSchema>);

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Flow").field(&self.0.schema.name).finish()
    }
}

impl Flow {
    /// Returns the uid of its schema.
    pub(crate) fn schema_uid(&self) -> &str {
        &self.0.schema.uid
    }

    /// Returns the uid of its level.
    pub(crate) fn level_uid(&self) -> &str {
        &self.0.level_uid
    }
}

/// A request that waits for a seat.
struct Waiter {
    flow: Flow,
    sender: oneshot::Sender<Seat>,
}

/// The seats of a request; released on drop.
pub(crate) struct Seat {
    of: Arc<Inner>,
    flow: Flow,
    ticket: QueueTicket,
    /// On the monotonic clock.
    since: Duration,
}

impl Seat {
    fn new(of: &Arc<Inner>, flow: Flow, place: QueueTicket) -> Self {
        of.metrics.executing(flow.labels()).inc();
        Self { of: of.clone(), flow, ticket: place, since: of.clock.monotonic() }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Self { of, flow, ticket: place, since } = self;
        of.metrics.executing(flow.labels()).dec();
        let took = of.clock.monotonic().saturating_sub(*since);
        let next = of.levels.lock().finish(&flow.0.schema.level, *place, took);
        seat(of, next);
    }
}

/// Delivers seats to the waiting requests that now get them.
fn seat(of: &Arc<Inner>, next: Vec<(QueueTicket, Waiter)>) {
    for (place, Waiter { flow, sender: tell }) in next {
        // A waiter that has left meanwhile drops the seat, which releases it.
        drop(tell.send(Seat::new(of, flow, place)));
    }
}

/// A queued request; leaves its queue on drop.
struct QueuedRequest<'a> {
    of: &'a Arc<Inner>,
    flow: &'a Flow,
    ticket: QueueTicket,
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.of.metrics.waiting(self.flow.labels()).dec();
        let next = self.of.levels.lock().leave(&self.flow.0.schema.level, self.ticket);
        seat(self.of, next);
    }
}

impl FlowController {
    /// Creates the controller of a server of this API. The limit on requests in flight is the number of seats;
    /// `None` means Kubernetes' default, 0 means unlimited.
    pub(crate) fn new(api: &Api) -> Self {
        let (clock, metrics) = (api.server_clock().clone(), api.metrics().flows.clone());
        let seats = match api.config().limits.max_requests_in_flight.unwrap_or(SEATS) {
            0 => u32::MAX,
            seats => u32::try_from(seats).unwrap_or(u32::MAX),
        };
        let levels = Mutex::new(PriorityLevels::new(seats));
        Self { inner: Arc::new(Inner { levels, clock, metrics }), table: RwLock::default() }
    }

    fn table(&self, api: &Api) -> Arc<Table> {
        let generation = api.flow_generation();
        {
            let table = self.table.read();
            if table.0 == Some(generation) {
                return table.1.clone();
            }
        }
        let mut table = self.table.write();
        let generation = api.flow_generation();
        if table.0 != Some(generation) {
            *table = (Some(generation), Arc::new(self.read(api)));
        }
        table.1.clone()
    }

    /// Reads the stored schemas and levels.
    fn read(&self, api: &Api) -> Table {
        let levels = api.list_as::<PriorityLevelConfiguration>(None);
        let limited: BTreeMap<String, LevelConfig> =
            levels.iter().filter_map(|level| Some((level.name().to_string(), config(level)?))).collect_map();
        let next = self.inner.levels.lock().configure(&limited);
        seat(&self.inner, next);
        let served = |schema: Schema| {
            let level = levels.iter().find(|level| level.name() == schema.level)?;
            Some(Arc::new(ActiveSchema {
                level_uid: level.uid().to_string(),
                is_exempt: level.spec.type_ == "Exempt",
                dispatched: self.inner.metrics.dispatched(&schema.level, &schema.name),
                schema,
            }))
        };
        let mut schemas: Vec<_> = api
            .list_as::<FlowSchema>(None)
            .iter()
            .map(|schema| Schema::new(schema))
            .filter_map(served)
            .collect();
        schemas.order_by(|a, b| a.schema.order().cmp(&b.schema.order()));
        Table { schemas }
    }

    /// Returns the flow of the cluster's owner, which is exempt.
    pub(crate) fn exempt_flow(&self, api: &Api) -> Option<Flow> {
        let table = self.table(api);
        let exempt = table.schemas.iter().find(|served| served.schema.name == EXEMPT)?;
        exempt.dispatched.inc();
        Some(Flow(exempt.clone()))
    }

    /// Waits for the seats of a request; returns its flow, without seats if it is exempt or no schema
    /// matches.
    pub(crate) async fn enter(
        &self,
        api: &Api,
        attributes: &Attributes<'_>,
        seats: u32,
    ) -> Result<(Option<Flow>, Option<Seat>), ApiError> {
        let found = {
            let table = self.table(api);
            table.schemas.iter().find(|served| served.schema.matches(attributes)).cloned()
        };
        let Some(flow) = found.map(Flow) else { return Ok((None, None)) };
        if flow.0.is_exempt {
            flow.0.dispatched.inc();
            return Ok((Some(flow), None));
        }
        let began = self.inner.clock.monotonic();
        let seat = self.seat(&flow, flow.0.schema.flow(attributes), seats).await;
        let waited = self.inner.clock.monotonic().saturating_sub(began);
        self.inner.metrics.waited(flow.labels(), seat.is_ok(), waited);
        match seat {
            Ok(seat) => {
                flow.0.dispatched.inc();
                Ok((Some(flow), Some(seat)))
            }
            Err(why) => {
                self.inner.metrics.refused(flow.labels(), why);
                Err(ApiError::TooManyRequests {
                    message: "Too many requests, please try again later.".into(),
                    causes: Vec::new(),
                    retry_after_seconds: 1,
                })
            }
        }
    }

    async fn seat(&self, flow: &Flow, hash: u64, seats: u32) -> Result<Seat, &'static str> {
        let (tell, granted) = oneshot::channel();
        let waiter = Waiter { flow: flow.clone(), sender: tell };
        let arrival = self.inner.levels.lock().arrive(&flow.0.schema.level, hash, seats, waiter);
        let place = match arrival {
            DispatchResult::Runs(place) => return Ok(Seat::new(&self.inner, flow.clone(), place)),
            DispatchResult::Refused(why) => return Err(why.name()),
            DispatchResult::Waits(place) => place,
        };
        self.inner.metrics.waiting(flow.labels()).inc();
        let _queued = QueuedRequest { of: &self.inner, flow, ticket: place };
        match tokio::time::timeout(LONGEST_WAIT, granted).await {
            Ok(Ok(seat)) => Ok(seat),
            _ => Err("time-out"),
        }
    }

    /// Follows the stored schemas and levels; requests that wait get the seats that levels gained.
    pub(crate) fn follow(&self, api: &Api) {
        drop(self.table(api));
    }

    /// Reports each level's nominal seats and its seats in use.
    pub(crate) fn report_seats(&self, mut report: impl FnMut(&str, u32, u32)) {
        for (level, load) in self.inner.levels.lock().loads() {
            report(level, load.nominal, load.in_use);
        }
    }
}

impl Flow {
    /// Returns the names of the level and the schema.
    fn labels(&self) -> (&str, &str) {
        (&self.0.schema.level, &self.0.schema.name)
    }
}

/// Returns the configuration of a level; `None` if it is exempt.
fn config(level: &PriorityLevelConfiguration) -> Option<LevelConfig> {
    let limited = level.spec.limited.as_ref()?;
    let number = |number: Option<i32>| u32::try_from(number.unwrap_or_default()).unwrap_or(0);
    let queuing = limited.limit_response.queuing.as_ref().filter(|_| limited.limit_response.type_ == "Queue");
    Some(LevelConfig {
        shares: number(limited.nominal_concurrency_shares),
        lendable_percent: number(limited.lendable_percent),
        borrowing_percent: limited.borrowing_limit_percent.map(|percent| number(Some(percent))),
        queuing: queuing.map(|queuing| QueuingConfig {
            queues: number(queuing.queues).max(1),
            hand_size: number(queuing.hand_size).max(1),
            length_limit: number(queuing.queue_length_limit) as usize,
        }),
    })
}
