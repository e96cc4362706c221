//! `cargo xtask conformance`: runs random call sequences on one store and on the memory model, and
//! compares the results.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{cargo, step};

/// The name of a store's test, and whether it needs the feature of that name.
const STORES: [(&str, bool); 3] = [("memory", false), ("sqlite", false), ("postgres", true)];

pub fn run(args: &[String]) -> Result<(), String> {
    let settings = Settings::read(args)?;
    let mut command = cargo(&["test", "--package", "linchpin", "--test", "conformance"]);
    if settings.feature {
        command.args(["--features", settings.store]);
    }
    command.args(["--", "--exact", settings.store, "--nocapture"]);
    command
        .env(
            "LINCHPIN_CONFORMANCE_SEQUENCES",
            settings.sequences.to_string(),
        )
        .env("LINCHPIN_CONFORMANCE_SEED", settings.seed.to_string());
    println!(
        "xtask: {} sequences on {} from seed {}",
        settings.sequences, settings.store, settings.seed
    );
    step("conformance", command)
}

#[derive(Debug, PartialEq)]
struct Settings {
    store: &'static str,
    /// Whether the store needs the feature of its name.
    feature: bool,
    sequences: u64,
    seed: u64,
}

impl Settings {
    fn read(args: &[String]) -> Result<Self, String> {
        // Each run has a new seed, unless `--seed` repeats an earlier run.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        let mut settings = Self {
            store: "sqlite",
            feature: false,
            sequences: 2000,
            seed: now,
        };
        let mut rest = args.iter().skip(1);
        while let Some(name) = rest.next() {
            let value = rest
                .next()
                .ok_or_else(|| format!("`{name}` needs a value"))?;
            let number = || {
                value
                    .parse::<u64>()
                    .map_err(|_| format!("`{name}` needs a number, not `{value}`"))
            };
            match name.as_str() {
                "--sequences" => settings.sequences = number()?,
                "--seed" => settings.seed = number()?,
                "--store" => {
                    let known = STORES.iter().find(|(store, _)| store == value);
                    let Some((store, feature)) = known else {
                        return Err(format!(
                            "no store `{value}`; known: memory, sqlite, postgres"
                        ));
                    };
                    (settings.store, settings.feature) = (store, *feature);
                }
                _ => {
                    return Err(format!(
                        "unknown option `{name}`; known: --sequences, --store, --seed"
                    ));
                }
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let args: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Settings::read(&args)
    }

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let settings = read("conformance --store postgres --sequences 300 --seed 9");
        assert_eq!(
            settings,
            Ok(Settings {
                store: "postgres",
                feature: true,
                sequences: 300,
                seed: 9
            })
        );
        for wrong in [
            "conformance --store oracle",
            "conformance --sequences many",
            "conformance --seed",
            "conformance --sequence 1",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
