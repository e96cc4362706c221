//! The command `push`: it generates VAPID keys and writes the file of the service worker.

use std::path::Path;

use linchpin::{Code, Error, Result};

use crate::crypto::VapidKey;

pub(crate) const ABOUT: &str =
    "generates a VAPID key, or writes the service worker: keys | worker [DIRECTORY]";

/// The service worker.
pub(crate) const WORKER: &str = include_str!("sw.js");
/// The default directory of the file `sw.js`.
const PUBLIC: &str = "public";

pub(crate) fn run(args: &[String]) -> Result<String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["keys"] => Ok(keys()),
        ["worker"] => write(Path::new(PUBLIC)),
        ["worker", directory] => write(Path::new(directory)),
        _ => Err(Error::new(
            Code::Internal,
            "usage: push keys | push worker [DIRECTORY]",
        )),
    }
}

fn keys() -> String {
    let key = VapidKey::generate();
    format!(
        "The private key. Keep it secret, and set it in the environment of the app:\nLINCHPIN_PUSH_VAPID={}\n\n\
         The public key. Pages also get it from `/__push/vapid-public-key`:\n{}",
        *key.private_text(),
        key.public_text()
    )
}

fn write(directory: &Path) -> Result<String> {
    let file = directory.join("sw.js");
    let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&file, WORKER));
    match written {
        Ok(()) => Ok(format!(
            "{} written. Serve it as `/sw.js` with `Cache-Control: no-cache`.",
            file.display()
        )),
        Err(error) => Err(Error::new(
            Code::Internal,
            format!("{} cannot be written: {error}", file.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn the_app_accepts_a_printed_key() {
        let text = run(&args(&["keys"])).unwrap();
        let private = text
            .lines()
            .find_map(|line| line.strip_prefix("LINCHPIN_PUSH_VAPID="))
            .unwrap();
        let key = VapidKey::parse(private).unwrap();
        assert_eq!(text.lines().last(), Some(key.public_text()));
    }

    #[test]
    fn the_command_writes_the_service_worker() {
        let folder = tempfile::tempdir().unwrap();
        let public = folder.path().join("web/public");
        run(&args(&["worker", public.to_str().unwrap()])).unwrap();
        assert_eq!(
            std::fs::read_to_string(public.join("sw.js")).unwrap(),
            WORKER
        );
    }

    #[test]
    fn other_arguments_are_refused() {
        for wrong in [&[][..], &["key"], &["worker", "a", "b"], &["keys", "x"]] {
            assert!(run(&args(wrong)).is_err(), "{wrong:?}");
        }
    }
}
