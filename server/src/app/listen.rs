//! Listening: connections in, requests out, and the stop that loses nothing.

use std::convert::Infallible;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tower_service::Service;

use super::abandoned::Attentive;
use super::checks::startup;
use super::config::Config;
use super::exchange::{Exchange, Explained};
use super::peers::{self, Peers};
use super::running::{Built, Running};
use super::stream::Impatient;
use crate::Result;
use crate::resource::sweep;

/// How long a client may take to send the head of a request, and how long a connection may idle
/// between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client that has just connected may take for its first request: whoever connects means
/// to say something.
const FIRST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may leave an answer unread.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Descriptors that connections leave to the store, to files and to the log.
const RESERVE: usize = 64;
/// Most bytes of a request's head; more is answered 431, and so are more than 100 headers.
const MAX_HEAD: usize = 64 << 10;

impl Built {
    /// Step 14: opens the port.
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
        let (adapters, within) = (self.adapters.clone(), service.clone());
        for plugin in self.plugins() {
            plugin.started();
        }
        let most = config
            .max_connections
            .min(descriptors().map_or(usize::MAX, |all| all.saturating_sub(RESERVE).max(1)));
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
            accept(listener, service, stopped, self.grace, most, peers).await;
            if let Some(sweeper) = sweeper {
                sweeper.abort();
                // Aborted or not: it must not run any more when the store is closed.
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
            service: within,
            stop,
            task,
        })
    }
}

async fn accept(
    listener: TcpListener,
    service: crate::http::HttpService,
    mut stopped: watch::Receiver<bool>,
    grace: Duration,
    most: usize,
    peers: Peers,
) {
    // Every connection holds a sender; the receiver ends when the last one is gone.
    let (open, mut all_closed) = mpsc::channel::<Infallible>(1);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(MAX_HEAD);
    // A client that has said all it has to say may close its side: it is answered all the same, if
    // its answer begins within some seconds. One that has left is found by the stream, see
    // `abandoned`.
    http.half_close(true);
    let mut connections = JoinSet::new();
    let mut told_full = false;
    loop {
        let full = connections.len() >= most;
        if full && !std::mem::replace(&mut told_full, true) {
            tracing::warn!(
                most,
                "as many connections are open as may be; further ones wait"
            );
        }
        let (stream, client) = tokio::select! {
            Some(_) = connections.join_next() => {
                told_full &= connections.len() + most / 10 >= most;
                continue;
            }
            accepted = listener.accept(), if !full => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, say: waiting a little lets connections end.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = told(&mut stopped) => break,
        };
        let Some(place) = peers.take(client.ip()) else {
            peers::refuse(stream);
            continue;
        };
        // Answers are written whole, so waiting for more to send only delays them.
        let _ = stream.set_nodelay(true);
        let service = service.from_address(client.ip());
        let exchange = Exchange::default();
        let begins = exchange.clone();
        let stream = Explained::new(
            Impatient::new(Attentive::new(stream, exchange.clone()), UNREAD_TIMEOUT),
            exchange.clone(),
        );
        let answer = service_fn(move |request: hyper::Request<Incoming>| {
            let (mut service, exchange) = (service.clone(), exchange.clone());
            let begun = exchange.begin();
            async move {
                let connects = request.method() == hyper::Method::CONNECT;
                let answer = match crate::http::refused_host(&request) {
                    Some(refused) => refused,
                    None => service
                        .call(request)
                        .await
                        .unwrap_or_else(|never| match never {}),
                };
                // A refused tunnel is none: what follows is HTTP still.
                if (connects && answer.status().is_success())
                    || answer.status() == hyper::StatusCode::SWITCHING_PROTOCOLS
                {
                    exchange.upgrade();
                }
                Ok::<_, Infallible>(answer.map(|body| begun.answer(body)))
            }
        });
        let connection = http
            .serve_connection(TokioIo::new(stream), answer)
            .with_upgrades();
        let (mut stopped, open) = (stopped.clone(), open.clone());
        connections.spawn(async move {
            tokio::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = told(&mut stopped) => {
                    // Finishes the request at hand and closes instead of waiting for another one.
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
                () = silence(&begins) => Ok(()),
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
            drop((open, place));
        });
    }
    drop(listener);
    drop(open);
    if tokio::time::timeout(grace, all_closed.recv())
        .await
        .is_err()
    {
        tracing::warn!(
            "some requests did not finish within {} s and were cut",
            grace.as_secs()
        );
    }
    // Nothing may still run when plugins are torn down and the store is closed.
    connections.shutdown().await;
    if tokio::time::timeout(grace, service.idle()).await.is_err() {
        tracing::warn!(
            "some calls whose clients had left did not finish within {} s and were cut",
            grace.as_secs()
        );
    }
}

/// Returns when a client has connected and asked for nothing for too long.
async fn silence(exchange: &Exchange) {
    tokio::time::sleep(FIRST_TIMEOUT).await;
    if exchange.has_begun() {
        std::future::pending::<()>().await;
    }
}

/// How many files the process may open, where the system tells.
fn descriptors() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    limits.lines().find_map(|line| {
        line.strip_prefix("Max open files")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    })
}

/// Returns once the app is to stop; also when its handle was dropped.
async fn told(stopped: &mut watch::Receiver<bool>) {
    // The value is looked at here, so that no guard of it lives on in the caller.
    drop(stopped.wait_for(|stop| *stop).await);
}
