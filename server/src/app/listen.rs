//! The listener: it accepts connections, passes requests to the service, and stops without losing
//! requests.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, join_all};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tower_service::Service;

use super::abandoned::ClientWatch;
use super::checks::startup;
use super::config::Config;
use super::exchange::{Exchange, RefusalBodies};
use super::peers::{self, Peers};
use super::plugin::Plugin;
use super::running::{Built, Running};
use super::stream::WriteTimeout;
use crate::Result;
use crate::http::{HttpService, Socket, SocketSlot, UnreadLimit};
use crate::resource::sweep;

/// The time limit for the head of a request, and for an idle connection between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for the first request of a new connection. It is shorter, because a client
/// usually sends a request at once.
const FIRST_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for a client that does not read its response.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// File descriptors reserved for the store, files and the log.
const RESERVE: usize = 64;
/// The maximum size of a request head; larger ones get 431, and so do more than 100 headers.
const MAX_HEAD: usize = 64 << 10;

impl Built {
    /// Step 14 of start-up: opens the port.
    pub(super) async fn listen(mut self, config: &Config) -> Result<Running> {
        let bound = TcpListener::bind((config.host, config.port))
            .await
            .and_then(|l| Ok((l.local_addr()?, l)));
        let (address, listener) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                self.undo().await;
                return Err(startup(format!(
                    "cannot listen on {}:{}: {error}",
                    config.host, config.port
                )));
            }
        };
        let Some(service) = self.service.take() else {
            return Err(startup("the app was not built"));
        };
        // Nothing else sets the address, so this cannot fail.
        let _ = self.listens_on.set(address);
        let ended = self
            .lease_task
            .as_ref()
            .map(|lease_task| lease_task.ended.clone());
        let (adapters, running_service) = (self.adapters.clone(), service.clone());
        for plugin in self.plugins() {
            plugin.started();
        }
        let most = config
            .max_connections
            .min(max_open_files().map_or(usize::MAX, |all| all.saturating_sub(RESERVE).max(1)));
        let peers = Peers::new(config.connections_per_address, most);
        let (stop, stopped) = watch::channel(false);
        let clock = self.sweep.as_ref().map_or_else(
            || std::sync::Arc::new(crate::Timestamp::system_now) as crate::http::Clock,
            |(clock, _)| std::sync::Arc::clone(clock),
        );
        let mut swept = self.adapters.tables();
        swept.extend(
            self.claims
                .take()
                .map(|claims| std::sync::Arc::clone(claims.table())),
        );
        swept.extend(
            self.audit
                .take()
                .map(|log| std::sync::Arc::clone(log.table())),
        );
        let sweeper = self
            .sweep
            .take()
            .and_then(|(clock, every)| sweep::start(&swept, clock, every));
        let relay =
            std::mem::take(&mut self.events).start(std::sync::Arc::clone(&self.store), clock);
        let task = tokio::spawn(async move {
            let open = accept(listener, &service, stopped, most, peers).await;
            let plugins: Vec<&dyn Plugin> = self.plugins().collect();
            close(open, &service, &plugins, self.grace).await;
            drop(plugins);
            if let Some(sweeper) = sweeper {
                sweeper.abort();
                // Even an aborted task must have ended before the store is closed.
                drop(sweeper.await);
            }
            if let Some(relay) = relay {
                relay.stop().await;
            }
            self.undo().await;
        });
        Ok(Running {
            address,
            adapters,
            service: running_service,
            stop,
            task,
            ended,
        })
    }
}

/// The stream of a connection: its socket, and the layers between HTTP and the socket.
type Wire = RefusalBodies<WriteTimeout<ClientWatch>>;

/// The connections that are still open when the app stops.
struct Open {
    connections: JoinSet<()>,
    /// Ends when the last connection has ended.
    all_closed: mpsc::Receiver<Infallible>,
}

