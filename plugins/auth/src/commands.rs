//! Commands of the app's command line: accounts, tokens for development, and keys.

use linchpin::{Adapters, Code, Command, Error, Result};

use crate::secret::SecretText;
use crate::service::{Account, AuthService, NewUser};

const USER: &str = "creates an account, or adds roles to it: \
    IDENTIFIER [--role R]… [--password-stdin] [--existing]";
const TOKEN: &str = "prints a token of an account, and creates the account if needed (development only): \
    IDENTIFIER [--role R]…";
const REKEY: &str = "encrypts stored data with the newest key, and reports which values need a \
    former key: [--end-recovery-codes]";
const END_CODES: &str = "--end-recovery-codes";
const STDIN: &str = "--password-stdin";
const EXISTING: &str = "--existing";

pub(crate) fn all() -> Vec<Command> {
    vec![
        Command::over("user", USER, user),
        Command::over("token", TOKEN, token),
        Command::over("rekey", REKEY, rekey),
    ]
}

/// The arguments of a command for one account.
#[derive(Debug, PartialEq)]
struct AccountArguments {
    identifier: String,
    roles: Vec<String>,
    /// Whether the password is read from standard input.
    reads_password: bool,
    /// Whether `--existing` confirms that an existing account is the intended one.
    existing: bool,
}

impl AccountArguments {
    /// Reads the arguments after the name of the command.
    fn read(command: &str, is_user_command: bool, arguments: &[String]) -> Result<Self> {
        let usage = |what: String| {
            let more = if is_user_command {
                format!(" [{STDIN}] [{EXISTING}]")
            } else {
                String::new()
            };
            message_error(format!(
                "{what}\nusage: {command} IDENTIFIER [--role R]…{more}"
            ))
        };
        // `token` works in development only, so it needs no confirmation.
        let (mut identifier, mut roles, mut reads_password, mut existing) =
            (None, Vec::new(), false, !is_user_command);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--role" => {
                    let role = arguments
                        .next()
                        .ok_or_else(|| usage("`--role` needs a role".to_owned()))?;
                    if !roles.contains(role) {
                        roles.push(role.clone());
                    }
                }
                STDIN if is_user_command => reads_password = true,
                EXISTING if is_user_command => existing = true,
                option if option.starts_with('-') => {
                    return Err(usage(format!("unknown option `{option}`")));
                }
                name if identifier.is_none() => identifier = Some(name.to_owned()),
                more => {
                    return Err(usage(format!(
                        "only one IDENTIFIER is allowed: remove `{more}`"
                    )));
                }
            }
        }
        let identifier = identifier
            .ok_or_else(|| usage("the identifier of an account is missing".to_owned()))?;
        Ok(Self {
            identifier,
            roles,
            reads_password,
            existing,
        })
    }
}

/// `user root@example.com --role admin`
async fn user(adapters: Adapters, arguments: Vec<String>) -> Result<String> {
    let asked = AccountArguments::read("user", true, &arguments)?;
    let service = adapters.provided::<AuthService>()?;
    let found = service.account_by_identifier(&asked.identifier).await?;
    let already = if found.is_some() {
        " (existed already)"
    } else {
        ""
    };
    let (account, password) = match found {
        Some(_) if asked.reads_password => {
            return Err(message_error(format!(
                "{} already has an account, and only its owner can change the password: leave out `{STDIN}`",
                asked.identifier
            )));
        }
        Some(account) => (with_roles(&service, account, &asked).await?, None),
        None => {
            let typed = if asked.reads_password {
                Some(read_stdin().await?)
            } else {
                None
            };
            let made = if typed.is_none() && service.has_passwords() {
                Some(service.generated_password()?)
            } else {
                None
            };
            (
                create_user(&service, &asked, typed.or_else(|| made.clone())).await?,
                made,
            )
        }
    };
    let roles = if account.roles.is_empty() {
        "none".to_owned()
    } else {
        account.roles.join(", ")
    };
    let password = password
        .map(|password| format!("\npassword: {}", password.expose()))
        .unwrap_or_default();
    Ok(format!(
        "account: {}{already}\nroles: {roles}{password}",
        account.identifier
    ))
}

/// `token alice@example.com --role admin`
async fn token(adapters: Adapters, arguments: Vec<String>) -> Result<String> {
    let asked = AccountArguments::read("token", false, &arguments)?;
    let service = adapters.provided::<AuthService>()?;
    if service.is_production() {
        return Err(message_error(
            "`token` works in development only; in production users sign in, and programs use \
             `security.apiCredentials`",
        ));
    }
    let account = match service.account_by_identifier(&asked.identifier).await? {
        Some(account) => with_roles(&service, account, &asked).await?,
        None => create_user(&service, &asked, None).await?,
    };
    Ok(service.sign_in(&account.id).await?.expose().to_owned())
}

