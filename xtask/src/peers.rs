//! The programs that authentication is tested against: another maker of one-time codes, a real mail
//! server, other libraries of tokens, a browser, an issuer that people sign in at, a client of its
//! routes, a program that calls what an OpenAPI document describes.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

/// The folder of what runs in node: the issuer, and what reads tokens.
const ISSUER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plugins/auth/tests/peers/oidc-provider"
);

/// The folder of the client that authentication is driven by.
const CLIENT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plugins/auth/tests/peers/snapshot"
);

/// What is needed, how to tell that it is there, and how it is installed.
const PEERS: [(&str, &[&str], &[&str]); 9] = [
    (
        "openssl",
        &["openssl", "version"],
        &["apt-get", "install", "openssl"],
    ),
    (
        "oathtool",
        &["oathtool", "--version"],
        &["apt-get", "install", "oathtool"],
    ),
    (
        "chromium",
        &["chromium", "--version"],
        &["apt-get", "install", "chromium"],
    ),
    (
        "aiosmtpd",
        &["python3", "-c", "import aiosmtpd"],
        &["python3", "-m", "pip", "install", "-q", "aiosmtpd"],
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
    // In the versions of its lock file.
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
];

/// Installs what is missing. What cannot be installed is said in a sentence, before its tests fail
/// one by one.
pub(crate) fn install() -> Result<(), String> {
    let mut missing = Vec::new();
    for (name, there, install) in PEERS {
        if runs(there) {
            continue;
        }
        eprintln!("xtask: {name} is not installed; `{}`", install.join(" "));
        let done = match install {
            ["apt-get", "install", packages @ ..] => apt(packages),
            _ => runs(install),
        };
        if !(done && runs(there)) {
            missing.push(format!("{name} (`{}`)", install.join(" ")));
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "authentication cannot be tested without {}",
            missing.join(" and ")
        ))
    }
}

/// Installs packages of Debian, and says whether it could.
pub(crate) fn apt(packages: &[&str]) -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let by: &[&str] = if root { &[] } else { &["sudo", "-n"] };
    // A bare machine has no lists of packages. That they are old is no reason to fail.
    runs(&[by, &["apt-get", "update", "-q"]].concat());
    runs(
        &[
            by,
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

fn runs(command: &[&str]) -> bool {
    let (program, arguments) = (command[0], &command[1..]);
    // Debian keeps its Python from being added to unless told so; these are packages of tests.
    let mut command = Command::new(program);
    command.env("PIP_BREAK_SYSTEM_PACKAGES", "1");
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
