//! The lock of migrations: a file next to the database, on which the migrating process takes a lock
//! of the operating system.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use linchpin_core::schema::{Locking, SchemaError, SchemaFault, SchemaLock};
use linchpin_core::{BoxFuture, Timestamp};

use super::connect::with_suffix;
use super::fault::{self, Outcome};
use super::identity;
use super::session::blocking;

/// The maximum number of bytes to read from a lock file. The process that takes the lock writes its
/// host, its process id and the current time there.
const MAX_DESCRIPTION_BYTES: u64 = 1024;

/// Takes the lock of a database file. The operating system releases it when the process ends.
pub(super) fn take(database: &Path) -> Outcome<Locking> {
    let path = with_suffix(&identity::canonical(database)?, ".migrate-lock");
    let failed = |error: &std::io::Error| fault::of_file(error, "cannot lock the database");
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path).map_err(|error| failed(&error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = Vec::new();
            let read = file.take(MAX_DESCRIPTION_BYTES).read_to_end(&mut text);
            read.map_err(|error| failed(&error))?;
            let text = String::from_utf8_lossy(&text);
            return Ok(Locking::Busy(match text.trim() {
                "" => "another process".to_owned(),
                text => text.chars().filter(|c| !c.is_control()).collect(),
            }));
        }
        Err(TryLockError::Error(error)) => return Err(failed(&error)),
    }
    let describe = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        let (process, start) = (std::process::id(), Timestamp::system_now());
        writeln!(file, "{}, process {process}, since {start}", host())
    };
    describe(&mut file).map_err(|error| failed(&error))?;
    Ok(Locking::Taken(Box::new(Lock { file, path })))
}

fn host() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let named = kernel.or_else(|| std::env::var("HOSTNAME").ok());
    let named = named.or_else(|| std::env::var("COMPUTERNAME").ok());
    named.map_or_else(|| "unknown host".to_owned(), |name| name.trim().to_owned())
}

/// A lock that this process holds. The lock file is not deleted on release; a file without a lock
/// blocks no process.
#[derive(Debug)]
struct Lock {
    file: File,
    path: PathBuf,
}

impl SchemaLock for Lock {
    /// Fails if the lock file was deleted or replaced, because another process could lock the new
    /// file.
    fn check(&mut self) -> BoxFuture<'_, Outcome<()>> {
        let (file, path) = (self.file.try_clone(), self.path.clone());
        Box::pin(blocking(move || {
            let locked = file.and_then(|file| file.metadata());
            let current = std::fs::metadata(path);
            match (locked, current) {
                (Ok(locked), Ok(current)) if identity::same(&locked, &current) => Ok(()),
                _ => Err(SchemaError::new(
                    SchemaFault::LockLost,
                    "the lock file was deleted or replaced",
                )),
            }
        }))
    }
}