/// `rekey` or `rekey --end-recovery-codes`
async fn rekey(adapters: Adapters, arguments: Vec<String>) -> Result<String> {
    let ends = match arguments.as_slice() {
        [] => false,
        [option] if option == END_CODES => true,
        [other, ..] => {
            return Err(message_error(format!(
                "unknown argument `{other}`\nusage: rekey [{END_CODES}]"
            )));
        }
    };
    let service = adapters.provided::<AuthService>()?;
    let done = if ends {
        service.rekey_ending_codes().await?
    } else {
        service.rekey().await?
    };
    let mut lines = vec![format!(
        "{} stored values were encrypted with the newest key",
        done.rewritten
    )];
    if done.ended > 0 {
        lines.push(format!(
            "{} recovery codes of a former key were ended, and their owners got a mail",
            done.ended
        ));
    }
    lines.push(match done.dependents() {
        None => "no former key is needed any more: former secrets and data keys can be removed; \
                 the sessions that a removed secret signed end"
            .to_owned(),
        Some(dependents) if done.codes == 0 => format!("still needed: {dependents}"),
        Some(dependents) => format!(
            "still needed: {dependents}; ask the owners to create new codes, or run `rekey {END_CODES}`, which \
             ends these codes and mails their owners"
        ),
    });
    Ok(lines.join("\n"))
}

/// Creates the account. Its address counts as verified.
async fn create_user(
    service: &AuthService,
    asked: &AccountArguments,
    password: Option<SecretText>,
) -> Result<Account> {
    service.require_declared_roles(&asked.roles)?;
    let mut new = NewUser::new(asked.identifier.as_str()).verified();
    new.password = password;
    new.roles = (!asked.roles.is_empty()).then(|| asked.roles.clone());
    service.create_user(new).await
}

/// Adds roles to an existing account. An account with an unverified address gets none. An account
/// with an identifier that cannot be verified needs `--existing`.
async fn with_roles(
    service: &AuthService,
    account: Account,
    asked: &AccountArguments,
) -> Result<Account> {
    let wanted = &asked.roles;
    service.require_declared_roles(wanted)?;
    let mut roles = account.roles.clone();
    roles.extend(
        wanted
            .iter()
            .filter(|role| !account.roles.contains(role))
            .cloned(),
    );
    if roles == account.roles {
        return Ok(account);
    }
    // Otherwise anyone who signed up with this identifier first would get the roles.
    if !service.identifies_by_email() && !asked.existing {
        return Err(message_error(format!(
            "{} already has an account, which may belong to anyone who signed up first; \
             add `{EXISTING}` if this is the intended account",
            account.identifier
        )));
    }
    if service.identifies_by_email() && account.email_verified_at.is_none() {
        return Err(message_error(format!(
            "{} already has an account, and its address is not verified: it may belong to anyone \
             who knows that address, so it gets no roles; its owner must follow a mailed link \
             first, or the code of the app must call `AuthService::set_email_verified`",
            account.identifier
        )));
    }
    service.set_roles(&account.id, roles).await
}

/// Returns the first line of standard input.
async fn read_stdin() -> Result<SecretText> {
    let read = || {
        let mut line = zeroize::Zeroizing::new(String::new());
        std::io::stdin()
            .read_line(&mut line)
            .map(|_| SecretText::new(line.trim_end_matches(['\r', '\n'])))
    };
    let password = tokio::task::spawn_blocking(read)
        .await
        .map_err(Error::internal)?
        .map_err(|error| message_error(error.to_string()))?;
    if password.expose().is_empty() {
        Err(message_error(format!(
            "`{STDIN}` needs a password on standard input"
        )))
    } else {
        Ok(password)
    }
}

