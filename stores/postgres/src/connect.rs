//! Connections to the server: address, encryption, settings.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{SimpleQueryMessage, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresOptions;
use super::lane::Causes;
use linchpin_core::{Code, Error, Result};

/// A statement on a shared connection waits at most this long for a lock.
const SHORT_LOCK_TIMEOUT: Duration = Duration::from_millis(50);

/// The future that does the input and output of a connection. It ends with the connection.
pub(super) type Driver =
    Pin<Box<dyn Future<Output = std::result::Result<(), tokio_postgres::Error>> + Send>>;

/// A connection whose messages the caller must poll.
pub(super) type Listening =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Creates connections.
pub(super) struct Connector {
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    settings: String,
    pub(super) connect_timeout: Duration,
}

fn invalid(what: impl std::fmt::Display) -> Error {
    Error::new(
        Code::Internal,
        format!("the database URL is not valid: {what}"),
    )
}

impl Connector {
    pub(super) fn new(options: &PostgresOptions) -> Result<Self> {
        let mut url = url::Url::parse(&options.url).map_err(invalid)?;
        let (mut mode, mut roots) = ("prefer".to_owned(), None);
        let mut others = Vec::new();
        for (key, value) in url.query_pairs() {
            match &*key {
                "sslmode" => mode = value.into_owned(),
                "sslrootcert" => roots = Some(value.into_owned()),
                _ => others.push((key.into_owned(), value.into_owned())),
            }
        }
        url.set_query(None);
        if !others.is_empty() {
            // Spaces must be `%20`: the driver does not read a plus sign as a space.
            let pairs: Vec<String> = others
                .iter()
                .map(|(k, v)| format!("{}={}", escaped(k), escaped(v)))
                .collect();
            url.set_query(Some(&pairs.join("&")));
        }
        let mut config: tokio_postgres::Config =
            url.as_str().parse().map_err(|e: tokio_postgres::Error| {
                // The source error names the parameter, never the password.
                invalid(
                    std::error::Error::source(&e)
                        .map_or_else(|| e.to_string(), ToString::to_string),
                )
            })?;
        let (ssl, trust) = match mode.as_str() {
            "disable" => (SslMode::Disable, Trust::Anything),
            "prefer" => (SslMode::Prefer, Trust::Anything),
            "require" => (SslMode::Require, Trust::Anything),
            "verify-full" => (SslMode::Require, Trust::Verified),
            _ => {
                return Err(invalid(
                    "sslmode must be disable, prefer, require or verify-full",
                ));
            }
        };
        config
            .ssl_mode(ssl)
            .connect_timeout(options.connect_timeout)
            .application_name("linchpin");
        config.keepalives_idle(Duration::from_secs(30));
        let millis = options.statement_timeout.as_millis();
        let commit = if options.synchronous_commit {
            "on"
        } else {
            "off"
        };
        let settings = format!(
            "SET statement_timeout = {millis}; SET standard_conforming_strings = on; SET synchronous_commit = {commit}; \
             SET client_encoding = 'UTF8'; SET timezone = 'UTC'; SET default_transaction_isolation = 'read committed'"
        );
        Ok(Self {
            config,
            tls: MakeRustlsConnect::new(tls(trust, roots.as_deref())?),
            settings,
            connect_timeout: options.connect_timeout,
        })
    }

    /// Returns a connector for reads that an index covers. With its settings the server plans each
    /// statement once for all arguments, and uses the index even without statistics of the table.
    /// Settings that the server does not have are left out.
    pub(super) fn indexed(&self) -> Self {
        let off = [
            "enable_seqscan",
            "enable_bitmapscan",
            "enable_sort",
            "enable_incremental_sort",
            "jit",
        ];
        let set = [
            ("plan_cache_mode", "force_generic_plan"),
            ("max_parallel_workers_per_gather", "0"),
        ];
        let set: Vec<String> = off
            .into_iter()
            .map(|name| (name, "off"))
            .chain(set)
            .map(|(name, value)| format!("('{name}', '{value}')"))
            .collect();
        let settings = format!(
            "{}; SELECT set_config(name, value, false) FROM (VALUES {}) AS wanted(name, value) JOIN pg_settings USING (name)",
            self.settings,
            set.join(", ")
        );
        Self {
            config: self.config.clone(),
            tls: self.tls.clone(),
            settings,
            connect_timeout: self.connect_timeout,
        }
    }

    /// Returns a connector with another `statement_timeout`.
    pub(super) fn limited(&self, to: Duration) -> Self {
        let settings = format!(
            "{}; SET statement_timeout = {}",
            self.settings,
            to.as_millis()
        );
        Self {
            config: self.config.clone(),
            tls: self.tls.clone(),
            settings,
            connect_timeout: self.connect_timeout,
        }
    }