/// Accepts connections until the app stops, and closes the port. Requests are refused from then on.
async fn accept(
    listener: TcpListener,
    service: &HttpService,
    mut stopped: watch::Receiver<bool>,
    most: usize,
    peers: Peers,
) -> Open {
    // Every connection holds a sender; the receiver ends when the last one is gone.
    let (open, all_closed) = mpsc::channel::<Infallible>(1);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(MAX_HEAD);
    // A client may close its side after its request. It still gets the response, if the response
    // begins within some seconds. The stream detects a client that has left completely, see
    // `abandoned`.
    http.half_close(true);
    let mut connections = JoinSet::new();
    let mut warned_full = false;
    loop {
        let full = connections.len() >= most;
        if full && !std::mem::replace(&mut warned_full, true) {
            tracing::warn!(
                most,
                "the maximum number of connections is open; further connections wait"
            );
        }
        let (stream, client) = tokio::select! {
            Some(_) = connections.join_next() => {
                warned_full &= connections.len() + most / 10 >= most;
                continue;
            }
            accepted = listener.accept(), if !full => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // For example, no file descriptor is free: after a short wait, connections may
                    // have ended.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop_requested(&mut stopped) => break,
        };
        let Some(connection_slot) = peers.take(client.ip()) else {
            peers::refuse(stream);
            continue;
        };
        // Responses are written whole, so waiting for more data only delays them.
        let _ = stream.set_nodelay(true);
        let service = service.from_address(client.ip());
        let exchange = Exchange::default();
        let connection_exchange = exchange.clone();
        let stream = RefusalBodies::new(
            WriteTimeout::new(
                ClientWatch::new(stream, exchange.clone()),
                UNREAD_TIMEOUT,
                exchange.clone(),
            ),
            exchange.clone(),
        );
        let answer = service_fn(move |mut request: hyper::Request<Incoming>| {
            let (mut service, exchange) = (service.clone(), exchange.clone());
            let begun = exchange.begin();
            // Only a request that asks for another protocol can change the protocol of the
            // connection.
            let slot = request.extensions().get::<OnUpgrade>().is_some().then(|| {
                let slot = SocketSlot::default();
                request.extensions_mut().insert(slot.clone());
                slot
            });
            async move {
                let connects = request.method() == hyper::Method::CONNECT;
                let answer = match crate::http::refused_host(&request) {
                    Some(refused) => refused,
                    None => service
                        .call(request)
                        .await
                        .unwrap_or_else(|never| match never {}),
                };
                // After a refused CONNECT the connection still speaks HTTP.
                if (connects && answer.status().is_success())
                    || answer.status() == hyper::StatusCode::SWITCHING_PROTOCOLS
                {
                    exchange.upgrade(slot.and_then(|slot| slot.take()));
                }
                if let Some(UnreadLimit(limit)) = answer.extensions().get() {
                    exchange.limit_unread(*limit);
                }
                Ok::<_, Infallible>(answer.map(|body| begun.answer(body)))
            }
        });
        let connection = http
            .serve_connection(TokioIo::new(stream), answer)
            .with_upgrades();
        let (mut stopped, open) = (stopped.clone(), open.clone());
        // Boxed, so that the memory of the HTTP connection is freed when the socket changes its
        // protocol.
        let serving = Box::pin(async move {
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop_requested(&mut stopped) => {
                    // Finishes the current request and closes instead of waiting for another one.
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
                () = first_request_overdue(&connection_exchange) => Ok(()),
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
            connection_exchange.take_socket()
        });
        connections.spawn(async move {
            if let Some(socket) = serving.await {
                socket.run(socket_of).await;
            }
            drop((open, connection_slot));
        });
    }
    service.refuse_requests();
    Open {
        connections,
        all_closed,
    }
}

/// The socket of a connection that has changed its protocol, without the layers that HTTP needs.
fn socket_of(upgraded: Upgraded) -> Socket {
    match upgraded.downcast::<TokioIo<Wire>>() {
        Ok(parts) => {
            let stream: TcpStream = parts.io.into_inner().into_inner().into_inner().into_inner();
            Socket::new(stream, &parts.read_buf)
        }
        Err(upgraded) => Socket::wrapped(upgraded),
    }
}

/// Closes the connections: notifies the plugins, waits until all connections have ended, and cuts
/// those that are still open after the grace period.
async fn close(mut open: Open, service: &HttpService, plugins: &[&dyn Plugin], grace: Duration) {
    let notified = join_all(plugins.iter().map(|&plugin| stopping(plugin, grace)));
    if tokio::time::timeout(grace, join(notified, open.all_closed.recv()))
        .await
        .is_err()
    {
        tracing::warn!(
            "some requests did not finish within {} s and were aborted",
            grace.as_secs()
        );
    }
    // No connection may run when plugins are torn down and the store is closed.
    open.connections.shutdown().await;
    if tokio::time::timeout(grace, service.idle()).await.is_err() {
        tracing::warn!(
            "some calls of disconnected clients did not finish within {} s and were aborted",
            grace.as_secs()
        );
    }
}

/// Notifies a plugin that the app stops. A panic of the plugin must not prevent the stop.
async fn stopping(plugin: &dyn Plugin, grace: Duration) {
    let notified = AssertUnwindSafe(async { plugin.stopping(grace).await });
    if notified.catch_unwind().await.is_err() {
        tracing::error!(plugin = plugin.name(), "`stopping` panicked");
    }
}

/// Returns if a client has sent no request within [`FIRST_TIMEOUT`]; otherwise it never returns.
async fn first_request_overdue(exchange: &Exchange) {
    tokio::time::sleep(FIRST_TIMEOUT).await;
    if exchange.has_begun() {
        std::future::pending::<()>().await;
    }
}

/// The number of files that the process may open, if the system provides it.
fn max_open_files() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    limits.lines().find_map(|line| {
        line.strip_prefix("Max open files")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    })
}

/// Returns when the app stops, or when its handle was dropped.
async fn stop_requested(stopped: &mut watch::Receiver<bool>) {
    // Drops the returned guard here, so that the caller does not hold a read lock on the channel.
    drop(stopped.wait_for(|stop| *stop).await);
}