/// An error whose text is printed on the command line.
fn message_error(text: impl Into<String>) -> Error {
    Error::new(Code::Internal, text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_in_any_order() {
        let read = |line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            AccountArguments::read("user", true, &arguments)
        };
        let asked =
            read("--role admin a@x.test --password-stdin --role member --existing --role admin")
                .unwrap();
        let roles = vec!["admin".to_owned(), "member".to_owned()];
        assert_eq!(
            asked,
            AccountArguments {
                identifier: "a@x.test".to_owned(),
                roles,
                reads_password: true,
                existing: true
            }
        );
        for (line, what) in [
            ("", "the identifier of an account is missing"),
            ("a b", "remove `b`"),
            ("a --role", "`--role` needs a role"),
            ("a --rol b", "unknown option `--rol`"),
        ] {
            let error = read(line).unwrap_err();
            assert!(
                error.message().contains(what)
                    && error.message().contains("usage: user IDENTIFIER"),
                "{line}: {}",
                error.message()
            );
        }
        let error = AccountArguments::read("token", false, &["a".to_owned(), STDIN.to_owned()])
            .unwrap_err();
        assert!(
            error
                .message()
                .ends_with("usage: token IDENTIFIER [--role R]…"),
            "{}",
            error.message()
        );
    }

    /// A secret of another plugin.
    #[linchpin::entity(routes(disabled))]
    #[derive(Debug)]
    pub(crate) struct Gadget {
        #[field(primary)]
        pub(crate) id: String,
        pub(crate) secret: String,
    }

    static GADGETS: linchpin::Package =
        linchpin::package!(name = "gadget-records", entities = [entity(Gadget)]);

    struct Gadgets;

    impl linchpin::Plugin for Gadgets {
        fn name(&self) -> &'static str {
            "gadgets"
        }

        fn packages(&self) -> &[&'static linchpin::Package] {
            static PACKAGES: [&linchpin::Package; 1] = [&GADGETS];
            &PACKAGES
        }

        fn setup_post<'a>(
            &'a self,
            cx: &'a mut linchpin::PostCx,
        ) -> linchpin::BoxFuture<'a, Result<()>> {
            Box::pin(async { cx.sealed_field(gadget::secret) })
        }
    }

    /// The keys of the app come first, and the secrets of other plugins are encrypted again too.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn secrets_of_other_plugins_are_encrypted_again() {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        use linchpin::seal::{DataKeys, Key, Place, Rekey};

        let config = linchpin::Config::new()
            .signing_secret("a secret of at least thirty-two bytes")
            .port(0)
            .database("memory:")
            .data_keys([
                ("b", STANDARD.encode([2; 32])),
                ("a", STANDARD.encode([1; 32])),
            ]);
        let app = linchpin::App::new(config)
            .plugin(crate::Auth::new())
            .plugin(Gadgets)
            .start()
            .await
            .unwrap();
        let place = Place::of(gadget::secret, "g1");
        let old = DataKeys::new([("a".to_owned(), Key::new([1; 32]))]).unwrap();
        let new = GadgetCreate {
            id: "g1".to_owned(),
            secret: old.seal(place, b"hunter2").unwrap(),
        };
        let gadgets = app.adapters().get::<Gadget>().unwrap();
        let cx = linchpin::Cx::system("test");
        gadgets.create(&cx, new).await.unwrap();
        let output = rekey(app.adapters().clone(), Vec::new()).await.unwrap();
        assert!(
            output.starts_with("1 stored values") && output.contains("no former key is needed"),
            "{output}"
        );
        let written = gadgets.get(&cx, "g1").await.unwrap().unwrap().secret;
        assert!(written.starts_with("v1.b."), "{written}");
        let keys = app.adapters().provided::<Rekey>().unwrap();
        // The key of the secret is the oldest.
        assert_eq!(keys.keys().kids().count(), 3);
        assert_eq!(
            keys.keys().open(place, &written).unwrap().expose(),
            b"hunter2"
        );
        app.stop().await.unwrap();
    }

    /// Anyone may have been the first to sign up with the user name.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_user_command_grants_no_role_to_an_existing_user_name() {
        let config = linchpin::Config::new()
            .signing_secret("a secret of at least thirty-two bytes")
            .port(0)
            .database("memory:");
        let auth = crate::Auth::new()
            .roles(["admin"])
            .configure(|config| config.auth.primary_field = crate::PrimaryField::Username);
        let app = linchpin::App::new(config)
            .plugin(auth)
            .start()
            .await
            .unwrap();
        let run = async |line: &str| {
            user(
                app.adapters().clone(),
                line.split(' ').map(str::to_owned).collect(),
            )
            .await
        };
        assert!(run("root").await.unwrap().contains("roles: none"));
        let refused = run("root --role admin").await.unwrap_err();
        assert!(refused.message().contains("`--existing`"), "{refused:?}");
        assert!(
            run("root")
                .await
                .unwrap()
                .ends_with("root (existed already)\nroles: none")
        );
        assert!(
            run("root --role admin --existing")
                .await
                .unwrap()
                .ends_with("roles: admin")
        );
        // Nothing needs a former key, and the output says so.
        let output = rekey(app.adapters().clone(), Vec::new()).await.unwrap();
        assert!(
            output.contains("no former key is needed any more"),
            "{output}"
        );
        let refused = rekey(app.adapters().clone(), vec!["--end".to_owned()])
            .await
            .unwrap_err();
        assert!(
            refused
                .message()
                .ends_with("usage: rekey [--end-recovery-codes]"),
            "{refused:?}"
        );
        app.stop().await.unwrap();
    }
}
