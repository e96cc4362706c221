//! Certificates: a host must have a valid certificate for its name.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use linchpin_safe_client::{Answers, Failure, Resolve, Roots, SafeClient, Settings};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{post, settings};

struct ThisMachine;

impl Resolve for ThisMachine {
    fn resolve<'a>(&'a self, _: &'a str) -> Answers<'a> {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
    }
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    der: Vec<u8>,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let der = params.self_signed(&key).unwrap().der().to_vec();
    Authority {
        issuer: Issuer::new(params, key),
        der,
    }
}

/// Serves TLS with a certificate of an authority; returns the port.
async fn server(authority: &Authority, name: &str, change: fn(&mut CertificateParams)) -> u16 {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    change(&mut params);
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate.der().to_vec())],
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                    .await;
                let _ = stream.shutdown().await;
            });
        }
    });
    port
}

fn trusting(authority: &Authority) -> SafeClient {
    SafeClient::new(Settings {
        resolver: Arc::new(ThisMachine),
        roots: Roots::Only(vec![authority.der.clone()]),
        allow_http: false,
        ..settings()
    })
    .unwrap()
}

fn url(port: u16) -> String {
    format!("https://hooks.example:{port}/")
}

#[tokio::test]
async fn a_host_with_its_certificate_is_reached() {
    let authority = authority();
    let port = server(&authority, "hooks.example", |_| ()).await;
    let reply = trusting(&authority).send(post(url(port))).await.unwrap();
    assert_eq!(reply.status, 200);
    // A host with a final dot is the same host. Certificates contain its name without the dot.
    let dotted = format!("https://hooks.example.:{port}/");
    let reply = trusting(&authority).send(post(dotted)).await.unwrap();
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn wrong_certificates_are_refused() {
    let (known, foreign) = (authority(), authority());
    let expired = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 1);
    };
    let early = |params: &mut CertificateParams| params.not_before = date_time_ymd(2999, 1, 1);
    let ports = [
        server(&known, "other.example", |_| ()).await,
        server(&known, "127.0.0.1", |_| ()).await,
        server(&known, "hooks.example", expired).await,
        server(&known, "hooks.example", early).await,
        server(&foreign, "hooks.example", |_| ()).await,
    ];
    for port in ports {
        let failure = trusting(&known).send(post(url(port))).await.unwrap_err();
        assert!(matches!(failure, Failure::Tls(_)), "{failure}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        std::future::pending::<()>().await;
    });
    let failure = trusting(&authority())
        .send(post(url(port)))
        .await
        .unwrap_err();
    assert!(matches!(failure, Failure::Tls(_)), "{failure}");
}