    /// Returns a connector whose statements wait at most 50 ms for a lock.
    pub(super) fn with_short_lock_timeout(&self) -> Self {
        let settings = format!(
            "{}; SET lock_timeout = {}",
            self.settings,
            SHORT_LOCK_TIMEOUT.as_millis()
        );
        Self {
            config: self.config.clone(),
            tls: self.tls.clone(),
            settings,
            connect_timeout: self.connect_timeout,
        }
    }

    /// Opens a connection without settings. The caller must spawn the driver.
    pub(super) async fn connect(
        &self,
    ) -> std::result::Result<(tokio_postgres::Client, Driver), tokio_postgres::Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        Ok((client, Box::pin(connection)))
    }

    /// Requests that the server cancels the running statement of a connection.
    pub(super) async fn cancel(
        &self,
        client: &tokio_postgres::Client,
    ) -> std::result::Result<(), tokio_postgres::Error> {
        client.cancel_token().cancel_query(self.tls.clone()).await
    }

    /// Opens a connection that the caller polls for notifications.
    pub(super) async fn connect_to_listen(
        &self,
    ) -> std::result::Result<(tokio_postgres::Client, Listening), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }

    /// Connects once to check the server, and returns a readable error.
    ///
    /// # Errors
    /// `unavailable`; the cause names server, database and user, never the password.
    pub(super) async fn probe(&self) -> Result<()> {
        let look = async {
            let (client, connection) = self.connect().await?;
            let driven = tokio::spawn(connection);
            let rows = client.simple_query("SHOW transaction_read_only").await?;
            let value = rows.iter().find_map(|m| {
                if let SimpleQueryMessage::Row(row) = m {
                    row.get(0)
                } else {
                    None
                }
            });
            let writable = value == Some("off");
            drop(client);
            // The connection is closed before the store opens others: a server may allow few
            // connections.
            drop(driven.await);
            Ok(writable)
        };
        let refused = |what: String| Err(Error::unavailable(format!("{}: {what}", self.server())));
        match tokio::time::timeout(self.connect_timeout, look).await {
            Err(_) => refused(format!("no answer within {:?}", self.connect_timeout)),
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => refused("the server accepts no writes; is it a standby?".to_owned()),
            Ok(Err(error)) => refused(self.refusal(&error)),
        }
    }

    /// The address of the server.
    fn server(&self) -> String {
        let ports = self.config.get_ports();
        let host = |(i, host): (usize, &Host)| match host {
            Host::Tcp(name) => {
                format!("{name}:{}", ports.get(i).or(ports.first()).unwrap_or(&5432))
            }
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        };
        let hosts: Vec<String> = self
            .config
            .get_hosts()
            .iter()
            .enumerate()
            .map(host)
            .collect();
        format!("the database server {}", hosts.join(", "))
    }

    fn refusal(&self, error: &tokio_postgres::Error) -> String {
        let named = |name: Option<&str>| name.unwrap_or_default().to_owned();
        let cause = Causes(error);
        match error.code() {
            Some(code) if *code == SqlState::INVALID_PASSWORD => {
                format!(
                    "it refuses the user `{}`: the password is wrong",
                    named(self.config.get_user())
                )
            }
            Some(code) if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                format!(
                    "it refuses the user `{}`: {cause}",
                    named(self.config.get_user())
                )
            }
            Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
                format!(
                    "there is no database `{}`",
                    named(self.config.get_dbname().or(self.config.get_user()))
                )
            }
            _ => cause.to_string(),
        }
    }

    /// Applies the settings of a connection.
    pub(super) async fn prepare(
        &self,
        client: &tokio_postgres::Client,
    ) -> std::result::Result<(), tokio_postgres::Error> {
        client.batch_execute(&self.settings).await
    }

    /// The statements that apply the settings.
    pub(super) fn settings(&self) -> impl Iterator<Item = &str> {
        self.settings.split("; ")
    }
}

fn escaped(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The accepted certificates.
#[derive(Clone, Copy)]
enum Trust {
    /// Any certificate, unless `sslrootcert` is set: the connection is encrypted, but the server is
    /// not authenticated. `psql` does the same if `sslmode` is `prefer` or `require`.
    Anything,
    /// Certificates for the host, signed by a known authority.
    Verified,
}

fn tls(trust: Trust, roots: Option<&str>) -> Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(Error::internal)?;
    let config = match (trust, roots) {
        // A configured root certificate is always used, like in `psql`.
        (Trust::Verified, _) | (Trust::Anything, Some(_)) => {
            builder.with_root_certificates(authorities(roots)?)
        }
        (Trust::Anything, None) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider))),
    };
    Ok(config.with_no_client_auth())
}

fn authorities(file: Option<&str>) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let Some(file) = file else {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(store);
    };
    let wrong = |e: &dyn std::fmt::Display| invalid(format!("sslrootcert {file}: {e}"));
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| wrong(&e))? {
        store
            .add(certificate.map_err(|e| wrong(&e))?)
            .map_err(|e| wrong(&e))?;
    }
    if store.is_empty() {
        Err(wrong(&"contains no certificate"))
    } else {
        Ok(store)
    }
}

/// Accepts every certificate, but still checks that the server has its private key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
